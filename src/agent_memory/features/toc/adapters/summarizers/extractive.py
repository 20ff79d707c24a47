"""The extractive summarizer in the worker process: in the daemon it would hold the GIL."""

from collections.abc import Sequence

from agent_memory.features.toc.model import extracting
from agent_memory.features.toc.model.summaries import (
    EXTRACTIVE,
    Dialogue,
    Digest,
    PeriodSummary,
    Summary,
)
from agent_memory.platform.ports import Worker

SECONDS_PER_JOB = 60.0


class ExtractiveSummarizer:
    name = EXTRACTIVE

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def summarize(self, conversations: Sequence[Dialogue], /) -> list[Summary]:
        return self._worker.call(
            _summarize_all, list(conversations), timeout_seconds=SECONDS_PER_JOB
        )

    def digest(self, periods: Sequence[PeriodSummary], /) -> list[Digest]:
        return self._worker.call(_digest_all, list(periods), timeout_seconds=SECONDS_PER_JOB)


def _summarize_all(conversations: list[Dialogue]) -> list[Summary]:
    return [
        extracting.summarize(dialogue.utterances, dialogue.overlap) for dialogue in conversations
    ]


def _digest_all(periods: list[PeriodSummary]) -> list[Digest]:
    return [extracting.digest(period) for period in periods]
