"""A worker process for Python work that would hold the GIL of the daemon."""

import contextlib
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar, cast

import structlog

from agent_memory.kernel.errors import WorkerClosed, WorkerFailed
from agent_memory.platform.worker import messages

T = TypeVar("T")

log = structlog.get_logger()

CHILD = "agent_memory.platform.worker.child"
STOP_SECONDS = 1.0


class ProcessWorker:
    """A worker that starts at its first call and again after a crash. Calls run one at a time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._closed = threading.Event()

    @property
    def pid(self) -> int | None:
        child = self._child  # another thread may replace it
        return None if child is None else child.pid

    def call(self, function: Callable[..., T], /, *arguments: object, timeout_seconds: float) -> T:
        with self._turn:
            if self._closed.is_set():
                raise WorkerClosed("the worker is closed")
            child, channel = self._ensure_started()
            if self._closed.is_set():  # `close` may have missed this child
                self._end()
                raise WorkerClosed("the worker is closed")
            deadline = time.monotonic() + timeout_seconds
            job = getattr(function, "__name__", repr(function))
            try:
                messages.send(channel, (function, arguments), deadline)
                succeeded, result = messages.receive(channel, deadline)
            except TimeoutError as exc:
                self._end()
                log.warning("worker.hung", job=job, seconds=timeout_seconds)
                raise WorkerFailed(f"{job} took longer than {timeout_seconds:g} s") from exc
            except (OSError, EOFError, pickle.UnpicklingError) as exc:
                self._end()
                log.warning("worker.crashed", job=job, code=child.returncode)
                raise WorkerFailed(f"the worker ended in {job} (code {child.returncode})") from exc
            if not succeeded:
                raise cast(Exception, result)
            return cast(T, result)

    def close(self) -> None:
        """End the worker. A running call fails."""
        self._closed.set()
        child = self._child  # a running call may replace it
        if child is not None:
            child.kill()
        with self._turn:
            self._end()

    def _ensure_started(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if self._child is not None and self._channel is not None and self._child.poll() is None:
            return self._child, self._channel
        self._end()
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            child = subprocess.Popen(
                [sys.executable, "-I", "-m", CHILD, str(descriptor)],
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._child, self._channel = child, ours
        return child, ours

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._child is not None:
            self._child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_SECONDS)
        self._child = self._channel = None
