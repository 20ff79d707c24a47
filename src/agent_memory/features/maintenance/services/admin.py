"""Look after the store: statistics and compaction."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.spelling import suggest_nearest
from agent_memory.kernel.status import StoreStats
from agent_memory.platform.ports import StoreMaintenance


@dataclass(frozen=True, slots=True)
class Admin:
    store: StoreMaintenance

    def stats(self) -> StoreStats:
        return self.store.stats()

    def compact(self, family: str | None, on_progress: Callable[[int], None]) -> StoreStats:
        """Compact one family, or all. `on_progress` gets the number done after each, and may
        raise to stop."""
        known = [each.name for each in self.store.stats().families]
        if family is not None and family not in known:
            near = suggest_nearest(family, known, cutoff=0.6)
            raise InvalidInput(f"no column family {family!r}; there are {', '.join(known)}{near}")
        for number, name in enumerate(known if family is None else [family], 1):
            self.store.compact(name)
            on_progress(number)
        return self.store.stats()
