"""Slow calls as server-sent events: start, progress, then complete, or error and complete."""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import structlog

from agent_memory.features.streaming.interfaces import sse
from agent_memory.interfaces.long_running import ProgressStep, TaskRunner
from agent_memory.interfaces.wire.errors import error_json
from agent_memory.kernel.errors import AgentMemoryError, Cancelled
from agent_memory.kernel.progress import OnProgress

log = structlog.get_logger()

MAX_UNSENT = 100  # steps; a newer step replaces the oldest
CRASHED = "internal error: see the log of the daemon"

Work = Callable[[OnProgress], Mapping[str, Any]]  # returns the data of the `complete` event


class TaskStreams:
    """Streams slow calls on one event loop."""

    def __init__(self, keepalive_seconds: float) -> None:
        self._keepalive = keepalive_seconds
        self._tasks = TaskRunner(max_unread=MAX_UNSENT)

    async def run(
        self, operation: str, params: Mapping[str, Any], work: Work
    ) -> AsyncGenerator[bytes, None]:
        """Run `work` and yield its events. Closing the generator cancels the work."""
        yield format_start(operation, params)
        with self._tasks.start(lambda done: _run_logged(work, done)) as task:
            while not task.ended:
                step = await task.next_step(self._keepalive)
                if step is not None:
                    yield _format_step(step)
                elif not task.started:
                    yield _format_step(ProgressStep("waiting", 0, 0))
                elif not task.ended:
                    yield sse.KEEP_ALIVE
            try:
                result = task.result()
            except AgentMemoryError as exc:
                yield format_failure(exc)
            else:
                yield sse.format_json_event("complete", result)


def format_start(operation: str, params: Mapping[str, Any], token: str = "") -> bytes:
    return sse.format_json_event("start", {"operation": operation, "params": params}, token)


def format_failure(error: AgentMemoryError) -> bytes:
    """Return an error event and the complete event that ends the stream."""
    shown = error_json(error)
    end = {"success": False, "summary": shown["message"], "error": shown}
    return sse.format_json_event("error", shown) + sse.format_json_event("complete", end)


def _format_step(step: ProgressStep) -> bytes:
    return sse.format_json_event(
        "progress",
        {
            "phase": step.phase,
            "current": step.current,
            "total": step.total or None,
            "message": step.message,
        },
    )


def _run_logged(work: Work, on_progress: OnProgress) -> Mapping[str, Any]:
    # In the thread of the work: the client may be gone when it ends.
    try:
        return work(on_progress)
    except Cancelled:
        log.info("stream.cancelled")
        raise
    except AgentMemoryError:
        raise
    except Exception as exc:
        log.exception("stream.crashed")
        raise AgentMemoryError(CRASHED) from exc
