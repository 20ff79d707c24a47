"""The daemon process: its environment, lock, listeners and signals, and its stop in order."""

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog
import uvloop

from agent_memory import __version__, config
from agent_memory.bootstrap import build_secrets, build_toc, root
from agent_memory.daemon import logs, runtime_files
from agent_memory.interfaces import listening
from agent_memory.interfaces.cli.backend import ServeOptions
from agent_memory.interfaces.cli.server import CommandServer
from agent_memory.interfaces.grpc.daemon_service import DaemonControl
from agent_memory.interfaces.http.connections import build_bounds
from agent_memory.interfaces.http.extra_listeners import REFUSAL, ExtraListeners
from agent_memory.interfaces.http.server import HttpServer
from agent_memory.interfaces.wire.errors import ERRORS, get_codes
from agent_memory.interfaces.wire.operations import damage_text
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import (
    AgentMemoryError,
    ConfigError,
    FeatureUnavailable,
    ListenFailed,
    NotFound,
    StorageFailed,
    StorageLocked,
)
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import (
    ContentsStatus,
    DaemonStatus,
    IndexesStatus,
    StoreHealth,
    StoreStats,
)
from agent_memory.launcher import command_client, starting

log = structlog.get_logger()

DRAIN_SECONDS = 3.0
RUNS_SECONDS = 2.0  # less than DRAIN_SECONDS: clients that wait for a run learn how it ended
LOCK_SECONDS = 10.0
FIRST_KEY = "default"
# Seconds after which a thread releases the GIL (default: 5 ms), so that hooks get answers in time.
SWITCH_INTERVAL = 0.001
GRPC_STAYS = "gRPC is served to this machine only; use `localhost`"
M_ARENA_MAX = -8  # of malloc.h
MAX_ARENAS = 2
MAX_FILES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonOptions:
    """The options of a daemon's start."""

    config_file: Path | None = None
    flags: Mapping[str, Any]
    ready_fd: int | None = None
    by_itself: bool = False
    replace: bool = False


def run(start: DaemonOptions) -> int:
    """Run the daemon until it is asked to stop. Return the exit code."""
    os.umask(0o077)
    os.chdir("/")
    if start.ready_fd is not None:
        os.setsid()
        _close_inherited(start.ready_fd)
    _reduce_environment()
    sys.setswitchinterval(SWITCH_INTERVAL)
    _share_heaps()
    _allow_files()
    # The lock publishes our process number. A SIGTERM that comes before the loop runs must not end
    # the process, or the command that waits for this start would report a failure.
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    try:
        loaded = config.load(os.environ, file=start.config_file, flags=start.flags)
        folders = config.folders(os.environ)
        runtime_files.prepare(folders.data)
        lock = runtime_files.lock(
            folders, LOCK_SECONDS, lambda: not start.replace and _is_served(folders)
        )
    except StorageLocked as exc:
        # Another daemon started first, and serves the command that started this one.
        sys.stderr.write(f"note: {exc}\n")
        _signal_ready(start)
        return 0
    except AgentMemoryError as exc:
        sys.stderr.write(f"error: {exc}\n")
        return get_codes(exc).exit
    try:
        uvloop.run(_Daemon(start, loaded, folders).run(asked_to_stop.is_set))
    except AgentMemoryError as exc:
        sys.stderr.write(f"error: {exc}\n")
        log.error("daemon.failed", error=str(exc))
        return get_codes(exc).exit
    except OSError as exc:
        sys.stderr.write(f"error: {exc.filename or folders.data}: {exc.strerror}\n")
        log.exception("daemon.failed")
        return ERRORS[StorageFailed].exit
    finally:
        runtime_files.unlock(lock)
    return 0


