"""Daemons and commands forked from a process that has loaded the program: to start one anew is
nine tenths importing.

`python -m tests.forked_daemons` is that process. What a fork cannot show is shown by those tests
that start a daemon by a command, and commands by the launcher, as users do.
"""

import atexit
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Self

from agent_memory import features
from agent_memory.bootstrap import build_server_store
from agent_memory.config import SecuritySettings
from agent_memory.daemon import daemon, doctor, serving, standalone
from agent_memory.features.secrets.core import build_log_cleaner
from agent_memory.interfaces.cli import completing, remote
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.interfaces.http import application

COMMAND_SECONDS = 60.0
_TICK = 0.005
# By what needs them; here for all.
_LOADED_LATE = (application, build_server_store, doctor, remote, serving)
_CLONE_NEWNET = 0x40000000
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_ROOT = Path(__file__).parents[1]


class ForkedProcess:
    """A process of the fork server, with the methods of `Popen` that tests use."""

    def __init__(self, server: "ForkServer", pid: int) -> None:
        self.pid = pid
        self._server = server
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        if self._code is None:
            self._code = self._server.ask({"ended": self.pid})
        return self._code

    def wait(self, seconds: float) -> int:
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", seconds)
            pause.wait(_TICK)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:  # it is not reaped before we ask, so the id is still its own
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """A process that has loaded the package and forks daemons and commands for tests."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked_daemons"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
        atexit.register(self.close)

    @classmethod
    @cache
    def get_shared(cls) -> Self:
        return cls()

    def start(
        self,
        environ: Mapping[str, str],
        stderr: Path,
        uid: int | None = None,
        network: str | None = None,
    ) -> ForkedProcess:
        """Start a daemon with these variables, for another user if `uid` is set, and in another
        network if this is the path of a namespace. Its errors are appended to a file."""
        return self._fork(environ, "/", (os.devnull, os.devnull, stderr), (), uid, network)

    def run(
        self,
        words: Sequence[str | bytes],
        environ: Mapping[str, str],
        cwd: Path,
        given: bytes = b"",
    ) -> tuple[int, bytes, bytes]:
        """Run a command as the launcher does without a daemon. Return its exit code, output and
        errors."""
        with tempfile.TemporaryDirectory() as folder:
            source, out, err = (Path(folder, name) for name in ("in", "out", "err"))
            source.write_bytes(given)
            decoded = [os.fsdecode(word) for word in words]
            code = self._fork(environ, cwd, (source, out, err), decoded).wait(COMMAND_SECONDS)
            return code, out.read_bytes(), err.read_bytes()

    def _fork(
        self,
        environ: Mapping[str, str],
        cwd: Path | str,
        streams: Sequence[Path | str],
        words: Sequence[str],
        uid: int | None = None,
        network: str | None = None,
    ) -> ForkedProcess:
        pid = self.ask(
            {
                "environ": dict(environ),
                "cwd": str(cwd),
                "streams": [str(path) for path in streams],
                "words": list(words),
                "uid": uid,
                "network": network,
            }
        )
        assert pid is not None
        return ForkedProcess(self, pid)

    def ask(self, request: Mapping[str, object]) -> int | None:
        asking, answering = self._process.stdin, self._process.stdout
        assert asking is not None
        assert answering is not None
        with self._turn:
            asking.write(json.dumps(request).encode() + b"\n")
            asking.flush()
            answer: int | None = json.loads(answering.readline())
        return answer

    def close(self) -> None:
        """End the process and its remaining daemons."""
        self._process.communicate()


def main() -> None:
    """Answer requests, one per line: fork a process, or return the exit code of one."""
    completing.attach_sources(PROGRAMS)  # which loads every command
    for name in ("core", "feature"):  # a daemon of another user may read no library
        features.import_modules(name)
    # Compile the secret patterns, which all filters of a process share.
    build_log_cleaner(SecuritySettings())("password: hunter2")
    gc.collect()
    gc.freeze()  # or the first collection of a child copies the pages of all objects
    living: set[int] = set()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            living.discard(pid)
        else:
            answer = os.fork()
            if answer == 0:
                os._exit(_run_child(**request))
            living.add(answer)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def _run_child(
    environ: Mapping[str, str],
    cwd: str,
    streams: Sequence[str],
    words: Sequence[str],
    uid: int | None,
    network: str | None,
) -> int:
    """Run the daemon, or a command if there are words. Return the exit code."""
    try:
        opened = [
            os.open(path, flags, 0o600)
            for path, flags in zip(streams, (os.O_RDONLY, _APPENDING, _APPENDING), strict=True)
        ]
        for number, instead in enumerate(opened):
            os.dup2(instead, number)
        os.closerange(3, max(opened) + 1)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environ)
        if network is not None:
            _enter_network(network)
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        if words:
            return standalone.main(words[0], list(words[1:]))
        return daemon.run(daemon.DaemonOptions(flags={}))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stderr.flush()


def _enter_network(path: str) -> None:
    """Move this process into a network namespace. (os.setns comes with Python 3.12.)"""
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns", path)
    os.close(namespace)


if __name__ == "__main__":
    main()
