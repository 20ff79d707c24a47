"""Documents are analyzed in the worker process, or here if they are few or it fails."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from agent_memory.features.index.adapters.analysis_worker import FEW, MOST, AnalysisWorker
from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document
from agent_memory.kernel.errors import WorkerFailed
from tests.inline_worker import InlineWorker
from tests.recall_parts import make_event

T = TypeVar("T")


class CountingWorker(InlineWorker):
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def call(self, function: Callable[..., T], /, *arguments: object, timeout_seconds: float) -> T:
        (sent,) = arguments
        assert isinstance(sent, list)
        self.sizes.append(len(sent))
        return super().call(function, *arguments, timeout_seconds=timeout_seconds)


class FailingWorker(InlineWorker):
    def call(self, function: Callable[..., T], /, *arguments: object, timeout_seconds: float) -> T:
        raise WorkerFailed(f"{function.__name__} ended after {timeout_seconds} s: {arguments}")


def read_texts(held: Sequence[Document]) -> list[str]:
    return [document.text for document in held]


def make_documents(count: int) -> list[Document]:
    return [
        document
        for number in range(count)
        for document in documents.from_event(make_event(f"text {number}", number))
    ]


@pytest.mark.parametrize("count", [0, 1, FEW])
def test_few_are_not_sent(count: int) -> None:
    worker = CountingWorker()
    held = make_documents(count)
    assert AnalysisWorker(worker).run(read_texts, held) == read_texts(held)
    assert worker.sizes == []


def test_many_are_sent_in_parts_and_come_back_in_order() -> None:
    worker = CountingWorker()
    held = make_documents(2 * MOST + 1)
    assert AnalysisWorker(worker).run(read_texts, held) == read_texts(held)
    assert worker.sizes == [MOST, MOST, 1]


@pytest.mark.parametrize("worker", [None, FailingWorker()])
def test_without_a_worker_they_are_analyzed_here(worker: InlineWorker | None) -> None:
    held = make_documents(FEW + 1)
    assert AnalysisWorker(worker).run(read_texts, held) == read_texts(held)
