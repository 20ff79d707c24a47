"""Servers that fork processes for tests: to start Python and load the program anew is nine tenths
of what most of them take.

`forked_daemons` has loaded the program: it forks daemons, and commands with what they execute.
`forked_launchers` has loaded the launcher only, so its forks are light: it forks the commands that
a running daemon answers. What a fork cannot show is shown by the tests of homes with `forks=False`,
of the docs and of packages, which start processes as users do.
"""

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

from agent_memory import launch
from agent_memory.launcher import (
    command_client,
    hook_spool,
    last_context,
    late_input,
    mcp_bridge,
    starting,
    terminal,
    versions,
)

COMMAND_SECONDS = 60.0
_TICK = 0.005
_CHUNK = 1 << 16
_LENGTH = 4  # bytes before a message
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_ROOT = Path(__file__).parents[1]
# By what needs them; here for all.
_LOADED_LATE = (hook_spool, last_context, late_input, mcp_bridge, starting, terminal, versions)


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
    """A process of a module of tests that forks others."""

    def __init__(self, module: str) -> None:
        self._turn = threading.Lock()
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    # The collector would search what is being loaded, and find nothing.
                    f"import gc; gc.disable(); from tests import {module}; {module}.main()",
                ],
                stdin=theirs.fileno(),
                cwd=_ROOT,
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
        atexit.register(self.close)

    @classmethod
    @cache
    def get_shared(cls) -> Self:
        """Return the server that has loaded the program."""
        return cls("forked_daemons")

    @classmethod
    @cache
    def _get_light(cls) -> Self:
        return cls("forked_launchers")

    @classmethod
    def choose(cls, program: str, arguments: Sequence[str | bytes], data: Path) -> Self:
        """Return the light server if a running daemon answers this command."""
        words, _ = command_client.split_arguments([os.fsdecode(word) for word in arguments])
        local = command_client.ALWAYS_LOCAL[program]
        if {*words[:1], " ".join(words[:2])}.isdisjoint(local) and (data / "daemon.sock").exists():
            return cls._get_light()
        return cls.get_shared()

    def start(
        self,
        environ: Mapping[str, str],
        stderr: Path,
        uid: int | None = None,
        network: str | None = None,
    ) -> ForkedProcess:
        """Start a daemon with these variables, for another user if `uid` is set, and in another
        network if this is the path of a namespace. Its errors are appended to a file."""
        streams = [
            os.open(path, flags, 0o600)
            for path, flags in ((os.devnull, os.O_RDWR), (stderr, _APPENDING))
        ]
        given, errors = streams
        try:
            return self._fork((given, given, errors), environ, "/", uid=uid, network=network)
        finally:
            for stream in streams:
                os.close(stream)

    def begin(
        self, module: str, words: Sequence[str], environ: Mapping[str, str], streams: Sequence[int]
    ) -> ForkedProcess:
        """Run a module of tests, as `python -m` does."""
        return self._fork(streams, environ, _ROOT, words, module=module)

    def run(
        self,
        words: Sequence[str | bytes],
        environ: Mapping[str, str],
        cwd: Path,
        given: bytes = b"",
        *,
        launches: bool = False,
        seconds: float = COMMAND_SECONDS,
    ) -> tuple[int, bytes, bytes]:
        """Run a command as the launcher does without a daemon or, if it `launches`, the launcher
        itself. Return its exit code, output and errors."""
        (source, entry), (answers, out), (errors, err) = os.pipe(), os.pipe(), os.pipe()
        decoded = [os.fsdecode(word) for word in words]
        try:
            process = self._fork((source, out, err), environ, cwd, decoded, launches=launches)
        finally:
            for stream in (source, out, err):
                os.close(stream)
        try:
            output, complaints = _communicate(entry, given, (answers, errors), seconds)
            return process.wait(seconds), output, complaints
        except subprocess.TimeoutExpired:
            process.kill()
            raise

    def _fork(
        self,
        streams: Sequence[int],
        environ: Mapping[str, str],
        cwd: Path | str,
        words: Sequence[str] = (),
        *,
        launches: bool = False,
        module: str = "",
        uid: int | None = None,
        network: str | None = None,
    ) -> ForkedProcess:
        request = {
            "environ": dict(environ),
            "cwd": str(cwd),
            "words": list(words),
            "launches": launches,
            "module": module,
            "uid": uid,
            "network": network,
        }
        pid = self.ask(request, streams)
        assert pid is not None
        return ForkedProcess(self, pid)

    def ask(self, request: Mapping[str, object], streams: Sequence[int] = ()) -> int | None:
        message = json.dumps(request).encode()
        with self._turn:
            socket.send_fds(self._channel, [len(message).to_bytes(_LENGTH)], streams)
            self._channel.sendall(message)
            answer: int | None = json.loads(self._channel.recv(_CHUNK))
        return answer

    def close(self) -> None:
        """End the process and its remaining daemons."""
        self._channel.close()
        self._process.wait()


def _communicate(
    entry: int, given: bytes, outputs: Sequence[int], seconds: float
) -> tuple[bytes, bytes]:
    """Write the input of a process into its pipe, and read its output and errors to their ends."""
    deadline = time.monotonic() + seconds
    read: dict[int, bytes] = dict.fromkeys(outputs, b"")
    with selectors.DefaultSelector() as waiting:
        os.set_blocking(entry, False)
        for stream in outputs:
            waiting.register(stream, selectors.EVENT_READ)
        waiting.register(entry, selectors.EVENT_WRITE)
        try:
            while waiting.get_map():
                ready = waiting.select(deadline - time.monotonic())
                if not ready:
                    raise subprocess.TimeoutExpired("a forked command", seconds)
                for key, _ in ready:
                    if key.fd == entry:
                        with suppress(BrokenPipeError):
                            given = given[os.write(entry, given) :]
                            if given:
                                continue
                    elif part := os.read(key.fd, _CHUNK):
                        read[key.fd] += part
                        continue
                    waiting.unregister(key.fd)
                    os.close(key.fd)
        finally:
            for stream in [key.fd for key in waiting.get_map().values()]:
                os.close(stream)
    output, errors = read.values()
    return output, errors


def serve(run_child: Callable[..., int]) -> None:
    """Answer requests: fork a process, which runs the function with the values of the request, or
    return the exit code of one."""
    living: set[int] = set()
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    while (received := _receive(channel)) is not None:
        request, streams = received
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            living.discard(pid)
        else:
            answer = os.fork()
            if answer == 0:
                channel.close()
                _take_streams(streams)
                os._exit(_run(run_child, request))
            living.add(answer)
            for stream in streams:
                os.close(stream)
        channel.sendall(json.dumps(answer).encode())
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def _receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Receive a request and its streams, or None at the end."""
    head, streams, _, _ = socket.recv_fds(channel, _LENGTH, 3)
    if not head:
        return None
    message = b""
    while len(message) < int.from_bytes(head):
        message += channel.recv(int.from_bytes(head) - len(message))
    return json.loads(message), streams


def _take_streams(streams: Sequence[int]) -> None:
    for number, instead in enumerate(streams):
        os.dup2(instead, number)
    os.closerange(3, max(streams) + 1)


def _run(run_child: Callable[..., int], request: dict[str, Any]) -> int:
    try:
        os.chdir(request.pop("cwd"))
        set_environment(request.pop("environ"))
        return run_child(**request)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stderr.flush()


def set_environment(environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()


def run_launcher(words: Sequence[str]) -> int:
    sys.argv = [launch.__file__, *words]
    return command_client.main()
