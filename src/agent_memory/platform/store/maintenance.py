"""Maintenance of a store in use, on its engine."""

from collections.abc import Collection
from pathlib import Path

from agent_memory.kernel.status import StoreStats
from agent_memory.platform.ports import ManagedStore, StoreMaintenance


class GuardedMaintenance:
    """StoreMaintenance that a concurrent `close` of the store waits for."""

    def __init__(self, engine: StoreMaintenance, store: ManagedStore) -> None:
        self._engine = engine
        self._store = store

    def stats(self) -> StoreStats:
        with self._store.maintaining():
            return self._engine.stats()

    def compact(self, family: str, /) -> None:
        with self._store.maintaining():
            self._engine.compact(family)

    def copy_to(self, path: Path, /) -> None:
        with self._store.maintaining():
            self._engine.copy_to(path)


class SplitMaintenance:
    """StoreMaintenance of a database and of the families that this process has in its own files."""

    def __init__(
        self,
        database: StoreMaintenance,
        local: StoreMaintenance,
        *,
        local_families: Collection[str],
    ) -> None:
        self._database = database
        self._local = local
        self._local_families = local_families

    def stats(self) -> StoreStats:
        return self._database.stats()

    def compact(self, family: str, /) -> None:
        chosen = self._local if family in self._local_families else self._database
        chosen.compact(family)

    def copy_to(self, path: Path, /) -> None:
        self._database.copy_to(path)
