"""Composition root: builds every feature around the core, in the order in which they stand on each
other."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_memory import __version__
from agent_memory.bootstrap.build_guard import build_guard
from agent_memory.bootstrap.build_interfaces import (
    GrpcInterface,
    HttpInterface,
    build_http_dependencies,
    build_mcp_dependencies,
    build_mcp_server,
)
from agent_memory.bootstrap.build_store import offline_admin
from agent_memory.bootstrap.core import Core, build_core
from agent_memory.bootstrap.features import build_rest
from agent_memory.config import Settings
from agent_memory.features.access.services.access import Access
from agent_memory.features.access.services.audit import AuditLog
from agent_memory.features.index.core import LEXICAL, VectorParts
from agent_memory.features.jobs.adapters.cron import CronScheduler
from agent_memory.features.jobs.services.following import OutboxFollower
from agent_memory.features.log.ports import Events, Outbox
from agent_memory.features.memories.adapters.memory_store import MemoryOutlines
from agent_memory.interfaces.auditing import Auditor
from agent_memory.interfaces.cli import completing
from agent_memory.interfaces.cli.backend import Backend, PageLink, Serve
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.interfaces.cli.runner import Runner
from agent_memory.interfaces.command_socket.calls import CommandCall
from agent_memory.interfaces.http.gate import Gate
from agent_memory.interfaces.http.page_sessions import PageSessions
from agent_memory.interfaces.mcp.dependencies import McpDependencies
from agent_memory.interfaces.mcp.lazy_server import LazyMcpServer
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import (
    EmbedderFailed,
    FeatureUnavailable,
    IndexFailed,
    StorageFailed,
)
from agent_memory.kernel.operations import OperationCalls
from agent_memory.kernel.signals import DaemonSignal
from agent_memory.kernel.status import Damage
from agent_memory.platform.base import Platform
from agent_memory.platform.folders import folder_beside
from agent_memory.platform.linked_copy import link_files
from agent_memory.platform.opened_store import SharedStore
from agent_memory.platform.store.change_marks import PURGE
from agent_memory.platform.store.rocks import RocksEngine

LINK_TRIES = 3
PRELOAD_SECONDS = 2.0  # by then the command that started the daemon has its answer


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """The daemon's parts that start, serve and close. Build it on the event loop that serves it."""

    core: Core
    scheduler: CronScheduler
    services: Composition
    calls: OperationCalls
    http: HttpInterface
    grpc: GrpcInterface
    mcp: LazyMcpServer
    mcp_dependencies: McpDependencies

    @property
    def platform(self) -> Platform:
        return self.core.platform

    def list_damages(self) -> Sequence[Damage]:
        return self.platform.opened.list_damages()

    def build_runner(
        self,
        serve: Serve | None,
        open_page: Callable[[bool], PageLink] | None = None,
    ) -> Runner:
        """Build what runs the commands that launchers send. All of them are loaded now: an upgrade
        may replace their files."""
        completing.attach_sources(PROGRAMS)
        in_files = self.platform.sharing is None  # else what is there belongs to no daemon
        backend = Backend(
            services=self.services,
            control=None,
            calls=self.calls,
            open_offline=offline_admin,
            own_db=self.platform.folders.db_path.resolve() if in_files else None,
            serve=serve,
            open_page=open_page,
        )
        return Runner(PROGRAMS, backend, __version__, self.core.observer)

    def build_http(self) -> Gate:
        """Build what answers over HTTP."""
        self.services[Access].list()  # read the keys here, where waiting for the store is harmless
        return self.http.build(self.core.settings.http)

    async def serve_pipe(
        self,
        call: CommandCall,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ending: asyncio.Event,
    ) -> None:
        """Serve an MCP client that came through the launcher."""
        caller = Caller(folder=str(call.cwd), environ=call.environ)
        await self.mcp.serve_pipe(caller, reader, writer, ending)

    def preload_embedder(self) -> None:
        """Load the embedder's model a moment after the start, in a thread of its own, so that the
        first question does not wait for it. Without vectors no question needs it."""
        vectors = self.core.context.find(VectorParts)
        if vectors is None or vectors.load_embedder is None or vectors.index.is_empty:
            return
        load = vectors.load_embedder

        def try_load() -> None:
            # The first question gets the error. A daemon that ends starts no threads any more.
            with suppress(EmbedderFailed, RuntimeError):
                load()

        timer = threading.Timer(PRELOAD_SECONDS, try_load)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Close everything, in the reverse of the order in which work flows."""
        try:
            self.core.context.close()
            self.platform.programs.close()  # jobs may wait for them
            self.scheduler.close()
        finally:
            self.core.close()


def build(core: Core, *process: object) -> App:
    """Build the rest of the daemon around its core. The services of its `process` come with it:
    what reads the settings again, and what controls it."""
    platform, settings, context = core.platform, core.settings, core.context
    context.add(*process)
    build_rest(context)
    scheduler = context[CronScheduler]
    context.signals.send(DaemonSignal.STARTED)
    if platform.sharing is not None:
        _follow_others(platform.sharing, context)
    platform.watchers.append(
        lambda health: context.signals.send(DaemonSignal.STORE_MENDED) if health.writable else None
    )

    calls = OperationCalls(context)
    audit = context.find(AuditLog)
    auditor = None if audit is None else Auditor(audit, reads=settings.team.audit_reads)
    mcp_dependencies = build_mcp_dependencies(
        settings, context, calls, core.bridge, core.observer, auditor
    )
    mcp = build_mcp_server(mcp_dependencies, settings, platform.folders.data / "mcp-used")
    http_dependencies = build_http_dependencies(context, calls, core.bridge, core.observer)
    bearer = build_guard(context[Access], settings.team)
    return App(
        core=core,
        scheduler=scheduler,
        services=context,
        calls=calls,
        http=HttpInterface(
            platform,
            http_dependencies,
            mcp,
            bearer,
            PageSessions(context[Access], time.monotonic),
            auditor,
        ),
        grpc=GrpcInterface(context, calls, core.bridge, core.observer, bearer, auditor),
        mcp=mcp,
        mcp_dependencies=mcp_dependencies,
    )


def _follow_others(sharing: SharedStore, context: Composition) -> None:
    """Start to look for what other daemons write."""
    signals, outlines, events = context.signals, context[MemoryOutlines], context[Events]

    def on_change(has_events: bool) -> None:
        if has_events:
            signals.send(DaemonSignal.FOREIGN_EVENTS)
        signals.send(DaemonSignal.FOREIGN_CHANGE)

    follower = OutboxFollower(
        outbox=context[Outbox],
        reached=events.watermark(),
        on_memories=outlines.note_written,
        on_gap=outlines.forget_all,
        on_change=on_change,
    )
    sharing.marks.listen(PURGE, signals.build_sender(DaemonSignal.OUTBOX_LEFT))
    sharing.watch.on_outbox(follower.follow)
    sharing.watch.start()


def build_reader(
    settings: Settings,
    db_path: Path,
    data: Path,
    own_files: Path,
    folder: Path,
    tries: int = LINK_TRIES,
) -> App:
    """Build the services of a daemon that cannot be connected to, over links to its files in an
    empty folder. They show the state at this moment, and nothing can be written."""
    if settings.storage.url:
        raise FeatureUnavailable(
            "this sandbox does not let commands connect to the daemon, and the database is on a"
            " server: use the MCP tools of memory"
        )
    if not RocksEngine.is_store(db_path):
        raise FeatureUnavailable(f"there is no database at {db_path}")
    linked = folder / str(tries) / "db"
    link_files(db_path, linked)
    link_files(folder_beside(db_path, "index") / LEXICAL, folder_beside(linked, "index") / LEXICAL)
    try:
        return build(build_core(settings, linked, data, own_files, read_only=True))
    except (StorageFailed, IndexFailed):
        if tries == 1:  # else the daemon may have removed a file just now
            raise
    return build_reader(settings, db_path, data, own_files, folder, tries - 1)
