"""The bridge from the event loop to synchronous services."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

MAX_INLINE_SCAN_CHARS = 16 << 10  # characters to scan for secrets on the event loop itself

T = TypeVar("T")


class Bridge:
    """A small thread pool for services, and awaiting the futures of the store's committer."""

    def __init__(self, threads: int = 8) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="service")
        self._settled: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in a thread, on behalf of the same caller."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, call)

    async def run_if_long(self, work: Callable[[], T], characters: int) -> T:
        """Run work on a text of so many characters, off the event loop if the text is long."""
        return work() if characters <= MAX_INLINE_SCAN_CHARS else await self.run(work)

    async def wait(self, future: "Future[T]") -> T:
        """Wait for a future. One wake-up of the loop serves all that settle at once."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[T] = loop.create_future()

        def settle(done: "Future[T]") -> None:
            self._settled.append((waiter, done))
            if not self._woken:
                self._woken = True
                loop.call_soon_threadsafe(self._resolve_waiters)

        future.add_done_callback(settle)
        return await waiter

    def _resolve_waiters(self) -> None:
        self._woken = False  # before the loop: a later one must wake it again
        while self._settled:
            waiter, done = self._settled.popleft()
            if waiter.done():
                continue  # its caller was cancelled
            if (error := done.exception()) is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(done.result())

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
