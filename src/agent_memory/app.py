"""Composition root: the only file that names concrete classes."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent_memory import __version__
from agent_memory.adapters.clock import SystemClock
from agent_memory.adapters.secrets.pass_through import PassThrough
from agent_memory.adapters.storage import schema
from agent_memory.adapters.storage.committer import CommittedStore
from agent_memory.adapters.storage.event_log import StoredEventLog
from agent_memory.adapters.storage.key_ring import StoredKeyRing
from agent_memory.adapters.storage.maintenance import GuardedMaintenance
from agent_memory.adapters.storage.rocks import RocksEngine
from agent_memory.adapters.worker.process import ProcessWorker
from agent_memory.config import Settings
from agent_memory.domain.errors import FeatureUnavailable, StorageFailed
from agent_memory.domain.ports import Clock, OrderedStore, StoreMaintenance
from agent_memory.domain.status import DaemonStatus
from agent_memory.interfaces import wire
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.cli.backend import Backend, Control, Services
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.interfaces.cli.remote import connected
from agent_memory.interfaces.cli.runner import Runner
from agent_memory.interfaces.grpc.memory_service import DESCRIPTOR as MEMORY_SERVICE
from agent_memory.interfaces.grpc.memory_service import MemoryService
from agent_memory.interfaces.grpc.server import GrpcServer
from agent_memory.interfaces.guard import BearerGuard
from agent_memory.interfaces.http.server import HttpServer, health
from agent_memory.services.access import Access
from agent_memory.services.admin import Admin
from agent_memory.services.ingest import Ingest
from agent_memory.services.timeline import Timeline

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class App:
    """The parts that have a life of their own. Build it on the event loop that will serve it."""

    store: OrderedStore
    admin: Admin
    access: Access
    clock: Clock
    worker: ProcessWorker
    bridge: Bridge
    grpc: GrpcServer
    http: HttpServer
    timeline: Timeline

    def runner(self, db_path: Path, status: Callable[[], DaemonStatus]) -> Runner:
        """What runs the commands of launchers."""
        services = Services(
            timeline=self.timeline, admin=self.admin, access=self.access, status=status
        )
        return Runner(PROGRAMS, _backend(services, None, db_path), __version__)

    def close(self) -> None:
        try:
            self.bridge.close()
            self.worker.close()
        finally:
            self.store.close()


def build(settings: Settings, db_path: Path) -> App:
    if settings.storage.url:
        raise FeatureUnavailable("storage.url: no server database is supported yet; unset it")
    store, maintenance = _open(db_path, _die)
    events = StoredEventLog(store)
    clock = SystemClock()
    bridge = Bridge()
    access = Access(keys=StoredKeyRing(store), clock=clock, new_secret=_new_secret)
    timeline = Timeline(log=events)
    memory = MemoryService(
        ingest=Ingest(log=events, secrets=PassThrough()),
        timeline=timeline,
        bridge=bridge,
        guard=BearerGuard(access, bridge) if settings.grpc.require_key else None,
    )
    return App(
        store=store,
        admin=Admin(store=maintenance),
        access=access,
        clock=clock,
        worker=ProcessWorker(),
        bridge=bridge,
        grpc=GrpcServer({MEMORY_SERVICE.full_name: memory.handler()}),
        http=HttpServer(health),
        timeline=timeline,
    )


def local_runner(control: Control) -> Runner:
    """What runs commands in a process without a daemon."""
    return Runner(PROGRAMS, _backend(None, control, None), __version__)


def _backend(services: Services | None, control: Control | None, db_path: Path | None) -> Backend:
    return Backend(
        services=services,
        control=control,
        offline=offline_admin,
        remote=connected,
        own_db=None if db_path is None else db_path.resolve(),
    )


@contextmanager
def offline_admin(db_path: Path) -> Iterator[Admin]:
    """Another store, that no daemon uses."""
    if not (db_path / "CURRENT").exists():
        raise FeatureUnavailable(f"there is no database at {db_path}")
    store, maintenance = _open(db_path, _log_failed_flush)
    try:
        yield Admin(store=maintenance)
    finally:
        store.close()


def _open(
    db_path: Path, on_flush_failure: Callable[[BaseException], None]
) -> tuple[OrderedStore, StoreMaintenance]:
    engine = RocksEngine(db_path)
    store = CommittedStore(engine, on_flush_failure)
    try:
        schema.prepare(store)
    except BaseException:
        store.close()
        raise
    return store, GuardedMaintenance(engine, store)


def _new_secret() -> str:
    return f"am_{secrets.token_urlsafe(32)}"


def _die(exc: BaseException) -> None:
    """After a failed flush the page cache may differ from the disk: only a new process knows."""
    log.critical("store.flush_failed", error=str(exc))
    os._exit(wire.ERRORS[StorageFailed].exit)


def _log_failed_flush(exc: BaseException) -> None:
    """A store that is not the daemon's: it refuses all further work, and the daemon goes on."""
    log.error("other_store.flush_failed", error=str(exc))
