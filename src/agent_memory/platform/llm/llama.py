"""llama-server as a child process: started when needed, supervised, stopped when idle."""

import os
import re
import secrets
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO

import structlog

from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import AgentMemoryError, FeatureUnavailable, LlmFailed
from agent_memory.kernel.status import ModelStatus
from agent_memory.platform.llm import gguf, health
from agent_memory.platform.llm.leases import Lease
from agent_memory.platform.processes.process import SupervisedProcess

log = structlog.get_logger()

HOST = "127.0.0.1"
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
MAX_RESTARTS = 6  # in a row; then it starts again only when needed
STEADY_SECONDS = 60.0  # after this time, earlier failures no longer count
STOP_SECONDS = 5.0
EXIT_SECONDS = 2.0  # from a lost connection until the end of the process is known
PORT_TRIES = 3
_GLANCE_SECONDS = 0.05
_KEPT_LINES = 40
_SHOWN_LINES = 3
_MAX_LINE = 500

_NO_PORT = re.compile(r"\bbind\b|address already in use", re.IGNORECASE)
_PASSED = frozenset({"HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "USER"})
_PASSED_PREFIXES = (  # locales, and variables that select graphics cards
    "LC_", "CUDA_", "NVIDIA_", "GGML_", "HIP_", "HSA_", "ROCR_", "VK_", "ONEAPI_", "SYCL_", "ZES_",
    "OMP_", "GOMP_",
)  # fmt: skip

Cancel = Callable[[], None]
Later = Callable[[float, Callable[[], None]], Cancel]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaOptions:
    """The settings of the server. `args` are further arguments, which override ours."""

    server: str = ""
    model_dir: Path
    model: str = ""
    context_size: int = 4096
    parallel: int = 1
    args: tuple[str, ...] = ()
    start_seconds: float = 180.0
    idle_minutes: float = 15.0


class _Phase(Enum):
    OFF = "off"
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"


class _Tail:
    """The last lines of the output of a process."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reader = threading.Thread(target=self._read, args=(stream,), name="llama-stderr")
        self._reader.daemon = True
        self._reader.start()

    def lines(self) -> list[str]:
        """Return the last lines of an ended process."""
        self._reader.join(EXIT_SECONDS)
        return list(self._lines)

    def _read(self, stream: IO[bytes]) -> None:
        partial = b""
        with stream:
            while data := stream.read1(1 << 16):  # type: ignore[attr-defined]
                *whole, partial = (partial + data).split(b"\n")
                for line in whole:
                    self._keep(line)
                partial = partial[:_MAX_LINE]
            self._keep(partial)

    def _keep(self, line: bytes) -> None:
        text = line[:_MAX_LINE].decode(errors="replace")
        text = "".join(char if char.isprintable() else " " for char in text).strip()
        if text:
            self._lines.append(text)


@dataclass(slots=True, kw_only=True, eq=False)
class _ServerProcess:
    """One process of the server. `exit_reason` says how it ended."""

    serial: int
    process: SupervisedProcess
    tail: _Tail
    url: str
    key: str = field(repr=False)
    up_at: float = 0.0
    exit_reason: str | None = None


def call_later(seconds: float, call: Callable[[], None]) -> Cancel:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer.cancel


class LlamaServer:
    """A server to lease. Callers that come while it starts wait for the same start."""

    def __init__(
        self,
        options: LlamaOptions,
        environ: Mapping[str, str],
        *,
        later: Later = call_later,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._environ = environ
        self._later = later
        self._timer = timer
        self._health = health.HealthCache(timer)
        self._changed = threading.Condition()
        self._phase = _Phase.OFF
        self._closed = False
        self._server: _ServerProcess | None = None
        self._attempt = 0
        self._failure: tuple[int, AgentMemoryError] | None = None
        self._life: threading.Thread | None = None
        self._leases = 0
        self._idle_since = 0.0
        self._idle_check: Cancel | None = None
        self._deaths = 0
        self._restart: Cancel | None = None

    @contextmanager
    def lease(self, cancel: CancelToken, /) -> Iterator[Lease]:
        server = self._acquire(cancel)
        try:
            yield Lease(
                url=server.url,
                key=server.key,
                serial=server.serial,
                get_exit_reason=lambda: self._wait_exit_reason(server),
            )
        finally:
            with self._changed:
                self._leases -= 1
                self._idle_since = self._timer()
                self._watch_idleness()

    def status(self) -> ModelStatus:
        with self._changed:
            server, is_up = self._server, self._phase is _Phase.UP
            failed, reason = self._failure or (0, None)
            trouble = str(reason) if reason is not None and failed == self._attempt else ""
        if server is None or server.process.returncode is not None:
            return ModelStatus(
                endpoint="", model_dir=str(self._options.model_dir), healthy=False, trouble=trouble
            )
        return ModelStatus(
            endpoint=server.url,
            model_dir=str(self._options.model_dir),
            healthy=is_up and self._health.check(server, lambda: _is_healthy(server)),
            running=True,
            pid=server.process.pid,
        )

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._call_off_restart()
            if self._idle_check is not None:
                self._idle_check()
                self._idle_check = None
            server, life = self._server, self._life
            self._changed.notify_all()
        if server is not None:
            server.process.stop(STOP_SECONDS)
        if life is not None:
            life.join(STOP_SECONDS)

    def _acquire(self, cancel: CancelToken) -> _ServerProcess:
        """Start the server if needed, and lease it."""
        attempt: int | None = None
        with cancel.on_cancel(self._wake), self._changed:
            while True:
                cancel.check()
                if self._closed:
                    raise FeatureUnavailable("the model server is closed: the daemon is stopping")
                if self._phase is _Phase.UP and self._server is not None:
                    self._leases += 1
                    return self._server
                if attempt is not None and self._failure is not None:
                    failed, reason = self._failure
                    if failed >= attempt:
                        raise type(reason)(*reason.args) from reason
                if self._phase is _Phase.OFF:
                    self._begin(restarted=False)
                if self._phase is _Phase.STARTING:
                    attempt = attempt or self._attempt
                self._changed.wait()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _wait_exit_reason(self, server: _ServerProcess) -> str | None:
        with self._changed:
            self._changed.wait_for(lambda: server.exit_reason is not None, EXIT_SECONDS)
            return server.exit_reason

    # One thread follows each process from its start to its end.

    def _begin(self, *, restarted: bool) -> None:
        self._call_off_restart()
        if not restarted:
            self._deaths = 0
        self._phase = _Phase.STARTING
        self._attempt += 1
        self._life = threading.Thread(
            target=self._live, args=(self._attempt, restarted), name="llama", daemon=True
        )
        self._life.start()

    def _live(self, attempt: int, restarted: bool) -> None:
        try:
            server = self._start(attempt)
        except AgentMemoryError as exc:
            self._not_started(attempt, exc, restarted)
            return
        except Exception as exc:
            log.exception("llama.not_started")
            self._not_started(attempt, LlmFailed(f"llama-server: {exc}"), restarted)
            return
        with self._changed:
            server.up_at = self._idle_since = self._timer()
            self._phase = _Phase.UP
            self._watch_idleness()
            self._changed.notify_all()
        code = server.process.wait()
        reason = f"llama-server ended ({_how(code)}): {_last(server.tail.lines(), 1)}"
        with self._changed:
            asked = self._closed or self._phase is _Phase.STOPPING
            server.exit_reason = "llama-server was stopped" if asked else reason
            self._server, self._phase = None, _Phase.OFF
            seconds = round(self._timer() - server.up_at, 3)
            write = log.info if asked else log.warning
            write("llama.ended", pid=server.process.pid, code=code, seconds=seconds, asked=asked)
            if not asked:
                self._deaths = 1 if seconds >= STEADY_SECONDS else self._deaths + 1
                self._restart_later()
            self._changed.notify_all()

    def _not_started(self, attempt: int, reason: AgentMemoryError, restarted: bool) -> None:
        log.warning("llama.not_started", reason=str(reason))
        with self._changed:
            self._failure = attempt, reason
            self._server, self._phase = None, _Phase.OFF
            if restarted:
                self._deaths += 1
                self._restart_later()
            self._changed.notify_all()

    def _restart_later(self) -> None:
        if self._closed:
            return
        if self._deaths > MAX_RESTARTS:
            log.error("llama.given_up", deaths=self._deaths)
            return
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (self._deaths - 1), LONGEST_PAUSE_SECONDS)
        log.info("llama.restarting", deaths=self._deaths, pause=pause)
        self._restart = self._later(pause, self._start_again)

    def _start_again(self) -> None:
        with self._changed:
            if self._restart is not None and self._phase is _Phase.OFF and not self._closed:
                self._begin(restarted=True)

    def _call_off_restart(self) -> None:
        if self._restart is not None:
            self._restart()
            self._restart = None

    def _start(self, attempt: int) -> _ServerProcess:
        options = self._options
        program = gguf.find_program(options.server, self._environ)
        model = gguf.find_model(options.model_dir, options.model)
        started = time.monotonic()
        for last in (*[False] * (PORT_TRIES - 1), True):
            server = self._spawn(attempt, program, model)
            if self._comes_up(server, started + options.start_seconds):
                seconds = round(time.monotonic() - started, 3)
                log.info("llama.started", pid=server.process.pid, model=model.name, seconds=seconds)
                return server
            late = server.process.returncode is None
            code = server.process.stop(STOP_SECONDS)
            lines = server.tail.lines()
            if self._closed:
                break
            if late:
                raise LlmFailed(
                    f"llama-server did not load {model.name} within {options.start_seconds:g} s"
                    f" (llama.start_seconds): {_last(lines, _SHOWN_LINES)}"
                )
            if last or not any(_NO_PORT.search(line) for line in lines):
                raise LlmFailed(
                    f"llama-server did not start with {model.name} ({_how(code)}):"
                    f" {_last(lines, _SHOWN_LINES)}"
                )
        raise FeatureUnavailable("the model server is closed: the daemon is stopping")

    def _spawn(self, attempt: int, program: Path, model: Path) -> _ServerProcess:
        options, port, key = self._options, _free_port(), secrets.token_urlsafe(32)
        flags = {
            "--model": str(model),
            "--host": HOST,
            "--port": str(port),
            "--ctx-size": str(options.context_size * options.parallel),
            "--parallel": str(options.parallel),
        }
        arguments = [str(program), *(part for flag in flags.items() for part in flag)]
        try:
            process = SupervisedProcess.start(
                [*arguments, "--jinja", "--no-webui", *options.args],
                cwd="/",
                env=_environment(self._environ, program) | {"LLAMA_API_KEY": key},
                stderr=subprocess.PIPE,
                grace_seconds=STOP_SECONDS,
            )
        except OSError as exc:
            raise FeatureUnavailable(f"{program} cannot be run: {exc.strerror}") from exc
        assert process.stderr is not None  # noqa: S101
        server = _ServerProcess(
            serial=attempt,
            process=process,
            tail=_Tail(process.stderr),
            url=f"http://{HOST}:{port}",
            key=key,
        )
        with self._changed:
            self._server = server
        return server

    def _comes_up(self, server: _ServerProcess, deadline: float) -> bool:
        """Wait until the server answers. If its port was taken, another server may answer: so check
        that the process still runs."""
        while not self._closed and time.monotonic() < deadline:
            healthy = _is_healthy(server)
            if server.process.wait(_GLANCE_SECONDS) is not None:
                return False
            if healthy:
                return True
        return False

    # At most one idle check is scheduled, however many leases there are.

    def _watch_idleness(self) -> None:
        if self._options.idle_minutes and not self._leases and self._phase is _Phase.UP:
            self._schedule_check(self._options.idle_minutes * 60)

    def _schedule_check(self, seconds: float) -> None:
        if self._idle_check is None and not self._closed:
            self._idle_check = self._later(seconds, self._stop_if_idle)

    def _stop_if_idle(self) -> None:
        with self._changed:
            self._idle_check = None
            server = self._server
            if self._closed or self._leases or self._phase is not _Phase.UP or server is None:
                return
            left = self._idle_since + self._options.idle_minutes * 60 - self._timer()
            if left > 0:
                self._schedule_check(left)
                return
            self._phase = _Phase.STOPPING
        log.info("llama.idle", pid=server.process.pid)
        server.process.stop(STOP_SECONDS)


def _is_healthy(server: _ServerProcess) -> bool:
    return health.fetch_status(f"{server.url}/health") == health.OK


def _environment(environ: Mapping[str, str], program: Path) -> dict[str, str]:
    variables = {
        name: value
        for name, value in environ.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES)
    }
    # Packaged builds have their libraries in the folder of the program.
    libraries = [str(program.resolve().parent), variables.get("LD_LIBRARY_PATH", "")]
    return variables | {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))}


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _how(code: int | None) -> str:
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _last(lines: list[str], count: int) -> str:
    return " | ".join(lines[-count:]) or "it printed nothing"
