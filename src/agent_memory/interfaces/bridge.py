"""From the event loop to synchronous services and back: the one place where the colours meet."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Bridge:
    """Runs services in a small pool and awaits what the store's committer settles."""

    def __init__(self, threads: int = 8) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="service")
        self._settled: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    async def run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    async def wait(self, future: "Future[T]") -> T:
        """The committer settles many at once: one wake-up of the loop serves them all."""
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
        self._woken = False  # before looking: who comes later wakes us again
        while self._settled:
            waiter, done = self._settled.popleft()
            if waiter.done():
                continue  # its caller has given up
            if (error := done.exception()) is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(done.result())

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
