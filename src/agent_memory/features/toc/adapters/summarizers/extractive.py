"""The extractive summarizer in the worker process: in the daemon it would hold the GIL."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog

from agent_memory.features.toc.model import extracting
from agent_memory.features.toc.model.summaries import (
    EMPTY,
    EXTRACTIVE,
    Dialogue,
    Digest,
    PeriodSummary,
    Summary,
)
from agent_memory.kernel.errors import WorkerFailed
from agent_memory.platform.ports import Worker

SECONDS_PER_JOB = 60.0
AT_ONCE = 8  # conversations: to send many would hold up the daemon's requests

T = TypeVar("T")
R = TypeVar("R")
log = structlog.get_logger()


class ExtractiveSummarizer:
    name = EXTRACTIVE

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def summarize(self, conversations: Sequence[Dialogue], /) -> list[Summary]:
        """Summarize each conversation. One that ends the worker has an empty summary: it must not
        stop those after it."""
        try:
            return self._call(extracting.summarize_all, list(conversations))
        except WorkerFailed:
            if self._call(extracting.summarize_all, []) == [] and len(conversations) == 1:
                log.error("summary.failed", events=len(conversations[0].utterances))
                return [EMPTY]
        return [summary for each in conversations for summary in self.summarize([each])]

    def digest(self, periods: Sequence[PeriodSummary], /) -> list[Digest]:
        return self._call(extracting.digest_all, list(periods))

    def _call(self, function: Callable[[list[T]], list[R]], items: list[T]) -> list[R]:
        return [
            result
            for start in range(0, max(1, len(items)), AT_ONCE)
            for result in self._worker.call(
                function, items[start : start + AT_ONCE], timeout_seconds=SECONDS_PER_JOB
            )
        ]