class _Daemon:
    def __init__(
        self, start: DaemonOptions, loaded: config.LoadedSettings, folders: config.Folders
    ) -> None:
        self._start = start
        self._loaded = loaded
        self._settings = loaded.settings
        self._folders = folders
        self._sockets = runtime_files.socket_folder(folders)
        self._started = time.monotonic()
        self._warnings: list[str] = list(loaded.ignored)
        self._http_addresses: list[str] = []
        self._http_port = 0
        self._http_scheme = "http"
        self._stop = asyncio.Event()
        self._db_path = folders.data / Path(self._settings.storage.path or "db").expanduser()
        self._log_path = folders.data / "logs/daemon.log"

    async def run(self, asked_to_stop: Callable[[], bool]) -> None:
        self._open_log()
        if self._settings.security.secrets == "off":
            log.warning("daemon.no_secrets_filter", text="secrets are stored")
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        if asked_to_stop():
            self._stop.set()
        config_file = self._start.config_file
        built = root.build(
            self._settings,
            self._db_path,
            self._folders.data,
            self._folders.config,
            (self._sockets, *([] if config_file is None else [config_file])),
        )
        self._warn_of_damage(built)
        self._grpc = built.grpc.build(
            DaemonControl(get_status=lambda: self._status(built), stop=self._stop.set)
        )
        built.platform.watchers.append(partial(self._report_health, asyncio.get_running_loop()))
        web, streaming = self._settings.http, self._settings.streaming

        def server() -> HttpServer:
            return HttpServer(
                ping_seconds=streaming.ws_ping_seconds,
                bounds=build_bounds(streaming.max_connections),
            )

        extra_listeners = ExtraListeners(
            server, lambda: listening.load_tls(web.tls_cert, web.tls_key)
        )

        def serve(
            options: ServeOptions, on_listening: Callable[[list[str]], None], until: CancelToken
        ) -> None:
            address = (options.host, options.port)
            extra_listeners.serve(
                built.http.build_extra(web, options), address, on_listening, until
            )

        commands = CommandServer(
            built.build_runner(lambda: self._status(built), serve).run,
            built.answer_hook,
            version=__version__,
            on_newer=self._stop.set,
            busy=lambda: built.mcp.is_busy() or bool(built.services.runs.list_active()),
            pipe=built.serve_pipe,
        )
        http = server()
        try:
            self._create_first_key(built)
            await self._listen(built, commands, http)
            built.scheduler.start()
            runtime_files.announce(self._folders, self._record())
            _signal_ready(self._start)
            built.features.hooks.handling.drain_soon()
            built.mcp.preload()
            built.preload_embedder()
            log.info("daemon.ready", pid=os.getpid(), version=__version__)
            await self._stop.wait()
            log.info("daemon.stopping")
        finally:
            # In this order: accept no new client, answer those connected, then close the store.
            try:
                runtime_files.withdraw(self._folders, self._sockets)
                extra_listeners.end()
                await asyncio.to_thread(built.features.changes.close)  # followers would never leave
                results = await asyncio.gather(
                    built.mcp.close(),
                    commands.stop(DRAIN_SECONDS),
                    asyncio.to_thread(built.services.runs.close, RUNS_SECONDS),
                    self._grpc.stop(DRAIN_SECONDS),
                    http.stop(),
                    return_exceptions=True,
                )
                for result in results:
                    if result is not None:
                        log.error("daemon.stop_failed", exc_info=result)
            finally:
                await asyncio.to_thread(built.close)
            log.info("daemon.stopped")

    def _warn_of_damage(self, built: root.App) -> None:
        """Write the damage that this start has found to standard error."""
        began = built.platform.clock.now() - int((time.monotonic() - self._started) * 1000)
        for damage in built.list_damages():
            if damage.noticed_ms is not None and damage.noticed_ms >= began:
                sys.stderr.write(f"warning: {damage_text(damage)}\n")

    def _report_health(self, loop: asyncio.AbstractEventLoop, health: StoreHealth) -> None:
        """Report the store's health on the loop that answers health checks."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            asyncio.run_coroutine_threadsafe(self._grpc.report_health(health.writable), loop)

    def _open_log(self) -> None:
        settings = self._settings.log
        logs.configure(
            self._log_path,
            level=settings.level,
            max_bytes=settings.max_bytes,
            files=settings.files,
            also_stderr=self._start.ready_fd is None,
            clean=build_secrets.build_log_cleaner(self._settings.security),
        )

    async def _listen(self, built: root.App, commands: CommandServer, http: HttpServer) -> None:
        """Listen on all sockets and ports. A busy port fails only a start by hand."""
        # We hold the lock, so these files belong to a daemon that crashed.
        runtime_files.withdraw(self._folders, self._sockets)
        self._grpc.listen_on_socket(self._sockets / "grpc.sock")
        settings = self._settings.grpc
        hosts = listening.resolve_hosts("grpc.host", settings.host, refusal=GRPC_STAYS)
        with self._tolerating_busy_ports("grpc"):
            self._grpc.listen(hosts, settings.port)
        self._listen_http(built, http)
        await self._grpc.start()
        await commands.listen(self._sockets / "daemon.sock")

    def _listen_http(self, built: root.App, http: HttpServer) -> None:
        web = self._settings.http
        tls = listening.load_tls(web.tls_cert, web.tls_key)
        self._http_scheme = "http" if tls is None else "https"
        if tls is not None and listening.key_file(web.tls_key).stat().st_mode & 0o077:
            self._warn(f"other users can read http.tls_key: run `chmod 600 {web.tls_key}`")
        hosts = listening.resolve_hosts(
            "http.host", web.host, refusal=REFUSAL if tls is None else None
        )
        gate = built.build_http(web, lambda: self._status(built))
        inside = listening.bind_path(self._sockets / "http.sock")
        http.start(gate.serve_trusted, [inside], self._on_http_socket_end)
        with self._tolerating_busy_ports("http"):
            sockets = listening.bind(hosts, web.port)
            self._http_port = sockets[0].getsockname()[1]
            self._http_addresses = [
                listening.format_address(bound.getsockname()[0], self._http_port)
                for bound in sockets
            ]
            http.start(gate, sockets, self._on_http_end, tls)

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
            if not self._start.by_itself:
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

    def _create_first_key(self, built: root.App) -> None:
        """Create the first key for programs, in a file that only its owner can read."""
        path = self._folders.data / "key"
        pending = path.with_name("key.pending")
        # A start that was killed between creating the key and writing it leaves this file.
        cut_off = pending.exists()
        if not cut_off and (path.exists() or built.services.access.list()):
            return
        runtime_files.write_whole(pending, "")
        if cut_off:
            with contextlib.suppress(NotFound):
                built.services.access.revoke(FIRST_KEY)
        runtime_files.write_whole(path, built.services.access.create(FIRST_KEY) + "\n")
        pending.unlink()
        log.info("daemon.first_key", path=str(path))
        if not self._start.by_itself:
            sys.stderr.write(f"note: the key for programs is in {path}\n")

    def _describe_summarizer(self) -> tuple[str, ...]:
        """Return what writes summaries, and a warning if it cannot be run."""
        settings = self._settings.summarizer
        try:
            return (build_toc.describe_summarizer(settings, os.environ),)
        except (ConfigError, FeatureUnavailable) as exc:
            return settings.provider, f"summaries are written without a model: {exc}"

    def _status(self, built: root.App) -> DaemonStatus:
        stats: StoreStats | None = None
        indexes: IndexesStatus | None = None
        contents: ContentsStatus | None = None
        to_review = 0
        with contextlib.suppress(StorageFailed):  # `status` also reports an unreadable store
            stats = built.services.admin.stats()
            indexes = built.services.indexes.status()
            contents = built.services.background_rebuild.status()
            to_review = built.services.review.count()
        uptime = time.monotonic() - self._started
        summarizer, *missing = self._describe_summarizer()
        return DaemonStatus(
            **asdict(self._record()),
            started_ms=Millis(built.platform.clock.now() - int(uptime * 1000)),
            uptime_seconds=round(uptime, 3),
            grpc_addresses=tuple(self._grpc.addresses),
            http_addresses=tuple(self._http_addresses),
            data_dir=str(self._folders.data),
            db_path=str(self._db_path),
            log_path=str(self._log_path),
            events=0 if stats is None else stats.entries("events"),
            db_bytes=0 if stats is None else stats.size_bytes,
            store=built.platform.store.health,
            damages=tuple(built.list_damages()),
            indexes=indexes,
            contents=contents,
            to_review=to_review,
            summarizer=summarizer,
            warnings=(*self._warnings, *missing, *built.services.backups.warnings()),
            backup=built.services.backups.status(),
            sources=self._loaded.sources,
        )


def _share_heaps() -> None:
    """Limit the number of heaps. By default glibc gives each thread its own, which keeps the memory
    that the thread has freed: with 100,000 documents, two heaps take 475 MB and the default 624."""
    with contextlib.suppress(OSError, AttributeError):  # another libc
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, MAX_ARENAS)


def _allow_files() -> None:
    """Raise the limit of open files. The first limit is often 1,024: too few for the files of the
    store and a few hundred slow connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _is_served(folders: config.Folders) -> bool:
    connection = command_client.connect(str(folders.data))
    if connection is None:
        return False
    connection.close()
    return True


def _signal_ready(start: DaemonOptions) -> None:
    """Tell the launcher that the daemon is ready, and close its pipe."""
    if start.ready_fd is not None:
        with contextlib.suppress(OSError):
            os.write(start.ready_fd, b"\0")
        os.close(start.ready_fd)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        os.close(null)


def _close_inherited(keep: int) -> None:
    limit = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, keep)
    os.closerange(keep + 1, limit if 0 < limit < 1 << 20 else 1 << 16)


def _reduce_environment() -> None:
    inherited = starting.daemon_environment(os.environ)
    for name in os.environ.keys() - inherited.keys():
        del os.environ[name]
