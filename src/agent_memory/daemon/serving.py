"""What the daemon serves besides hooks: commands, gRPC, HTTP, MCP and jobs.

Loading this module takes half of a start, so the daemon answers hooks before it does.
"""

import asyncio
import contextlib
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import structlog

from agent_memory import __version__, config
from agent_memory.bootstrap import root
from agent_memory.bootstrap.core import Core
from agent_memory.config import SettingsSource
from agent_memory.daemon import logs, runtime_files
from agent_memory.features.access.services.access import Access
from agent_memory.features.forgetting.services.review import ReviewInbox
from agent_memory.features.maintenance.services.admin import Admin
from agent_memory.features.monitoring.services.failures import RecentFailures
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.memory_stats import MemoryStatistics
from agent_memory.features.toc.feature import describe_summarizer
from agent_memory.features.toc.services.background_rebuild import BackgroundRebuild
from agent_memory.interfaces import listening
from agent_memory.interfaces.cli.backend import PageLink, ServeOptions
from agent_memory.interfaces.command_socket.server import CommandServer
from agent_memory.interfaces.http.connections import build_bounds
from agent_memory.interfaces.http.extra_listeners import REFUSAL, ExtraListeners
from agent_memory.interfaces.http.page_sessions import CODE_SECONDS
from agent_memory.interfaces.http.server import HttpServer
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import (
    ConfigError,
    FeatureUnavailable,
    ListenFailed,
    NotFound,
    StorageFailed,
)
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import (
    BackupReport,
    ContentsStatus,
    DaemonControl,
    DaemonStatus,
    IndexesStatus,
    StoreHealth,
    StoreStats,
)

log = structlog.get_logger()

FIRST_KEY = "default"
GRPC_WITHOUT_TLS = "refused without TLS; set grpc.tls_cert and grpc.tls_key, or use `localhost`"
GRPC_WITHOUT_KEYS = "refused with grpc.require_key = false"


