"""Summaries by a real program: checked bullets, the budget, and extraction after a failure."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.summarizers.llm import Limits, LlmSummarizer
from agent_memory.features.toc.model.summaries import Dialogue, Utterance
from agent_memory.kernel.ids import EventId, Millis
from tests.answering_programs import build_chat
from tests.inline_worker import InlineWorker
from tests.token_budgets import InMemoryTokenBudget

NOON = Millis(1_700_000_000_000)  # 2023-11-14 in UTC
TODAY = "2023-11-14"
SAID = (
    "The nightly import loses rows when two workers pick the same batch.",
    "Agreed, let's go with SKIP LOCKED. Keep the batch size at 500 rows.",
)
DIALOGUE = Dialogue(
    utterances=tuple(
        Utterance(
            event_id=EventId(f"e{at}"),
            at_ms=Millis(1000 * at),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text=text,
        )
        for at, text in enumerate(SAID)
    )
)
OTHER = Dialogue(
    utterances=(replace(DIALOGUE.utterances[0], text="Morning."), *DIALOGUE.utterances)
)
GOOD: dict[str, Any] = {
    "title": "Rows lost by the nightly import",
    "summary": "SKIP LOCKED was chosen.",
    "bullets": [
        {"text": "SKIP LOCKED was chosen", "quote": "let's go with SKIP LOCKED"},
        {"text": "Penguins migrated", "quote": "Penguins"},
    ],
    "keywords": ["SKIP LOCKED"],
}
# A program that counts its runs, and answers the first as the first word says, and so on.
SCRIPTED = """
prompt = sys.stdin.read()
open('../prompts', 'a').write(json.dumps(prompt) + '\\n')
number = len(open('../prompts').read().splitlines())
answer = sys.argv[min(number, len(sys.argv) - 1)]
if answer == 'fail': sys.exit('Which nightly import?')
print(answer)
"""

Start = Callable[..., LlmSummarizer]


class FixedClock:
    def now(self) -> Millis:
        return NOON


@pytest.fixture
def budget() -> InMemoryTokenBudget:
    return InMemoryTokenBudget()


@pytest.fixture
def start(tmp_path: Path, budget: InMemoryTokenBudget) -> Start:
    def build(*answers: str, **limits: Any) -> LlmSummarizer:
        return LlmSummarizer(
            "command",
            build_chat(tmp_path, SCRIPTED, *answers, rests=True),
            ExtractiveSummarizer(InlineWorker()),
            budget,
            FixedClock(),
            Limits(**limits),
            sleep=lambda _: None,
        )

    return build


@pytest.fixture
def prompts(tmp_path: Path) -> Callable[[], list[str]]:
    """Return the prompts so far."""

    def read() -> list[str]:
        path = tmp_path / "prompts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return read


def sources(summarizer: LlmSummarizer, *dialogues: Dialogue) -> list[str]:
    return [each.source for each in summarizer.summarize(dialogues)]


@pytest.mark.parametrize(
    "wrapped",
    [
        "{}",
        "```json\n{}\n```",
        "Sure! Here is the JSON {as asked}:\n\n{}\n\nLet me know {anything}.",
        '{"progress": 1}\n{}',
    ],
    ids=["bare", "fenced", "with words", "after a line of progress"],
)
def test_a_program_writes_and_its_bullets_are_checked(start: Start, wrapped: str) -> None:
    answer = wrapped.replace("{}", json.dumps(GOOD, indent=1))
    (summary,) = start(answer).summarize([DIALOGUE])
    assert (summary.source, summary.title) == ("command", GOOD["title"])
    (point,) = summary.points
    assert point.text == "SKIP LOCKED was chosen"
    assert [each.excerpt for each in point.support] == ["let's go with SKIP LOCKED"]


def test_the_estimated_tokens_of_prompt_and_answer_are_counted(
    start: Start, budget: InMemoryTokenBudget, prompts: Callable[[], list[str]]
) -> None:
    start(json.dumps(GOOD)).summarize([DIALOGUE])
    (prompt,) = prompts()
    said = len(prompt) + len(json.dumps(GOOD))
    assert said // 6 < budget.get_spent(TODAY) < said // 2


def test_over_budget_no_program_is_started(
    start: Start, budget: InMemoryTokenBudget, prompts: Callable[[], list[str]]
) -> None:
    budget.add(TODAY, 9_000)
    summarizer = start(json.dumps(GOOD), daily_tokens=10_000)
    assert sources(summarizer, DIALOGUE) == ["extractive"]
    assert prompts() == []


def test_garbage_is_asked_again_with_the_reason_and_then_extracted(
    start: Start, prompts: Callable[[], list[str]]
) -> None:
    summarizer = start("I would rather talk about the weather.")
    assert sources(summarizer, DIALOGUE) == ["extractive"]
    first, second = prompts()
    assert "was rejected: it is not valid JSON" not in first
    assert "was rejected: it is not valid JSON" in second
    assert sources(summarizer, DIALOGUE) == ["extractive"]
    assert len(prompts()) == 2  # the same text is not asked again before tomorrow


def test_a_second_try_may_help(start: Start) -> None:
    assert sources(start("What?", json.dumps(GOOD)), DIALOGUE) == ["command"]


def test_a_failure_ends_the_batch_with_one_start(
    start: Start, prompts: Callable[[], list[str]], budget: InMemoryTokenBudget
) -> None:
    summarizer = start("fail", json.dumps(GOOD))
    assert sources(summarizer, DIALOGUE, OTHER) == ["extractive"] * 2
    assert sources(summarizer, DIALOGUE) == ["extractive"]
    assert len(prompts()) == 1
    assert budget.get_spent(TODAY) > 0  # the program may have used them


def test_the_log_has_figures_and_neither_text_nor_words_of_the_command(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with capture_logs() as logs:
        start("weather", json.dumps(GOOD), "fail").summarize([DIALOGUE, OTHER])
    assert {each["event"] for each in logs} == {"llm.summarized", "llm.bullets", "llm.failed"}
    assert {each.get("model") for each in logs} <= {"answer", None}
    for hidden in ("SKIP", "weather", "nightly", "fail'"):
        assert hidden not in repr(logs) + caplog.text
