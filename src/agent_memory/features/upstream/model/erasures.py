"""What another machine has asked to erase here, until it is erased or kept."""

from dataclasses import dataclass
from typing import NamedTuple

from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.kernel.ids import EventId, Millis

HOUR_MS = 3_600_000
DEFAULT_HOURS = 24
MAX_HOURS = 24 * 90
MAX_COUNTED = 1_000  # a person is told of so many; the list shows all


class AskedErasure(NamedTuple):
    """Who asked for an erasure, and when."""

    person: str
    at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingErasure:
    """An event, a memory or a fact that is to be erased: exactly one of them is set. `memory` is
    its tombstone. `owner` is who recorded, captured or stated it; earlier versions did not note
    it, and a machine that nobody asks for it does not."""

    asked: AskedErasure
    owner: str | None = None
    event: EventId | None = None
    memory: Memory | None = None
    fact: FactTombstone | None = None

    @property
    def kind(self) -> str:
        if self.event is not None:
            return "event"
        return "fact" if self.memory is None else "memory"

    @property
    def name(self) -> str:
        """The id by which a user names it."""
        if self.memory is not None:
            return self.memory.urn
        return self.event or ("" if self.fact is None else self.fact.id)
