"""Slow calls for HTTP and MCP: each runs in a thread, reports progress and can be cancelled."""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Generic, NamedTuple, TypeVar

from agent_memory.kernel.errors import Cancelled, Overloaded
from agent_memory.kernel.progress import OnProgress

AT_ONCE = 4  # tasks that run; the others wait for a slot

T = TypeVar("T")


class ProgressStep(NamedTuple):
    """The progress of a task. `total` is 0 if it is not known."""

    phase: str
    current: int
    total: int

    @property
    def message(self) -> str:
        count = f": {self.current:,} of {self.total:,}" if self.total else ""
        return self.phase.capitalize() + count


class RunningTask(Generic[T]):
    """A call that waits for a slot, runs, or has ended. `started` is false while it waits."""

    def __init__(
        self, work: Callable[[OnProgress], T], slots: asyncio.Semaphore, max_unread: int
    ) -> None:
        self.started = False
        self._work = work
        self._slots = slots
        self._loop = asyncio.get_running_loop()
        self._unread: deque[ProgressStep] = deque(maxlen=max_unread)
        self._changed = asyncio.Event()
        self._cancelled = threading.Event()
        self._outcome: Future[T] = Future()
        self._finished = False
        self._context = contextvars.copy_context()  # whose call it is
        self._starting = self._loop.create_task(self._start())

    @property
    def ended(self) -> bool:
        """Whether the call has returned or raised and all its steps are read."""
        return self._finished and not self._unread

    async def next_step(self, seconds: float | None = None) -> ProgressStep | None:
        """Return the next step, or None at the end or if none comes within `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._unread and not self._finished:
                    self._changed.clear()
                    await self._changed.wait()
        return self._unread.popleft() if self._unread else None

    def result(self) -> T:
        """Return what the call returned, or raise what it raised. Call it once `ended` is true."""
        return self._outcome.result(timeout=0)

    def cancel(self) -> None:
        """Drop the call if it waits; else make its next report of progress raise Cancelled."""
        self._cancelled.set()
        if not self.started and not self._finished:
            self._starting.cancel()
            self._outcome.set_exception(Cancelled())
            self._finish()

    async def _start(self) -> None:
        await self._slots.acquire()
        self.started = True
        # A daemon thread: a git remote that does not answer must not delay the exit.
        threading.Thread(target=self._run, name="long-running", daemon=True).start()

    def _finish(self) -> None:
        self._finished = True
        self._changed.set()

    # In the thread.

    def _run(self) -> None:
        try:
            self._outcome.set_result(self._context.run(self._work, self._on_progress))
        except BaseException as exc:  # raised again by `result`
            self._outcome.set_exception(exc)
        # Not earlier: a cancelled call keeps its slot until its thread has noticed.
        self._call_on_loop(self._slots.release)
        self._call_on_loop(self._finish)

    def _on_progress(self, phase: str, current: int, total: int) -> None:
        if self._cancelled.is_set():
            raise Cancelled
        self._call_on_loop(self._add_step, ProgressStep(phase, current, total))

    def _call_on_loop(self, call: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: the daemon has stopped
            self._loop.call_soon_threadsafe(call, *args)

    def _add_step(self, step: ProgressStep) -> None:
        self._unread.append(step)
        self._changed.set()


class TaskRunner:
    """Runs slow calls for one event loop, `AT_ONCE` at a time.

    They get threads of their own because a git remote may take a minute. `max_tasks` limits the
    calls that run or wait. Of the steps that were not read yet, the last `max_unread` remain.
    """

    def __init__(self, *, max_tasks: int | None = None, max_unread: int = 1) -> None:
        self._max_tasks = max_tasks
        self._max_unread = max_unread
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[RunningTask[Any]] = set()

    @contextmanager
    def start(self, work: Callable[[OnProgress], T]) -> Iterator[RunningTask[T]]:
        """Start a call, and cancel it on leaving. Raises Overloaded."""
        if self._max_tasks is not None and len(self._tasks) >= self._max_tasks:
            raise Overloaded("too many long-running calls are waiting: try again later")
        task = RunningTask(work, self._slots, self._max_unread)
        self._tasks.add(task)
        try:
            yield task
        finally:
            task.cancel()
            self._tasks.discard(task)

    async def run(
        self,
        work: Callable[[OnProgress], T],
        report: Callable[[int, ProgressStep], Awaitable[None]],
    ) -> T:
        """Run a call to its end and report its steps, numbered from 1. Raises Overloaded."""
        with self.start(work) as task:
            number = 0
            while (step := await task.next_step()) is not None:
                number += 1
                await report(number, step)
            return task.result()

    def close(self) -> None:
        """Cancel all calls."""
        for task in list(self._tasks):
            task.cancel()
