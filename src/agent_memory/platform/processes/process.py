"""A child process that never outlives the daemon: a warden stands between the two."""

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

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
GRACE_SECONDS = 5.0
START_SECONDS = 30.0
_SPARE_SECONDS = 5.0  # for the warden to reap and tell
_MAX_LINE_BYTES = 64

Stream = int | IO[bytes] | None


class SupervisedProcess:
    """A running child and all that it starts. Thread safe.

    `stdout`, `stderr` and `stdin` are ends of pipes, where a PIPE was asked for.
    """

    def __init__(
        self, pid: int, between: "subprocess.Popen[bytes]", lifeline: socket.socket
    ) -> None:
        self.pid = pid
        self.stdin = between.stdin
        self.stdout = between.stdout
        self.stderr = between.stderr
        self._supervisor = between
        self._lifeline = lifeline
        self._code: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._attend, name=f"warden-{pid}", daemon=True).start()

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
    ) -> Self:
        """Run it, in a process group of its own and without a terminal.

        A program without a slash is looked for on the PATH of `env`. `cwd` may be a descriptor of a
        folder. `grace_seconds` are those between SIGTERM and SIGKILL when the daemon ends. Raises
        the OSError that starting it met.
        """
        folder = cwd if cwd is None or isinstance(cwd, int) else os.fsencode(cwd)
        environ = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        data = marshal.dumps(
            ([os.fsencode(each) for each in arguments], environ, folder, float(grace_seconds))
        )
        lifeline, theirs = socket.socketpair()
        with contextlib.ExitStack() as undoing:
            undoing.enter_context(lifeline)
            with theirs:
                passed = (theirs.fileno(), *([folder] if isinstance(folder, int) else []))
                between = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", _SUPERVISOR, str(theirs.fileno())),
                        Path(arguments[0]).name,  # for who looks at the processes
                    ],
                    cwd="/",
                    env={},
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=passed,
                    start_new_session=True,
                )
            undoing.callback(_discard, between)
            lifeline.settimeout(START_SECONDS)
            try:
                lifeline.sendall(len(data).to_bytes(4, "big") + data)
                kind, _, rest = _line(lifeline).partition(" ")
            except OSError as exc:
                raise OSError(errno.EIO, "its warden did not start", arguments[0]) from exc
            if kind == "failed":
                about, number = rest.split()
                name = arguments[0] if about == "program" else folder
                raise OSError(int(number), os.strerror(int(number)), name)
            if kind != "pid":
                raise OSError(errno.EIO, "its warden ended", arguments[0])
            lifeline.settimeout(None)
            undoing.pop_all()
        return cls(int(rest), between, lifeline)

    @property
    def returncode(self) -> int | None:
        """As subprocess has it: negative for a signal; None while it runs."""
        return self._code

    def wait(self, seconds: float | None = None) -> int | None:
        """How it ended, or None where it still runs after that long."""
        self._ended.wait(seconds)
        return self._code

    def stop(self, grace_seconds: float = GRACE_SECONDS) -> int:
        """End it: SIGTERM, and SIGKILL where that does not help in time. Its return code."""
        if not self._ended.is_set():
            with contextlib.suppress(OSError):
                self._lifeline.sendall(f"{grace_seconds:.3f}\n".encode())
        if not self._ended.wait(grace_seconds + _SPARE_SECONDS):
            self._supervisor.kill()
            self._ended.wait()
        assert self._code is not None  # noqa: S101
        return self._code

    def _attend(self) -> None:
        try:
            line = _line(self._lifeline)
        except OSError:
            line = ""
        if line.startswith("ended "):
            code = int(line.removeprefix("ended "))
        else:  # the warden was killed, and the kernel kills the child for it: not what that started
            code = -signal.SIGKILL
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        self._supervisor.wait()
        self._code = code
        self._ended.set()
        self._lifeline.close()


def _line(lifeline: socket.socket) -> str:
    """What the warden says next; empty at its end."""
    said = b""
    while not said.endswith(b"\n") and len(said) < _MAX_LINE_BYTES:
        part = lifeline.recv(1)
        if not part:
            return ""
        said += part
    return said.decode()[:-1]


def _discard(between: "subprocess.Popen[bytes]") -> None:
    for stream in (between.stdin, between.stdout, between.stderr):
        if stream is not None:
            stream.close()
    between.kill()
    between.wait()
