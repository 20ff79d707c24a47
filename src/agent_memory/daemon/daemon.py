"""The daemon process: its environment, lock and signals, and its start and stop in order."""

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import uvloop

from agent_memory import __version__, config
from agent_memory.bootstrap.core import build_core
from agent_memory.daemon import logs, runtime_files
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.secrets import core as secrets_core
from agent_memory.interfaces.command_socket.server import CommandServer
from agent_memory.interfaces.wire.errors import ERRORS, get_codes
from agent_memory.kernel.errors import AgentMemoryError, ConfigError, StorageFailed, StorageLocked
from agent_memory.kernel.status import StoreHealth
from agent_memory.launcher import command_client, environment
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import schema

if TYPE_CHECKING:
    from agent_memory.daemon.serving import Serving

log = structlog.get_logger()

DRAIN_SECONDS = 3.0
LOCK_SECONDS = 10.0
# Seconds after which a thread releases the GIL (default: 5 ms), so that hooks get answers in time.
SWITCH_INTERVAL = 0.0002
M_ARENA_MAX = -8  # of malloc.h
MAX_ARENAS = 2
MAX_FILES = 65_536
# Objects between two collections: cycles are few, and a collection holds up every request.
GC_THRESHOLD = (20_000, 20, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonOptions:
    """The options of a daemon's start."""

    config_file: Path | None = None
    flags: Mapping[str, Any]
    ready_fd: int | None = None
    by_itself: bool = False
    replace: bool = False

    def describe(self, own_file: Path) -> runtime_files.StartRecord:
        return runtime_files.StartRecord(
            settings_file=str(self.config_file or own_file),
            config_file="" if self.config_file is None else str(self.config_file),
            flags={name: value for name, value in self.flags.items() if value is not None},
            foreground=self.ready_fd is None,
        )


def run(start: DaemonOptions) -> int:
    """Run the daemon until it is asked to stop. Return the exit code."""
    os.umask(0o077)
    os.chdir("/")
    if start.ready_fd is not None:
        os.setsid()
        _close_inherited(start.ready_fd)
    _reduce_environment(by_hand=not start.by_itself)
    sys.setswitchinterval(SWITCH_INTERVAL)
    _share_heaps()
    _allow_files()
    # The lock publishes our process number. A SIGTERM that comes before the loop runs must not end
    # the process, or the command that waits for this start would report a failure.
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    try:
        loaded = config.load(
            os.environ,
            file=start.config_file,
            flags=start.flags,
            started_by_hand=not start.by_itself,
        )
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
        core = build_core(
            self._settings,
            self._db_path,
            self._folders.data,
            self._folders.config,
            (self._sockets, *([] if config_file is None else [config_file])),
        )
        core.platform.watchers.append(partial(self._end_with_store, asyncio.get_running_loop()))
        commands = CommandServer(
            core.hook_answerer.answer, version=__version__, on_newer=self._stop.set
        )
        serving: Serving | None = None
        try:
            self._check_team(core.platform.store)
            # We hold the lock, so these files belong to a daemon that crashed.
            runtime_files.withdraw(self._folders, self._sockets)
            socket = self._sockets / "daemon.sock"
            await commands.listen(socket)
            runtime_files.announce_socket(self._folders, socket)
            # Hooks are answered from here on. Loading is done in a thread, or they would wait.
            serving = (await asyncio.to_thread(_load_serving))(
                core,
                loaded=self._loaded,
                folders=self._folders,
                sockets=self._sockets,
                log_path=self._log_path,
                started=self._started,
                by_itself=self._start.by_itself,
                start=self._start.describe(self._folders.config_file),
                stop=self._stop.set,
            )
            await serving.start(commands)
            _signal_ready(self._start)
            core.context[HookHandling].drain_soon()
            serving.preload()
            _settle_garbage()
            log.info("daemon.ready", pid=os.getpid(), version=__version__)
            await self._stop.wait()
            log.info("daemon.stopping")
        finally:
            # In this order: accept no new client, answer those connected, then close the store.
            try:
                runtime_files.withdraw(self._folders, self._sockets)
                stops = [commands.stop(DRAIN_SECONDS)]
                if serving is not None:
                    stops.append(serving.stop(DRAIN_SECONDS))
                for result in await asyncio.gather(*stops, return_exceptions=True):
                    if result is not None:
                        log.error("daemon.stop_failed", exc_info=result)
            finally:
                await asyncio.to_thread(core.close if serving is None else serving.close)
            log.info("daemon.stopped")

    def _check_team(self, store: OrderedStore) -> None:
        """Raise ConfigError if the memory of a team would be served as that of one person."""
        if self._settings.team.enabled:
            schema.note_team(store)
        elif "team.enabled" not in self._loaded.sources and schema.is_of_team(store):
            raise ConfigError(
                "this memory is a team's, and without `team.enabled = true` this daemon would show"
                " what is private to everyone with a key: set it in config.toml, or to false if"
                " the memory is yours alone now"
            )

    def _end_with_store(self, loop: asyncio.AbstractEventLoop, health: StoreHealth) -> None:
        """Stop if only a new start can help: caches may be out of date."""
        if health.final:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._stop.set)

    def _open_log(self) -> None:
        settings = self._settings.log
        logs.configure(
            self._log_path,
            level=settings.level,
            max_bytes=settings.max_bytes,
            files=settings.files,
            also_stderr=self._start.ready_fd is None,
            clean=secrets_core.build_log_cleaner(self._settings.security),
        )


def _load_serving() -> "type[Serving]":
    # Late: it takes half of a start to load, and no hook needs it.
    from agent_memory.daemon.serving import Serving

    return Serving


def _settle_garbage() -> None:
    """Collect garbage from here on, but not among what the start has built: that stays."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    gc.enable()


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


def _reduce_environment(*, by_hand: bool) -> None:
    inherited = environment.build_daemon_environment(os.environ, by_hand=by_hand)
    for name in os.environ.keys() - inherited.keys():
        del os.environ[name]
    os.environ.update(inherited)
    # Its threads, one per core, would spin for 20 ms after each product, and wait for the next.
    os.environ["OPENBLAS_THREAD_TIMEOUT"] = "4"  # the shortest: 2**4 cycles
