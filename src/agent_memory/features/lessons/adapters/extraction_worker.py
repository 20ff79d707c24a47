"""Extract lessons in the worker process: in the daemon it would hold the GIL."""

from collections.abc import Callable, Sequence

import structlog

from agent_memory.features.lessons.model.lessons import Lesson
from agent_memory.features.log.model.events import Event
from agent_memory.kernel.errors import WorkerClosed
from agent_memory.platform.ports import Worker

SECONDS = 60.0

log = structlog.get_logger()


class ExtractionWorker:
    """A LessonExtractor. `extract` is a function of a module."""

    def __init__(self, worker: Worker, extract: Callable[[Sequence[Event]], list[Lesson]]) -> None:
        self._worker = worker
        self._extract = extract

    def extract(self, events: Sequence[Event], /) -> list[Lesson]:
        try:
            return self._worker.call(self._extract, list(events), timeout_seconds=SECONDS)
        except WorkerClosed:
            raise
        except Exception as exc:  # a defect in reading one text must not stop all that come after
            log.error("lessons.not_extracted", error=type(exc).__name__, events=len(events))
            return []