class Serving:
    """The servers and jobs of a daemon. Build it on the event loop that serves it."""

    def __init__(
        self,
        core: Core,
        *,
        loaded: config.LoadedSettings,
        folders: config.Folders,
        sockets: Path,
        log_path: Path,
        started: float,
        by_itself: bool,
        start: runtime_files.StartRecord,
        stop: Callable[[], None],
    ) -> None:
        """Build everything around the core. `started` is by the monotonic clock; `by_itself` is a
        start by a command or a hook."""
        self._loaded = loaded
        self._settings = loaded.settings
        self._folders = folders
        self._sockets = sockets
        self._log_path = log_path
        self._started = started
        self._by_itself = by_itself
        self._start = start
        self._warnings: list[str] = list(loaded.ignored)
        self._http_addresses: list[str] = []
        self._http_port = 0
        self._http_scheme = "http"
        self._loop = asyncio.get_running_loop()
        self._app = root.build(
            core,
            SettingsSource(
                load=self._load_settings, file=Path(start.settings_file), running=loaded
            ),
            DaemonControl(
                get_status=self._get_status,
                stop=lambda: self._loop.call_soon_threadsafe(stop),
            ),
        )
        logs.watch_failures(self._app.services[RecentFailures].add)
        self._http = self._build_http_server()
        self._grpc = self._app.grpc.build()
        self._extra_listeners = ExtraListeners(
            self._build_http_server,
            lambda: listening.load_tls(self._settings.http.tls_cert, self._settings.http.tls_key),
        )

    async def start(self, commands: CommandServer) -> None:
        """Listen on all sockets and ports, start the jobs, and publish the addresses. A busy port
        fails only a start by hand."""
        app, context = self._app, self._app.core.context
        self._warn_of_damage()
        self._warn_of_role()
        app.platform.watchers.append(self._report_health)
        self._create_first_key()
        self._grpc.listen_on_socket(self._sockets / "grpc.sock")
        settings = self._settings.grpc
        tls = self._load_grpc_tls()
        asks = settings.require_key or self._settings.team.enabled
        refusal = GRPC_WITHOUT_TLS if tls is None else None if asks else GRPC_WITHOUT_KEYS
        hosts = listening.resolve_hosts("grpc.host", settings.host, refusal=refusal)
        with self._tolerating_busy_ports("grpc"):
            self._grpc.listen(hosts, settings.port, tls)
        self._listen_http()
        await self._grpc.start()
        commands.open(
            app.build_runner(self._serve_extra, self._open_page).run,
            busy=lambda: any(is_busy() for is_busy in (app.mcp.is_busy, *context.is_busy)),
            pipe=app.serve_pipe,
        )
        app.scheduler.start()
        runtime_files.announce(self._folders, self._record(), self._start)

    def preload(self) -> None:
        """Load in the background what the first callers would wait for."""
        self._app.mcp.preload()
        self._app.preload_embedder()

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more clients, and wait for those connected."""
        self._extra_listeners.end()
        # Followers would never leave.
        await asyncio.to_thread(self._app.core.context.close)
        results = await asyncio.gather(
            self._app.mcp.close(),
            *map(asyncio.to_thread, self._app.core.context.on_stop),
            self._grpc.stop(grace_seconds),
            self._http.stop(),
            return_exceptions=True,
        )
        for result in results:
            if result is not None:
                log.error("daemon.stop_failed", exc_info=result)

    def close(self) -> None:
        self._app.close()

    def _build_http_server(self) -> HttpServer:
        streaming = self._settings.streaming
        return HttpServer(
            ping_seconds=streaming.ws_ping_seconds,
            bounds=build_bounds(streaming.max_connections),
        )

    def _serve_extra(
        self, options: ServeOptions, on_listening: Callable[[list[str]], None], until: CancelToken
    ) -> None:
        """Serve what `memory serve` asks for, until it is cancelled."""
        self._extra_listeners.serve(
            self._app.http.build_extra(self._settings.http, options),
            (options.host, options.port),
            on_listening,
            until,
        )

    def _open_page(self, may_accept: bool) -> PageLink:
        """Return a link that opens the page once. Raises FeatureUnavailable."""
        if self._app.services[Access].team:
            raise FeatureUnavailable(
                "a team server has no page, which shows everything to one person: use the CLI on"
                " the server, or REST with a key"
            )
        if not self._http_addresses:
            raise FeatureUnavailable(
                "HTTP is not served, so there is no page: `memory-daemon status` says why"
            )
        pages = self._app.http.pages
        code = pages.issue_code(may_accept=may_accept)
        url = f"{self._http_scheme}://localhost:{self._http_port}/#code={code}"

        def write_redirect() -> Path:
            path = runtime_files.name_redirect(self._sockets)
            pages.write_redirect(path, url, code)
            call_later = partial(self._loop.call_later, CODE_SECONDS, pages.drop_old_codes)
            self._loop.call_soon_threadsafe(call_later)
            return path

        return PageLink(url, write_redirect)

    def _warn_of_damage(self) -> None:
        """Write the damage that this start has found to standard error."""
        began = self._app.platform.clock.now() - int(self._get_uptime() * 1000)
        for damage in self._app.list_damages():
            if damage.noticed_ms is not None and damage.noticed_ms >= began:
                sys.stderr.write(f"warning: {damage.description}\n")

    def _warn_of_role(self) -> None:
        if self._settings.team.enabled and self._app.platform.opened.sees_other_tenants():
            self._warn(
                "the role of storage.url sees the rows of all tenants: use one without SUPERUSER"
                " and BYPASSRLS, so that a mistake cannot show one team what belongs to another"
            )

    def _report_health(self, health: StoreHealth) -> None:
        """Report the store's health on the loop that answers health checks."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._grpc.report_health, health.writable)

    def _load_grpc_tls(self) -> ssl.SSLContext | None:
        """Load the certificate of gRPC, if there is one. Raises ConfigError."""
        settings = self._settings.grpc
        tls = listening.load_tls(settings.tls_cert, settings.tls_key, "grpc", protocol="h2")
        if tls is not None:
            self._warn_of_open_key("grpc", settings.tls_key)
        return tls

    def _warn_of_open_key(self, section: str, path: str) -> None:
        if listening.key_file(path).stat().st_mode & 0o077:
            self._warn(f"other users can read {section}.tls_key: run `chmod 600 {path}`")

    def _listen_http(self) -> None:
        web = self._settings.http
        tls = listening.load_tls(web.tls_cert, web.tls_key)
        self._http_scheme = "http" if tls is None else "https"
        if tls is not None:
            self._warn_of_open_key("http", web.tls_key)
        hosts = listening.resolve_hosts(
            "http.host", web.host, refusal=REFUSAL if tls is None else None
        )
        gate = self._app.build_http()
        inside = listening.bind_path(self._sockets / "http.sock")
        self._http.start(gate.serve_trusted, [inside], self._on_http_socket_end)
        with self._tolerating_busy_ports("http"):
            sockets = listening.bind(hosts, web.port)
            self._http_port = sockets[0].getsockname()[1]
            self._http_addresses = [
                listening.format_address(bound.getsockname()[0], self._http_port)
                for bound in sockets
            ]
            self._http.start(gate, sockets, self._on_http_end, tls)

    def _warn(self, message: str) -> None:
        self._warnings.append(message)
        log.warning("daemon.warning", text=message)

    def _on_http_end(self, reason: BaseException | None) -> None:
        self._http_addresses = []
        self._report_server_end("HTTP", reason)

    def _on_http_socket_end(self, reason: BaseException | None) -> None:
        self._report_server_end("HTTP on its Unix socket", reason)

    def _report_server_end(self, what: str, reason: BaseException | None) -> None:
        """Warn of a server that ended unexpectedly. The daemon continues without it."""
        self._warnings.append(f"{what} is no longer served: {reason or 'its server ended'}")
        log.error("daemon.http_ended", what=what, exc_info=reason)

    @contextlib.contextmanager
    def _tolerating_busy_ports(self, section: str) -> Iterator[None]:
        try:
            yield
        except ListenFailed as exc:
            message = f"{exc}; set {section}.port, or 0 for a free one"
            if not self._by_itself:
                raise ListenFailed(message) from exc
            self._warnings.append(message)
            log.warning("daemon.port_taken", section=section, error=str(exc))

    def _record(self) -> runtime_files.DaemonRecord:
        return runtime_files.DaemonRecord(
            pid=os.getpid(),
            version=__version__,
            grpc_port=self._grpc.port,
            http_port=self._http_port,
            http_scheme=self._http_scheme,
            socket=str(self._sockets / "daemon.sock"),
            grpc_socket=str(self._sockets / "grpc.sock"),
            http_socket=str(self._sockets / "http.sock"),
        )

    def _create_first_key(self) -> None:
        """Create the first key for programs, in a file that only its owner can read."""
        path, access = self._folders.data / "key", self._app.services[Access]
        if access.team:  # keys belong to people there
            return
        sharing = self._app.platform.sharing
        name = FIRST_KEY if sharing is None else f"{FIRST_KEY}-{sharing.daemon[:8]}"
        names = {key.name for key in access.list()}
        pending = path.with_name("key.pending")
        # A start that was killed between creating the key and writing it leaves this file.
        cut_off = pending.exists()
        # Each of several daemons on one memory has a key of its own.
        if not cut_off and (path.exists() or (names if sharing is None else name in names)):
            return
        runtime_files.write_whole(pending, "")
        if cut_off:
            with contextlib.suppress(NotFound):
                access.revoke(name)
        runtime_files.write_whole(path, access.create(name) + "\n")
        pending.unlink()
        log.info("daemon.first_key", path=str(path))
        if not self._by_itself:
            sys.stderr.write(f"note: the key for programs is in {path}\n")

    def _describe_summarizer(self) -> tuple[str, ...]:
        """Return what writes summaries, and a warning if it cannot be run."""
        settings = self._settings.summarizer
        try:
            return (describe_summarizer(settings, os.environ),)
        except (ConfigError, FeatureUnavailable) as exc:
            return settings.provider, f"summaries are written without a model: {exc}"

    def _get_uptime(self) -> float:
        return time.monotonic() - self._started

    def _load_settings(self) -> config.LoadedSettings:
        """Read the settings as the start of this daemon did."""
        file, flags = self._start.config_file, self._start.flags
        return config.load(
            os.environ,
            file=Path(file) if file else None,
            flags=flags,
            started_by_hand=not self._by_itself,
        )

    def _get_status(self) -> DaemonStatus:
        services, platform = self._app.services, self._app.platform
        backups = services.find(BackupReport) or BackupReport()
        stats: StoreStats | None = None
        indexes: IndexesStatus | None = None
        contents: ContentsStatus | None = None
        to_review = 0
        with contextlib.suppress(StorageFailed):  # `status` also reports an unreadable store
            stats = services[Admin].stats()
            indexes = services[Indexes].status()
            contents = services[BackgroundRebuild].status()
            to_review = services[ReviewInbox].count()
        uptime = self._get_uptime()
        summarizer, *missing = self._describe_summarizer()
        return DaemonStatus(
            **asdict(self._record()),
            started_ms=Millis(platform.clock.now() - int(uptime * 1000)),
            uptime_seconds=round(uptime, 3),
            grpc_addresses=tuple(self._grpc.addresses),
            http_addresses=tuple(self._http_addresses),
            data_dir=str(self._folders.data),
            db_path=platform.opened.location,
            log_path=str(self._log_path),
            events=0 if stats is None else stats.entries("events"),
            db_bytes=0 if stats is None else stats.size_bytes,
            store=platform.store.health,
            damages=tuple(self._app.list_damages()),
            indexes=indexes,
            contents=contents,
            to_review=to_review,
            summarizer=summarizer,
            warnings=(
                *self._warnings,
                *missing,
                *backups.list_warnings(),
                *services[MemoryStatistics].notes.warnings(),
            ),
            backup=backups.read(),
            sources=self._loaded.sources,
        )
