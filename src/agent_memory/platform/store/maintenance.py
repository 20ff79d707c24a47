"""Maintenance of a store in use, on its engine."""

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
