"""What every feature stands on: the store, the clock, the worker, the model server."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import tzinfo

from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.folders import DaemonFolders
from agent_memory.platform.foreground import Foreground
from agent_memory.platform.llm.external import ExternalServer
from agent_memory.platform.llm.llama import LlamaServer
from agent_memory.platform.opened_store import OpenStore, SharedStore
from agent_memory.platform.ports import (
    Clock,
    Leadership,
    ManagedStore,
    OrderedStore,
    StoreMaintenance,
)
from agent_memory.platform.worker.process import ProcessWorker

LeasedServer = ExternalServer | LlamaServer
HealthWatcher = Callable[[StoreHealth], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    folders: DaemonFolders
    read_only: bool
    clock: Clock
    zone: tzinfo  # of the user
    opened: OpenStore
    worker: ProcessWorker
    foreground: Foreground
    model: LeasedServer
    watchers: list[HealthWatcher]  # of the store's health, called on any thread
    programs: ExitStack  # ends the programs that jobs wait for
    closing: ExitStack  # closes what is loaded late

    @property
    def store(self) -> ManagedStore:
        return self.opened.store

    @property
    def local(self) -> OrderedStore:
        """The store for what this daemon derives for itself."""
        return self.opened.local

    @property
    def leadership(self) -> Leadership:
        return self.opened.leadership

    @property
    def sharing(self) -> SharedStore | None:
        return self.opened.sharing

    @property
    def maintenance(self) -> StoreMaintenance:
        return self.opened.maintenance
