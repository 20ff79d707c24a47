"""Long work for someone who watches: it runs in a thread, and tells how far it has come."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any

import structlog

from agent_memory.interfaces.http import sse
from agent_memory.interfaces.wire.errors import error_json
from agent_memory.kernel.errors import AgentMemoryError, Cancelled

log = structlog.get_logger()

AT_ONCE = 4  # errands that run; the others wait for their turn
_UNSENT = 100  # steps that wait to be sent; what is more is left out

OnProgress = Callable[[str, int, int], None]
Work = Callable[[OnProgress], Mapping[str, Any]]  # what is told when it is complete


class SseTaskRunner:
    """Used on one event loop."""

    def __init__(self, keepalive_seconds: float) -> None:
        self._keepalive = keepalive_seconds
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(
        self, operation: str, params: Mapping[str, Any], work: Work
    ) -> AsyncGenerator[bytes, None]:
        """The events of it. Closed before its end, it cancels the work."""
        yield sse.format_json_event("start", {"operation": operation, "params": params})
        while not await self._turn():
            yield sse.format_json_event("progress", _progress("waiting", 0, 0))
        # The turn is the thread's: one that has yet to notice that it is cancelled keeps it.
        errand = _StreamedTask(work, self._turns.release)
        try:
            while not errand.over:
                if not await sse.wait_with_timeout(errand.woken, self._keepalive):
                    yield sse.KEEP_ALIVE
                errand.woken.clear()
                while errand.unsent:
                    yield errand.unsent.popleft()
        finally:
            errand.cancel()

    async def _turn(self) -> bool:
        try:
            async with asyncio.timeout(self._keepalive):
                await self._turns.acquire()
        except TimeoutError:
            return False
        return True


class _StreamedTask:
    def __init__(self, work: Work, release: Callable[[], None]) -> None:
        self._work = work
        self._release = release
        self._loop = asyncio.get_running_loop()
        self.woken = asyncio.Event()
        self.unsent: deque[bytes] = deque()
        self._cancelled = threading.Event()
        self._ended = False
        threading.Thread(target=self._run, name="errand", daemon=True).start()

    @property
    def over(self) -> bool:
        return self._ended and not self.unsent

    def cancel(self) -> None:
        self._cancelled.set()

    # In the thread.

    def _run(self) -> None:
        try:
            self._send(sse.format_json_event("complete", self._work(self._on_progress)), ended=True)
        except Cancelled as exc:
            log.info("stream.cancelled")
            self._fail(exc)
        except AgentMemoryError as exc:
            self._fail(exc)
        except Exception:
            log.exception("stream.crashed")
            self._fail(AgentMemoryError("it failed in the daemon; its log says why"))
        finally:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._release)

    def _fail(self, error: AgentMemoryError) -> None:
        told = error_json(error)
        self._send(
            sse.format_json_event("error", told)
            + sse.format_json_event(
                "complete", {"success": False, "summary": told["message"], "error": told}
            ),
            ended=True,
        )

    def _on_progress(self, phase: str, current: int, total: int) -> None:
        if self._cancelled.is_set():
            raise Cancelled
        if len(self.unsent) < _UNSENT:
            self._send(sse.format_json_event("progress", _progress(phase, current, total)))

    def _send(self, told: bytes, *, ended: bool = False) -> None:
        def hand_over() -> None:
            self.unsent.append(told)
            self._ended = ended
            self.woken.set()

        with suppress(RuntimeError):  # the loop is closed: the daemon has stopped
            self._loop.call_soon_threadsafe(hand_over)


def _progress(phase: str, current: int, total: int) -> dict[str, Any]:
    message = phase.capitalize() + (f": {current:,} of {total:,}" if total else "")
    return {"phase": phase, "current": current, "total": total or None, "message": message}
