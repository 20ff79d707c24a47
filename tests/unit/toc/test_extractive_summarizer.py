"""The extractive summarizer in the worker: a conversation that ends the worker stops no other."""

from collections.abc import Callable
from typing import Any

import pytest

from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.model import extracting
from agent_memory.features.toc.model.summaries import EMPTY, Dialogue
from agent_memory.kernel.errors import WorkerFailed
from tests.toc_talk import Talk


class FragileWorker:
    """A Worker that a text with "boom" ends, or every call if it is `broken`."""

    def __init__(self, *, broken: bool = False) -> None:
        self._broken = broken

    def call(self, function: Callable[..., Any], *arguments: Any, timeout_seconds: float) -> Any:
        if self._broken or "boom" in repr(arguments):
            raise WorkerFailed(f"ended within {timeout_seconds} s")
        return function(*arguments)


def ask(text: str) -> Dialogue:
    return Dialogue(utterances=tuple(Talk().ask(text).said))


def test_it_has_an_empty_summary_and_the_others_have_theirs() -> None:
    sound, poison = ask("Renew the certificate of the mail server."), ask("boom")
    summaries = ExtractiveSummarizer(FragileWorker()).summarize([sound, poison, sound])
    assert summaries == [
        extracting.summarize(sound.utterances),
        EMPTY,
        extracting.summarize(sound.utterances),
    ]


def test_a_worker_that_always_fails_is_no_fault_of_a_conversation() -> None:
    with pytest.raises(WorkerFailed):
        ExtractiveSummarizer(FragileWorker(broken=True)).summarize([ask("Renew it.")])
