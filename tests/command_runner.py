"""Run commands as a user does: through the launcher, in an isolated home, in pipes or on a pty."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from agent_memory import config, launch
from agent_memory.daemon import runtime_files
from tests.chosen_store import remove_store
from tests.fork_server import ForkServer
from tests.home_settings import (
    BASE,
    change_settings,
    choose_home,
    prepare_home,
    remove_settings,
    split_variables,
)

LAUNCHER = Path(launch.__file__).resolve()
SECONDS = 40.0
_TICK, _LONGEST_TICK = 0.01, 0.25

# Make standard input the controlling terminal, so that Ctrl-C sends a signal.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)

Word = str | bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """The output and exit code of a command. A negative code is a signal."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def errors(self) -> str:
        return self.err.decode()

    def json(self) -> Any:
        return json.loads(self.out)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Wait for a condition that another process makes true.

    The longer it takes, the less often it is checked: a daemon that is asked again and again makes
    its background work rest.
    """
    began = time.monotonic()
    pause = threading.Event()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds:g} s: {what}"
        pause.wait(min(max(_TICK, waited / 10), _LONGEST_TICK))


def patch_launcher(folder: Path, old: str, new: str) -> Path:
    """Copy the launcher, with one line changed."""
    copy = folder / LAUNCHER.name
    copy.write_text(LAUNCHER.read_text())
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(LAUNCHER.parent / "launcher", folder / "launcher", ignore=ignore)
    sources = {path: path.read_text() for path in (folder / "launcher").iterdir()}
    assert sum(source.count(old) for source in sources.values()) == 1, old
    for path, source in sources.items():
        path.write_text(source.replace(old, new))
    return copy


class Running(subprocess.Popen[bytes]):
    """A process that is killed at the end of its block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        super().__exit__(kind, error, trace)


