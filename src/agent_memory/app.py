"""Composition root: the only file that names concrete classes."""

import os
from dataclasses import dataclass

import structlog

from agent_memory.adapters.secrets.pass_through import PassThrough
from agent_memory.adapters.storage import schema
from agent_memory.adapters.storage.committer import CommittedStore
from agent_memory.adapters.storage.event_log import StoredEventLog
from agent_memory.adapters.storage.rocks import RocksEngine
from agent_memory.config import Settings
from agent_memory.domain.ports import OrderedStore
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.grpc.memory_service import DESCRIPTOR as MEMORY_SERVICE
from agent_memory.interfaces.grpc.memory_service import MemoryService
from agent_memory.interfaces.grpc.server import GrpcServer
from agent_memory.services.ingest import Ingest
from agent_memory.services.timeline import Timeline

log = structlog.get_logger()

EXIT_STORAGE = 4


@dataclass(frozen=True, slots=True)
class App:
    """The parts that have a life of their own. Build it on the event loop that will serve it."""

    store: OrderedStore
    bridge: Bridge
    grpc: GrpcServer

    def close(self) -> None:
        self.bridge.close()
        self.store.close()


def build(settings: Settings) -> App:
    store = CommittedStore(RocksEngine(settings.db_path), on_flush_failure=_die)
    try:
        schema.prepare(store)
    except BaseException:
        store.close()
        raise
    events = StoredEventLog(store)
    bridge = Bridge()
    memory = MemoryService(
        ingest=Ingest(log=events, secrets=PassThrough()),
        timeline=Timeline(log=events),
        bridge=bridge,
    )
    return App(
        store=store,
        bridge=bridge,
        grpc=GrpcServer({MEMORY_SERVICE.full_name: memory.handler()}),
    )


def _die(exc: BaseException) -> None:
    """After a failed flush the page cache may differ from the disk: only a new process knows."""
    log.critical("store.flush_failed", error=str(exc))
    os._exit(EXIT_STORAGE)
