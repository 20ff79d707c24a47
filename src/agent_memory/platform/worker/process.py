"""A worker process for work that would hold up the daemon."""

import contextlib
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple, TypeVar, cast

import structlog

from agent_memory.kernel.errors import WorkerClosed, WorkerFailed
from agent_memory.platform import foreground
from agent_memory.platform.priority import ThreadPriority
from agent_memory.platform.worker import messages

T = TypeVar("T")

log = structlog.get_logger()

CHILD = "agent_memory.platform.worker.child"
STOP_SECONDS = 10.0  # for a killed process to be gone: on a busy machine it takes a while


class _Child(NamedTuple):
    process: subprocess.Popen[bytes]
    channels: Mapping[ThreadPriority, socket.socket]


class ProcessWorker:
    """A worker that starts at its first call and again after a crash.

    It has a lane for each priority. Calls of a lane run one at a time, in a thread of this
    priority. A call that crashes or hangs ends the process, and so fails those in other lanes too.
    """

    def __init__(self, lanes: Sequence[ThreadPriority] = (ThreadPriority.LOW,)) -> None:
        self._turns = {lane: threading.Lock() for lane in lanes}
        self._default = lanes[0]
        self._starting = threading.Lock()
        self._child: _Child | None = None
        self._closed = threading.Event()

    @property
    def pid(self) -> int | None:
        child = self._child  # another thread may replace it
        return None if child is None else child.process.pid

    def call(
        self,
        function: Callable[..., T],
        /,
        *arguments: object,
        timeout_seconds: float,
        lane: ThreadPriority | None = None,
    ) -> T:
        lane = lane or self._default
        with self._turns[lane]:
            child = self._ensure_started(lane)
            channel = child.channels[lane]
            deadline = time.monotonic() + timeout_seconds
            job = getattr(function, "__name__", repr(function))
            try:
                messages.send(channel, (function, arguments), deadline)
                succeeded, result, seconds = messages.receive(channel, deadline)
            except TimeoutError as exc:
                self._end(child, lane)
                log.warning("worker.hung", job=job, seconds=timeout_seconds)
                raise WorkerFailed(f"{job} took longer than {timeout_seconds:g} s") from exc
            except (OSError, EOFError, pickle.UnpicklingError) as exc:
                self._end(child, lane)
                code = child.process.returncode
                log.warning("worker.crashed", job=job, code=code)
                raise WorkerFailed(f"the worker ended in {job} (code {code})") from exc
            foreground.charge(seconds)
            if not succeeded:
                raise cast(Exception, result)
            return cast(T, result)

    def close(self) -> None:
        """End the worker. A running call fails."""
        self._closed.set()
        with self._starting:  # no child is started after this
            child = self._child
        if child is None:
            return
        child.process.kill()
        with ExitStack() as stack:
            for turn in self._turns.values():
                stack.enter_context(turn)
            self._end(child, *self._turns)

    def _ensure_started(self, lane: ThreadPriority) -> _Child:
        with self._starting:
            if self._closed.is_set():
                raise WorkerClosed("the worker is closed")
            child = self._child
            if child is not None and child.process.poll() is not None:
                self._release(child, lane)
                child = None
            if child is None:
                child = self._child = self._start()
            return child

    def _start(self) -> _Child:
        with ExitStack() as undoing:
            try:
                channels: dict[ThreadPriority, socket.socket] = {}
                lanes: dict[ThreadPriority, int] = {}
                with ExitStack() as theirs:
                    for lane in self._turns:
                        channels[lane], other = socket.socketpair()
                        undoing.enter_context(channels[lane])
                        lanes[lane] = theirs.enter_context(other).fileno()
                    numbers = [f"{lane.value}:{number}" for lane, number in lanes.items()]
                    process = subprocess.Popen(
                        [sys.executable, "-I", "-m", CHILD, *numbers],
                        pass_fds=list(lanes.values()),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                    )
            except OSError as exc:
                raise WorkerFailed(f"the worker cannot start: {exc.strerror}") from exc
            undoing.pop_all()
        return _Child(process, channels)

    def _end(self, child: _Child, *own: ThreadPriority) -> None:
        with self._starting:
            child.process.kill()
            self._release(child, *own)

    def _release(self, child: _Child, *own: ThreadPriority) -> None:
        """Let go of a child that has ended or been killed. `own` are the lanes of the caller."""
        for lane, channel in child.channels.items():
            with contextlib.suppress(OSError):  # it is closed already
                channel.shutdown(socket.SHUT_RDWR)
            turn = self._turns[lane]
            if lane in own:
                channel.close()
            elif turn.acquire(blocking=False):  # otherwise its call fails now, and closes it
                channel.close()
                turn.release()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(STOP_SECONDS)
        if self._child is child:
            self._child = None
