"""Analyze documents in the worker process: to split a backlog into words holds the GIL for long."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from agent_memory.features.index.model.documents import Document
from agent_memory.kernel.errors import WorkerFailed
from agent_memory.platform.ports import Worker

FEW = 16  # documents that are analyzed here: to send them would take longer
MOST = 200  # documents sent at once
SECONDS = 60.0

T = TypeVar("T")
Analyze = Callable[[Sequence[Document]], list[T]]


class AnalysisWorker:
    def __init__(self, worker: Worker | None = None) -> None:
        self._worker = worker

    def run(self, analyze: Analyze[T], documents: Sequence[Document]) -> list[T]:
        """Return what `analyze`, a function of a module, returns for the documents."""
        if self._worker is None or len(documents) <= FEW:
            return analyze(documents)
        try:
            return [
                result
                for start in range(0, len(documents), MOST)
                for result in self._worker.call(
                    analyze, documents[start : start + MOST], timeout_seconds=SECONDS
                )
            ]
        except WorkerFailed:
            return analyze(documents)
