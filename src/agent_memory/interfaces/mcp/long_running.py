"""Long work for a client that waits: it runs in a thread, tells how far it is, and can be ended."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from agent_memory.kernel.errors import Cancelled, Overloaded

AT_ONCE = 4  # the others wait for their turn
MOST = 100  # that run or wait

T = TypeVar("T")
OnProgress = Callable[[str, int, int], None]
Report = Callable[[int, str], Awaitable[None]]


class McpTaskRunner:
    """Used on one event loop. Not the threads of everybody's calls: a remote may take a minute."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, "mcp-errand")
        self._wanted: set[threading.Event] = set()

    async def run(self, work: Callable[[OnProgress], T], report: Report) -> T:
        """Cancelled, it cancels the work, which ends at its next step."""
        if len(self._wanted) >= MOST:
            raise Overloaded("too much long work is waiting already; try again later")
        loop = asyncio.get_running_loop()
        cancelled, woken = threading.Event(), asyncio.Event()
        steps: list[str] = []

        def hand_over(step: str) -> None:
            steps[:] = [step]  # only the last tells how far it is
            woken.set()

        def on_progress(phase: str, current: int, total: int) -> None:
            if cancelled.is_set():
                raise Cancelled
            step = phase.capitalize() + (f": {current:,} of {total:,}" if total else "")
            with suppress(RuntimeError):  # the loop is closed: the daemon has stopped
                loop.call_soon_threadsafe(hand_over, step)

        self._wanted.add(cancelled)
        future = loop.run_in_executor(self._threads, work, on_progress)
        future.add_done_callback(lambda _: woken.set())
        number = 0
        try:
            while True:
                await woken.wait()
                woken.clear()
                if steps:
                    number += 1
                    await report(number, steps.pop())
                if future.done():
                    return await future
        finally:
            cancelled.set()
            future.cancel()
            self._wanted.discard(cancelled)

    def close(self) -> None:
        for each in self._wanted:
            each.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
