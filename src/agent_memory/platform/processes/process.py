"""A child process that never outlives the daemon: a supervisor process guards it."""

import contextlib
import errno
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from agent_memory.platform import priority

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
GRACE_SECONDS = 5.0
START_SECONDS = 30.0
_SPARE_SECONDS = 5.0  # for the supervisor to reap the child and report
_MAX_LINE_BYTES = 64

Stream = int | IO[bytes] | None


class SupervisedProcess:
    """A running child and the processes that it starts. Thread safe.

    `stdin`, `stdout` and `stderr` are pipes if PIPE was passed for them.
    """

    def __init__(
        self, pid: int, supervisor: "subprocess.Popen[bytes]", lifeline: socket.socket
    ) -> None:
        self.pid = pid
        self.stdin = supervisor.stdin
        self.stdout = supervisor.stdout
        self.stderr = supervisor.stderr
        self._supervisor = supervisor
        self._lifeline = lifeline
        self._code: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._wait_for_end, name=f"supervisor-{pid}", daemon=True).start()

    @classmethod
    def start(
        cls,
        arguments: Sequence[str],
        *,
        cwd: int | str | os.PathLike[str] | None = None,
        env: Mapping[str, str],
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = subprocess.DEVNULL,
        stderr: Stream = subprocess.DEVNULL,
        grace_seconds: float = GRACE_SECONDS,
        is_background: bool = False,
    ) -> Self:
        """Start a program in its own process group, without a terminal.

        A program without a slash is searched on the PATH of `env`. `cwd` may be the descriptor of a
        folder. `grace_seconds` is the time between SIGTERM and SIGKILL when the daemon ends. A
        program that `is_background` has low priority. Raises OSError if the program cannot start.
        """
        folder = cwd if cwd is None or isinstance(cwd, int) else os.fsencode(cwd)
        environ = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        data = marshal.dumps(
            (
                [os.fsencode(argument) for argument in arguments],
                environ,
                folder,
                float(grace_seconds),
            )
        )
        lifeline, theirs = socket.socketpair()
        with contextlib.ExitStack() as undoing:
            undoing.enter_context(lifeline)
            with theirs:
                passed = (theirs.fileno(), *([folder] if isinstance(folder, int) else []))
                shown = Path(arguments[0]).name  # in lists of processes
                supervisor = subprocess.Popen(
                    [sys.executable, "-I", "-S", _SUPERVISOR, str(theirs.fileno()), shown],
                    cwd="/",
                    env={},
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=passed,
                    start_new_session=True,
                )
            undoing.callback(_discard, supervisor)
            if is_background:  # before it gets the program, which inherits it
                priority.lower(supervisor.pid)
            lifeline.settimeout(START_SECONDS)
            try:
                lifeline.sendall(len(data).to_bytes(4, "big") + data)
                kind, _, rest = _line(lifeline).partition(" ")
            except OSError as exc:
                raise OSError(errno.EIO, "its supervisor did not start", arguments[0]) from exc
            if kind == "failed":
                about, number = rest.split()
                name = arguments[0] if about == "program" else folder
                raise OSError(int(number), os.strerror(int(number)), name)
            if kind != "pid":
                raise OSError(errno.EIO, "its supervisor ended", arguments[0])
            lifeline.settimeout(None)
            undoing.pop_all()
        return cls(int(rest), supervisor, lifeline)

    @property
    def returncode(self) -> int | None:
        """The exit code, as in subprocess: negative for a signal, None while it runs."""
        return self._code

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for the end. Return the exit code, or None if it still runs after `seconds`."""
        self._ended.wait(seconds)
        return self._code

    def stop(self, grace_seconds: float = GRACE_SECONDS) -> int:
        """Send SIGTERM, then SIGKILL after the grace time, and return the exit code."""
        if not self._ended.is_set():
            with contextlib.suppress(OSError):
                self._lifeline.sendall(f"{grace_seconds:.3f}\n".encode())
        if not self._ended.wait(grace_seconds + _SPARE_SECONDS):
            self._supervisor.kill()
            self._ended.wait()
        assert self._code is not None  # noqa: S101
        return self._code

    def _wait_for_end(self) -> None:
        try:
            line = _line(self._lifeline)
        except OSError:
            line = ""
        if line.startswith("ended "):
            code = int(line.removeprefix("ended "))
        else:  # the supervisor was killed: the kernel kills the child, but not its children
            code = -signal.SIGKILL
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        self._supervisor.wait()
        self._code = code
        self._ended.set()
        self._lifeline.close()


def _line(lifeline: socket.socket) -> str:
    """Read the next line of the supervisor; empty at its end."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _MAX_LINE_BYTES:
        part = lifeline.recv(1)
        if not part:
            return ""
        line += part
    return line.decode()[:-1]


def _discard(supervisor: "subprocess.Popen[bytes]") -> None:
    for stream in (supervisor.stdin, supervisor.stdout, supervisor.stderr):
        if stream is not None:
            stream.close()
    supervisor.kill()
    supervisor.wait()