class Home:
    """The folders of an isolated user. On exit its daemon is stopped and no process is left.

    By default its daemon has no embedder, which takes time and which few tests need, and its
    commands are forked from a process that has loaded the program. Without `forks`, Python is
    started for each of them, as for a user.
    """

    def __init__(
        self, *, embedder: str = "none", folder: Path | None = None, forks: bool = True
    ) -> None:
        self.forks = forks
        # Not pytest's folder: the path of a Unix socket may have 107 bytes.
        self.folder = folder or Path(tempfile.mkdtemp(prefix="aml-"))
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        self.settings: dict[str, object] = {**BASE, "embedder.provider": embedder}
        self.work = self.folder / "work"
        self.work.mkdir()
        prepare_home(self.environ, self.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        log = ""
        try:
            self.stop()
            wait_until(lambda: error is not None or not self.processes(), "no process is left")
            log = self.log()
        finally:
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.folder, ignore_errors=True)
        if error is None:
            assert "Traceback" not in log, log[-4000:]

    @property
    def data(self) -> Path:
        return self.folder / ".local/share/agent-memory"

    @property
    def config_file(self) -> Path:
        return self.folder / ".config/agent-memory/config.toml"

    def configure(self, text: str) -> None:
        self.config_file.parent.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(text)
        prepare_home(self.environ, self.settings)

    def read_config(self) -> str:
        """Return what config.toml has, besides what tests add to it; empty without a file."""
        text = self.config_file.read_text() if self.config_file.exists() else ""
        return remove_settings(remove_store(text, self.data))

    def command(
        self,
        program: str,
        *arguments: Word,
        launcher: Path = LAUNCHER,
        env: Mapping[str, str] | None = None,
    ) -> list[Word]:
        words = [sys.executable, "-I", "-S", str(launcher), program]
        return [*words, *choose_home(self.environ, env), *arguments]

    def run(
        self,
        program: str,
        *arguments: Word,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        launcher: Path = LAUNCHER,
    ) -> Answer:
        """Run a command, with pipes for its input and output. Settings in `env`, whose names have a
        dot, are in config.toml meanwhile."""
        if self.forks and launcher == LAUNCHER:
            return self._fork(program, arguments, given, env, cwd, launches=True)
        words = self.command(program, *arguments, launcher=launcher, env=env)
        return self.run_words(words, given=given, env=env, cwd=cwd)

    def run_forked(
        self,
        program: str,
        *arguments: Word,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Answer:
        """Run a command without a daemon and without the launcher, which is faster."""
        return self._fork(program, arguments, given, env, cwd, launches=False)

    def _fork(
        self,
        program: str,
        arguments: Sequence[Word],
        given: bytes,
        env: Mapping[str, str] | None,
        cwd: Path | None,
        *,
        launches: bool,
    ) -> Answer:
        prepare_home(self.environ, self.settings)
        option, folder = choose_home(self.environ, env)
        words = (program, option, folder, *arguments)
        variables, settings = split_variables(env)
        environ = {**self.environ, **variables}
        data = config.folders({"HOME": folder}).data
        server = (
            ForkServer.choose(program, arguments, data) if launches else ForkServer.get_shared()
        )
        with change_settings(self.environ, settings):
            return Answer(
                *server.run(
                    words, environ, cwd or self.work, given, launches=launches, seconds=SECONDS
                )
            )

    def run_words(
        self,
        words: Sequence[Word],
        *,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Answer:
        prepare_home(self.environ, self.settings)
        variables, settings = split_variables(env)
        with change_settings(self.environ, settings):
            done = subprocess.run(
                words,
                input=given,
                env={**self.environ, **variables},
                cwd=cwd or self.work,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        return Answer(done.returncode, done.stdout, done.stderr)

    def run_shell(self, script: str, *, given: bytes = b"") -> Answer:
        """Run a bash script in which `$RUN_memory`, `$RUN_daemon` and `$RUN_kontekst` are the
        programs of this home."""
        programs = {"memory": "memory", "daemon": "memory-daemon", "kontekst": "kontekst"}
        env = {
            f"RUN_{name}": " ".join(map(str, self.command(program)))
            for name, program in programs.items()
        }
        return self.run_words(["bash", "-c", script], given=given, env=env)

    def begin(
        self, program: str, *arguments: Word, env: Mapping[str, str] | None = None
    ) -> "Running":
        """Start a command. As a context manager, it is killed at the end of the block."""
        return self.begin_words(self.command(program, *arguments, env=env), env=env)

    def begin_words(
        self, words: Sequence[Word], *, env: Mapping[str, str] | None = None
    ) -> "Running":
        prepare_home(self.environ, self.settings)
        return Running(
            words,
            bufsize=0,  # bytes that nobody has read stay in the pipe
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self.environ, **(env or {})},
            cwd=self.work,
        )

    def on_terminal(
        self,
        program: str,
        *arguments: Word,
        columns: int = 80,
        lines: int = 24,
        env: Mapping[str, str] | None = None,
        stdout: IO[bytes] | None = None,
        cwd: Path | None = None,
    ) -> "Screen":
        prepare_home(self.environ, self.settings)
        return Screen(
            self.command(program, *arguments, env=env),
            {**self.environ, **(env or {})},
            cwd or self.work,
            columns,
            lines,
            stdout,
        )

    def serve(self) -> int:
        """Start a daemon without the launcher, unless one runs. Return its process number."""
        running = self.pid()
        if running is not None:
            return running
        prepare_home(self.environ, self.settings)
        born = ForkServer.get_shared().start(self.environ, self.folder / "daemon.stderr")
        wait_until(
            lambda: born.poll() is not None or self._read_announced_pid() == born.pid, "it serves"
        )
        assert born.poll() is None, (self.folder / "daemon.stderr").read_text()
        return born.pid

    def fail_to_serve(self, **environ: str) -> Answer:
        """Run a daemon that fails to start, without the launcher."""
        prepare_home(self.environ, self.settings)
        stderr = self.folder / "daemon.stderr"
        born = ForkServer.get_shared().start({**self.environ, **environ}, stderr)
        return Answer(born.wait(SECONDS), b"", stderr.read_bytes())

    def _read_announced_pid(self) -> int | None:
        with suppress(FileNotFoundError):
            found: int = json.loads((self.data / "daemon.json").read_text())["pid"]
            return found
        return None

    def start_daemon(self, *options: Word) -> int:
        """Start a daemon by hand. Return its process number."""
        answer = self.run("memory-daemon", "start", *options)
        assert answer.code == 0, answer
        pid = self.pid()
        assert pid is not None
        return pid

    def status(self, **kwargs: Any) -> dict[str, Any]:
        answer = self.run("memory-daemon", "status", "--format", "json", **kwargs)
        found: dict[str, Any] = answer.json()
        return found

    def hold_still(self) -> None:
        """Run every job once more and pause it, so that derived data no longer changes."""
        for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
            for verb in ("pause", "run"):
                answer = self.run("memory-daemon", "scheduler", verb, job)
                assert answer.code == 0, answer

    def pid(self) -> int | None:
        """Return the number of the process that holds the daemon's lock."""
        return runtime_files.find_lock_holder(config.folders(self.environ))

    def log(self) -> str:
        path = self.data / "logs/daemon.log"
        return path.read_text() if path.exists() else ""

    def ready_count(self) -> int:
        return sum(json.loads(line)["event"] == "daemon.ready" for line in self.log().splitlines())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon, if one runs, and wait until it has released the folder."""
        pid = self.pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            wait_until(lambda: self.pid() != pid, "the daemon has let go of its lock")

    def processes(self) -> list[int]:
        """Return the processes that belong to this home, by their environment."""
        mark = f"\0HOME={self.folder}\0".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in b"\0" + path.read_bytes():
                    found.append(int(path.parent.name))
        return found


class Screen:
    """A command on a real terminal, which takes keys and whose output can be awaited."""

    def __init__(
        self,
        words: Sequence[Word],
        env: Mapping[str, str],
        cwd: Path,
        columns: int,
        lines: int,
        stdout: IO[bytes] | None,
    ) -> None:
        self._master, self._slave = pty.openpty()
        termios.tcsetwinsize(self._slave, (lines, columns))
        self.shown = b""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *words],
            stdin=self._slave,
            stdout=self._slave if stdout is None else stdout,
            stderr=self._slave,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait(SECONDS)
        os.close(self._master)
        os.close(self._slave)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        """The output so far, with plain newlines."""
        return self.shown.decode(errors="replace").replace("\r\n", "\n")

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._slave)[3] & termios.ECHO)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def interrupt(self) -> None:
        """Ctrl-C, as a key: the terminal makes a signal of it."""
        self.type("\x03")

    def read_until(self, text: str, seconds: float = SECONDS, *, times: int = 1) -> None:
        deadline = time.monotonic() + seconds
        while self.text.count(text) < times:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} was not shown: {self.text!r}"
            self._read(left)

    def finish(self, seconds: float = SECONDS) -> int:
        """Read to the end. Return the exit code."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end: {self.text[-2000:]!r}"
            self._read(_TICK)
        while self._read(0):
            pass
        return self._process.returncode

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            self.shown += os.read(self._master, 1 << 16)
        return bool(ready)


class ProgramServer:
    """The test programs of `tests/e2e/command_programs.py`, where this home's launcher looks."""

    def __init__(self, home: Home) -> None:
        self.home = home
        (source, self._input), (answers, output) = os.pipe(), os.pipe()
        self._output = os.fdopen(answers, "rb")
        try:
            self._process = ForkServer.get_shared().begin(
                "tests.e2e.command_programs", [str(home.data)], home.environ, (source, output, 2)
            )
        finally:
            os.close(source)
            os.close(output)
        assert self._output.readline() == b"ready\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._output.closed:
            self.kill()

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def run(self, *arguments: Word, **kwargs: Any) -> Answer:
        return self.home.run("memory", *arguments, **kwargs)

    def begin(self, *arguments: Word) -> "Running":
        return self.home.begin("memory", *arguments)

    def on_terminal(self, *arguments: Word, **kwargs: Any) -> Screen:
        return self.home.on_terminal("memory", *arguments, **kwargs)

    def kill(self) -> None:
        self._process.kill()
        self._finish()

    def stop(self) -> bytes:
        """Stop in order: what it wrote to its own standard output meanwhile."""
        return self._finish()

    def _finish(self) -> bytes:
        os.close(self._input)
        with self._output:
            out = self._output.read()
        self._process.wait(SECONDS)
        return out
