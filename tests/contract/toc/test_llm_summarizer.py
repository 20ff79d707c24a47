"""The LLM summarizer over real HTTP: summaries by a model, and every way in which one fails."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.summarizers.llm import Limits, LlmSummarizer
from agent_memory.features.toc.adapters.token_budget import StoredTokenBudget
from agent_memory.features.toc.model import extracting
from agent_memory.features.toc.model.highlights import Highlight
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.features.toc.model.summaries import (
    ChildSummary,
    Dialogue,
    PeriodSummary,
    Utterance,
)
from agent_memory.features.toc.ports import Summarizer
from agent_memory.kernel.errors import ConfigError, StorageFailed, WorkerFailed
from agent_memory.kernel.ids import EventId, Millis
from agent_memory.platform.llm.budget import TokenBudget
from agent_memory.platform.llm.chat import (
    AnthropicChat,
    Chat,
    ChatQuestion,
    ChatRefused,
    ChatTooLong,
    ChatUnavailable,
    ChatUnusable,
    OpenAiChat,
)
from agent_memory.platform.ports import OrderedStore
from tests.contract.scripted_llm import (
    Hang,
    Reply,
    ScriptedLlm,
    Step,
    completion,
    error,
    message,
    scripted,
)
from tests.inline_worker import InlineWorker
from tests.token_budgets import InMemoryTokenBudget

T = TypeVar("T")
KEY = "sk-a-key-like-no-other"
NOON = Millis(1_700_000_000_000)  # 2023-11-14 in UTC
TODAY = "2023-11-14"
SHORT = 0.1  # seconds to wait for a server that hangs

SAID = (
    (EventRole.USER, "The nightly import loses rows when two workers pick the same batch."),
    (EventRole.ASSISTANT, "The claim query reads the batch and marks it in two transactions."),
    (EventRole.USER, "Agreed, let's go with SKIP LOCKED. Keep the batch size at 500 rows."),
)
DIALOGUE = Dialogue(
    utterances=tuple(
        Utterance(
            event_id=EventId(f"e{at}"),
            at_ms=Millis(1000 * at),
            type=EventType(role + 1),
            role=role,
            text=text,
        )
        for at, (role, text) in enumerate(SAID)
    )
)
OTHER = Dialogue(
    utterances=(replace(DIALOGUE.utterances[0], text="Morning."), *DIALOGUE.utterances)
)
NOTHING = Dialogue(utterances=(replace(DIALOGUE.utterances[0], text=" \n"),))
GOOD: dict[str, Any] = {
    "title": "Rows lost by the nightly import.",
    "summary": "Two workers claimed the same batch; SKIP LOCKED was chosen.",
    "bullets": [
        {"text": "SKIP LOCKED was chosen", "quote": "let's go with  skip locked"},
        {"text": "The batch size stays at 500 rows", "quote": ""},
    ],
    "keywords": ["SKIP LOCKED", "nightly import", "SKIP LOCKED"],
}
CHILD = ChildSummary(
    title="Rows lost",
    text="",
    highlights=(Highlight(text="SKIP LOCKED was chosen", weight=1.0, grip_ids=("g1",)),),
    keywords=("SKIP LOCKED",),
)
DAY = PeriodSummary(level=Level.DAY, children=(CHILD,))


class BrokenWorker:
    """A Worker that crashes."""

    def call(self, function: Callable[..., T], /, *_: object, timeout_seconds: float) -> T:
        raise WorkerFailed(f"{function.__name__} took longer than {timeout_seconds} s")


class UnreadableBudget:
    """A budget on a broken disk."""

    def get_spent(self, day: str, /) -> int:
        raise StorageFailed(day)

    def add(self, day: str, tokens: int, /) -> None:
        raise StorageFailed(f"{day} {tokens}")


@dataclass
class Clock:
    at: Millis = NOON

    def now(self) -> Millis:
        return self.at


@dataclass
class Bench:
    """A summarizer with everything that it uses."""

    llm: ScriptedLlm
    chat: Chat
    budget: TokenBudget = field(default_factory=InMemoryTokenBudget)
    clock: Clock = field(default_factory=Clock)
    paused: list[float] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    fallback: Summarizer = field(default_factory=lambda: ExtractiveSummarizer(InlineWorker()))

    @property
    def summarizer(self) -> Summarizer:
        return LlmSummarizer(
            "openai",
            self.chat,
            self.fallback,
            self.budget,
            self.clock,
            self.limits,
            sleep=self.paused.append,
            timer=lambda: sum(self.paused),  # only pauses take time
            chance=lambda: 1.0,
        )

    @property
    def asked(self) -> int:
        return len(self.llm.received)


Start = Callable[..., Bench]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a server with a script, and a client of it."""
    opened: list[Any] = []

    def started(*script: Step, **options: Any) -> Bench:
        server = scripted(*script)
        llm = server.__enter__()
        chat = OpenAiChat(base_url=llm.url, model="scripted-1", api_key=KEY)
        opened.append((server, chat))
        return Bench(llm, chat, **options)

    yield started
    for server, chat in opened:
        chat.close()
        server.__exit__(None, None, None)


def with_bullets(*bullets: Mapping[str, str]) -> dict[str, Any]:
    return {**GOOD, "bullets": list(bullets)}


class TestGoodAnswers:
    def test_a_model_writes_and_every_bullet_leads_to_its_words(self, start: Start) -> None:
        bench = start(completion(GOOD))
        (summary,) = bench.summarizer.summarize([DIALOGUE])
        assert summary.source == "openai"
        assert summary.title == "Rows lost by the nightly import"
        assert summary.text == GOOD["summary"]
        assert summary.keywords == ("SKIP LOCKED", "nightly import")
        assert [point.text for point in summary.points] == [
            "SKIP LOCKED was chosen",
            "The batch size stays at 500 rows",
        ]
        assert [point.weight for point in summary.points] == [1.7, 0.36]
        supports = [support for point in summary.points for support in point.support]
        assert [(one.event_id, one.at_ms, one.excerpt) for one in supports] == [
            ("e2", 2000, "let's go with SKIP LOCKED"),
            ("e2", 2000, "Keep the batch size at 500 rows."),
        ]

    def test_the_request_is_bounded_cold_and_asks_for_a_schema(self, start: Start) -> None:
        bench = start(completion(GOOD))
        bench.summarizer.summarize([DIALOGUE])
        (received,) = bench.llm.received
        sent = received.payload
        assert received.path == "/v1/chat/completions"
        assert received.headers["authorization"] == f"Bearer {KEY}"
        assert sent["model"] == "scripted-1"
        assert sent["temperature"] == 0
        assert sent["max_tokens"] == 1024
        assert sent["response_format"]["type"] == "json_schema"
        assert set(sent["response_format"]["json_schema"]["schema"]["required"]) == set(GOOD)
        assert "maxLength" not in json.dumps(sent)
        system, user = sent["messages"]
        assert (system["role"], user["role"]) == ("system", "user")
        assert f"[3] user: {SAID[2][1]}" in user["content"]

    def test_each_conversation_is_one_request_and_answers_keep_their_places(
        self, start: Start
    ) -> None:
        titles = [f"Part {number}" for number in range(3)]
        bench = start(*(completion({**GOOD, "title": title}) for title in titles))
        found = bench.summarizer.summarize([DIALOGUE] * 3)
        assert [summary.title for summary in found] == titles
        assert bench.asked == 3

    @pytest.mark.parametrize(
        "wrapped",
        ["```json\n{}\n```", "<think>{{hm}}</think>{}", "Here you are: {} Anything else?"],
    )
    def test_json_is_found_among_words(self, start: Start, wrapped: str) -> None:
        text = wrapped.replace("{}", json.dumps(GOOD))
        bench = start(completion(text))
        (summary,) = bench.summarizer.summarize([DIALOGUE])
        assert summary.source == "openai"

    def test_unprintable_characters_are_removed(self, start: Start) -> None:
        answer = with_bullets({"text": "SKIP\nLOCKED\u0007 was \U000e0001chosen", "quote": ""})
        bench = start(completion({**answer, "title": "Rows\nlost"}))
        (summary,) = bench.summarizer.summarize([DIALOGUE])
        assert summary.title == "Rows lost"
        assert [point.text for point in summary.points] == ["SKIP LOCKED was chosen"]

    def test_the_overlap_is_context_and_no_support(self, start: Start) -> None:
        before = replace(DIALOGUE.utterances[0], text="Zebras graze near the lighthouse.")
        bench = start(
            completion(
                with_bullets(
                    {"text": "Zebras graze near the lighthouse", "quote": before.text},
                    *GOOD["bullets"],
                )
            )
        )
        (summary,) = bench.summarizer.summarize([replace(DIALOGUE, overlap=(before,))])
        assert before.text in bench.llm.received[0].payload["messages"][1]["content"]
        assert len(summary.points) == 2

    def test_a_conversation_without_a_word_needs_no_model(self, start: Start) -> None:
        bench = start()
        (summary,) = bench.summarizer.summarize([NOTHING])
        assert (summary.source, summary.points) == ("openai", ())
        assert bench.summarizer.summarize([]) == []

    def test_a_long_one_is_cut_to_the_context(self, start: Start) -> None:
        long = tuple(
            replace(
                DIALOGUE.utterances[at % 3], event_id=EventId(f"x{at}"), text=f"Row {at}. " * 200
            )
            for at in range(60)
        )
        bench = start(
            completion(GOOD), completion(GOOD), limits=Limits(context_tokens=2048, tries=1)
        )
        bench.summarizer.summarize([Dialogue(utterances=long)])
        bench.summarizer.summarize(
            [Dialogue(utterances=(replace(DIALOGUE.utterances[0], text="行。" * 9000),))]
        )
        for received in bench.llm.received:
            sent = received.payload
            texts = [each["content"] for each in sent["messages"]]
            assert sum(map(estimate_tokens, texts)) + sent["max_tokens"] <= 2048
        assert "[60] " not in bench.llm.received[0].payload["messages"][1]["content"]


class TestSupport:
    def test_a_bullet_without_support_is_dropped_and_counted(self, start: Start) -> None:
        invented = {"text": "Penguins migrated to Kubernetes", "quote": "Penguins migrated"}
        bench = start(completion(with_bullets(invented, *GOOD["bullets"], invented)))
        with capture_logs() as logs:
            (summary,) = bench.summarizer.summarize([DIALOGUE])
        assert [point.weight for point in summary.points] == [1.7, 0.36]
        counted = [each for each in logs if each["event"] == "llm.bullets"]
        assert [(each["kept"], each["dropped"]) for each in counted] == [(2, 2)]

    def test_without_any_supported_bullet_the_fallback_writes(self, start: Start) -> None:
        bench = start(completion(with_bullets({"text": "Penguins migrated", "quote": "Penguins"})))
        assert bench.summarizer.summarize([DIALOGUE]) == [extractive()]
        assert bench.asked == 1

    def test_a_repeated_bullet_is_dropped(self, start: Start) -> None:
        first = GOOD["bullets"][0]
        bench = start(completion(with_bullets(first, {**first, "text": first["text"].upper()})))
        (summary,) = bench.summarizer.summarize([DIALOGUE])
        assert len(summary.points) == 1


UNUSABLE: Mapping[str, Reply] = {
    "garbage": completion("I would rather talk about the weather."),
    "no HTTP JSON": Reply(b"<html>Bad gateway</html>"),
    "no choices": Reply(b'{"choices": []}'),
    "no content": Reply(b'{"choices": [{"message": {"content": null}}]}'),
    "not UTF-8": Reply(b'{"choices": [{"message": {"content": "\xff"}}]}'),
    "truncated": completion(json.dumps(GOOD)[:-30], whole=False),
    "an array": completion("[]"),
    "deep": completion("[" * 100_000),
    "deep body": Reply(b"[" * 100_000),
    "a field missing": completion({"title": "t", "summary": "s", "keywords": []}),
    "a wrong type": completion({**GOOD, "keywords": "SKIP LOCKED"}),
    "no bullets": completion(with_bullets()),
    "an empty bullet": completion(with_bullets({"text": "", "quote": ""})),
    "many bullets": completion(with_bullets(*GOOD["bullets"] * 3)),
    "a long bullet": completion(with_bullets({"text": "SKIP LOCKED " * 30, "quote": ""})),
    "a long title": completion({**GOOD, "title": "t" * 101}),
    "a long summary": completion({**GOOD, "summary": "s" * 501}),
    "many keywords": completion({**GOOD, "keywords": [str(n) for n in range(13)]}),
}
UNAVAILABLE: Mapping[str, Step] = {
    "429": error(429),
    "500": error(500),
    "503": error(503),
    "529": error(529),
    "hangs": Hang(),
    "hangs half-way": Hang(begun=True),
    "closes half-way": Reply(b'{"choices": [', promised=100),
}


class TestUnusableAnswers:
    @pytest.mark.parametrize("bad", UNUSABLE.values(), ids=UNUSABLE.keys())
    def test_one_more_try_may_help(self, start: Start, bad: Reply) -> None:
        bench = start(bad, completion(GOOD))
        (summary,) = bench.summarizer.summarize([DIALOGUE])
        assert summary.source == "openai"
        assert bench.paused == []

    @pytest.mark.parametrize("bad", UNUSABLE.values(), ids=UNUSABLE.keys())
    def test_then_the_fallback_writes(self, start: Start, bad: Reply) -> None:
        bench = start(bad, bad)
        assert bench.summarizer.summarize([DIALOGUE]) == [extractive()]
        assert bench.asked == 2

    def test_the_second_request_has_the_reason_of_the_rejection(self, start: Start) -> None:
        bench = start(UNUSABLE["a long title"], completion(GOOD))
        bench.summarizer.summarize([DIALOGUE])
        texts = [each.payload["messages"][1]["content"] for each in bench.llm.received]
        assert texts[1].startswith(texts[0])
        assert "rejected: Expected `str` of length <= 100 - at `$.title`" in texts[1]

    def test_one_bad_answer_does_not_affect_others_of_its_batch(self, start: Start) -> None:
        bad = UNUSABLE["garbage"]
        bench = start(bad, bad, completion(GOOD))
        found = bench.summarizer.summarize([DIALOGUE, OTHER])
        assert [summary.source for summary in found] == ["extractive", "openai"]

    @pytest.mark.parametrize(
        "script",
        [
            [UNUSABLE["garbage"]] * 2,
            [error(400)],
            [completion(with_bullets({"text": "Penguins", "quote": ""}))],
        ],
        ids=["garbage", "refused", "unsupported"],
    )
    def test_a_text_that_it_failed_at_is_not_asked_again_that_day(
        self, start: Start, script: Sequence[Step]
    ) -> None:
        bench = start(*script, completion(GOOD))
        summarizer = bench.summarizer
        assert [summarizer.summarize([DIALOGUE]) for _ in range(3)] == [[extractive()]] * 3
        assert bench.asked == len(script)
        bench.clock.at = Millis(NOON + 86_400_000)
        assert summarizer.summarize([DIALOGUE])[0].source == "openai"

    def test_an_answer_that_is_not_the_models_is_no_reason_to_give_up(self, start: Start) -> None:
        bench = start(*[UNUSABLE["no HTTP JSON"]] * 2, completion(GOOD))
        summarizer = bench.summarizer
        sources = [summarizer.summarize([DIALOGUE])[0].source for _ in range(2)]
        assert sources == ["extractive", "openai"]


class TestUnavailable:
    @pytest.mark.parametrize("bad", UNAVAILABLE.values(), ids=UNAVAILABLE.keys())
    def test_it_is_tried_again_after_growing_pauses(self, start: Start, bad: Step) -> None:
        bench = start(bad, bad, completion(GOOD), limits=Limits(request_seconds=SHORT))
        (summary,) = bench.summarizer.summarize([DIALOGUE])
        assert summary.source == "openai"
        assert bench.paused == [1.0, 2.0]

    @pytest.mark.parametrize("bad", UNAVAILABLE.values(), ids=UNAVAILABLE.keys())
    def test_three_times_at_most_then_the_fallback_writes_the_whole_batch(
        self, start: Start, bad: Step
    ) -> None:
        bench = start(*[bad] * 3, limits=Limits(request_seconds=SHORT))
        assert bench.summarizer.summarize([DIALOGUE, DIALOGUE]) == [extractive()] * 2
        assert bench.asked == 3

    def test_no_server_listens(self, start: Start) -> None:
        bench = start()
        with scripted() as gone:
            pass
        bench.chat = OpenAiChat(base_url=gone.url)
        assert bench.summarizer.summarize([DIALOGUE]) == [extractive()]
        assert bench.paused == [1.0, 2.0]
        bench.chat.close()

    def test_the_next_batch_is_tried_again(self, start: Start) -> None:
        bench = start(*[error(500)] * 3, completion(GOOD))
        sources = [bench.summarizer.summarize([DIALOGUE])[0].source for _ in range(2)]
        assert sources == ["extractive", "openai"]

    @pytest.mark.parametrize(
        ("headers", "pause"),
        [
            ({"retry_after": "7"}, 7.0),
            ({"retry_after": "0"}, 0.0),
            ({"retry_after": "2.5"}, 2.5),
            (
                {
                    "date": "Tue, 14 Nov 2023 12:00:00 GMT",
                    "retry_after": "Tue, 14 Nov 2023 12:00:20 GMT",
                },
                20.0,
            ),
            ({"retry_after": "Tue, 14 Nov 2023 12:00:20 GMT"}, 1.0),
            ({"retry_after": "soon"}, 1.0),
            ({"retry_after": "-5"}, 1.0),
            ({"retry_after": "inf"}, 1.0),
        ],
    )
    def test_the_server_says_how_long_to_wait(
        self, start: Start, headers: dict[str, str], pause: float
    ) -> None:
        bench = start(error(429, **headers), completion(GOOD))
        bench.summarizer.summarize([DIALOGUE])
        assert bench.paused == [pause]

    def test_a_wait_that_is_too_long_is_left_to_the_next_run(self, start: Start) -> None:
        bench = start(error(429, retry_after="3600"))
        assert bench.summarizer.summarize([DIALOGUE]) == [extractive()]
        assert (bench.asked, bench.paused) == (1, [])

    def test_all_tries_together_are_bounded(self, start: Start) -> None:
        bench = start(error(503, retry_after="20"), error(503), limits=Limits(seconds=21))
        bench.summarizer.summarize([DIALOGUE])
        assert (bench.asked, bench.paused) == (2, [20.0])

    def test_so_is_a_batch(self, start: Start) -> None:
        bench = start(
            error(503, retry_after="20"), completion(GOOD), limits=Limits(batch_seconds=20)
        )
        found = bench.summarizer.summarize([DIALOGUE, DIALOGUE])
        assert [summary.source for summary in found] == ["openai", "extractive"]


class TestRefused:
    @pytest.mark.parametrize("status", [301, 401, 403, 404])
    def test_a_wrong_key_or_address_is_asked_once_a_batch(self, start: Start, status: int) -> None:
        bench = start(error(status))
        assert bench.summarizer.summarize([DIALOGUE] * 3) == [extractive()] * 3
        assert bench.asked == 1

    def test_a_request_that_is_refused_is_not_repeated(self, start: Start) -> None:
        bench = start(error(400), completion(GOOD))
        found = bench.summarizer.summarize([DIALOGUE, OTHER])
        assert [summary.source for summary in found] == ["extractive", "openai"]

    def test_one_that_is_too_long_is_cut(self, start: Start) -> None:
        long = replace(DIALOGUE.utterances[0], text="The nightly import loses rows. " * 900)
        bench = start(
            error(400, "the request exceeds the available context size"), completion(GOOD)
        )
        bench.summarizer.summarize([Dialogue(utterances=(long, *DIALOGUE.utterances[1:]))])
        sizes = [len(each.payload["messages"][1]["content"]) for each in bench.llm.received]
        assert sizes[1] < sizes[0]

    def test_an_option_that_the_server_rejects_is_never_sent_again(self, start: Start) -> None:
        bench = start(
            error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'."),
            error(400, "'temperature' does not support 0"),
            error(422, "response_format: json_schema is unavailable"),
            completion(GOOD),
            completion(GOOD),
        )
        found = bench.summarizer.summarize([DIALOGUE, DIALOGUE])
        assert [summary.source for summary in found] == ["openai"] * 2
        assert bench.asked == 5
        sent = bench.llm.received[-1].payload
        assert sent["max_completion_tokens"] == 1024
        assert not {"max_tokens", "temperature", "response_format"} & sent.keys()


class TestBudget:
    def test_reported_tokens_are_counted_by_utc_day(self, start: Start) -> None:
        bench = start(completion(GOOD), completion(GOOD, usage=(7, 5)))
        bench.summarizer.summarize([DIALOGUE])
        bench.clock.at = Millis(NOON + 86_400_000)
        bench.summarizer.summarize([DIALOGUE])
        assert bench.budget.get_spent(TODAY) == 120
        assert bench.budget.get_spent("2023-11-15") == 12

    def test_without_usage_it_is_estimated(self, start: Start) -> None:
        bench = start(completion(GOOD, usage=None))
        bench.summarizer.summarize([DIALOGUE])
        texts = [each["content"] for each in bench.llm.received[0].payload["messages"]]
        assert bench.budget.get_spent(TODAY) > sum(map(estimate_tokens, texts))

    @pytest.mark.parametrize("bad", ["garbage", "no HTTP JSON", "truncated"])
    def test_answers_that_are_no_good_cost_as_well(self, start: Start, bad: str) -> None:
        bench = start(UNUSABLE[bad], UNUSABLE[bad])
        bench.summarizer.summarize([DIALOGUE])
        assert bench.budget.get_spent(TODAY) >= 240

    def test_so_may_a_question_whose_answer_was_lost(self, start: Start) -> None:
        bench = start(Hang(), limits=Limits(tries=1, request_seconds=SHORT))
        bench.summarizer.summarize([DIALOGUE])
        assert bench.budget.get_spent(TODAY) > 0

    def test_rejected_requests_cost_no_tokens(self, start: Start) -> None:
        bench = start(*[error(429)] * 3)
        bench.summarizer.summarize([DIALOGUE])
        assert bench.budget.get_spent(TODAY) == 0

    def test_over_budget_the_model_is_not_asked_until_the_next_day(self, start: Start) -> None:
        bench = start(completion(GOOD), limits=Limits(daily_tokens=10_000))
        bench.budget.add(TODAY, 9_000)
        assert bench.summarizer.summarize([DIALOGUE]) == [extractive()]
        assert bench.asked == 0
        bench.clock.at = Millis(NOON + 86_400_000)
        assert bench.summarizer.summarize([DIALOGUE])[0].source == "openai"

    def test_a_second_try_needs_budget_too(self, start: Start) -> None:
        bench = start(completion("no", usage=(1000, 500)), limits=Limits(daily_tokens=3_000))
        bench.summarizer.summarize([DIALOGUE])
        assert bench.asked == 1

    def test_zero_is_no_limit(self, start: Start) -> None:
        bench = start(completion(GOOD), limits=Limits(daily_tokens=0))
        bench.budget.add(TODAY, 1 << 40)
        assert bench.summarizer.summarize([DIALOGUE])[0].source == "openai"

    def test_without_a_readable_budget_no_tokens_are_spent(self, start: Start) -> None:
        bench = start(budget=UnreadableBudget())
        assert bench.summarizer.summarize([DIALOGUE]) == [extractive()]
        assert bench.asked == 0


class TestDigest:
    def test_the_model_tells_the_period_and_bullets_keep_their_grips(self, start: Start) -> None:
        bench = start(completion({"text": "The import was\nrepaired."}))
        (digest,) = bench.summarizer.digest([DAY])
        plain = extracting.digest(DAY)
        assert digest == replace(plain, text="The import was repaired.", source="openai")
        assert digest.bullets[0].grip_ids == ("g1",)
        sent = bench.llm.received[0].payload
        assert "Rows lost: SKIP LOCKED was chosen" in sent["messages"][1]["content"]
        assert sent["response_format"]["json_schema"]["name"] == "period"

    @pytest.mark.parametrize(
        "script",
        [
            (error(401),),
            (completion("no"), completion({"text": ""})),
            (error(500), error(500), error(500)),
        ],
        ids=["refused", "unusable", "unavailable"],
    )
    def test_where_it_fails_the_digest_is_the_fallbacks(
        self, start: Start, script: Sequence[Step]
    ) -> None:
        bench = start(*script)
        assert bench.summarizer.digest([DAY]) == [extracting.digest(DAY)]
        assert bench.asked == len(script)

    def test_a_period_without_bullets_needs_no_model(self, start: Start) -> None:
        bench = start()
        child = ChildSummary(title="x", text="", highlights=(), keywords=())
        none, empty = (PeriodSummary(level=Level.DAY, children=each) for each in ((), (child,)))
        assert bench.summarizer.digest([none, empty]) == [
            extracting.digest(none),
            extracting.digest(empty),
        ]


class TestFallback:
    def test_its_own_failure_comes_out(self, start: Start) -> None:
        bench = start(error(401), error(401), fallback=ExtractiveSummarizer(BrokenWorker()))
        with pytest.raises(WorkerFailed):
            bench.summarizer.summarize([DIALOGUE])
        with pytest.raises(WorkerFailed):
            bench.summarizer.digest([DAY])

    def test_it_is_asked_once_for_all_that_is_missing(self, start: Start) -> None:
        other = Dialogue(utterances=DIALOGUE.utterances[:1])
        bench = start(error(400), completion(GOOD), error(400))
        found = bench.summarizer.summarize([DIALOGUE, OTHER, other])
        assert found[0] == extractive()
        assert found[1].source == "openai"
        assert found[2] == extracting.summarize(other.utterances)


class TestDiscretion:
    def test_figures_are_logged_and_neither_text_nor_key(
        self, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        bench = start(completion(GOOD), UNUSABLE["a long title"], UNUSABLE["garbage"])
        with capture_logs() as logs:
            bench.summarizer.summarize([DIALOGUE, DIALOGUE])
        (done,) = [each for each in logs if each["event"] == "llm.summarized"]
        assert done["model"] == "scripted-1"
        assert (done["prompt_tokens"], done["completion_tokens"]) == (100, 20)
        assert (done["prompt"], done["tries"], done["seconds"]) == ("segment-2", 1, 0)
        (failed,) = [each for each in logs if each["event"] == "llm.failed"]
        assert (failed["tries"], failed["reason"]) == (2, "it is not valid JSON")
        written = repr(logs) + caplog.text + repr(bench.chat) + repr(bench.summarizer)
        for secret in (KEY, "SKIP", "weather", "nightly"):
            assert secret not in written

    def test_a_password_in_the_address_is_sent_and_not_logged(
        self, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        bench = start(completion(GOOD))
        bench.chat = OpenAiChat(base_url=bench.llm.url.replace("//", "//ada:hush-hush@"))
        bench.summarizer.summarize([DIALOGUE])
        bench.chat.close()
        assert bench.llm.received[0].headers["authorization"].startswith("Basic ")
        assert "hush" not in caplog.text

    @pytest.mark.parametrize("key", ["sk-\n-split", "sk-é"])
    def test_an_invalid_key_is_refused_and_not_shown(self, key: str) -> None:
        with pytest.raises(ConfigError) as refused:
            OpenAiChat(api_key=key)
        assert "sk-" not in str(refused.value)

    @pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "x y"])
    def test_an_invalid_address_is_refused(self, url: str) -> None:
        with pytest.raises(ConfigError, match="base_url"):
            OpenAiChat(base_url=url)


QUESTION = ChatQuestion(system="be brief", text="well?", name="reply", schema={}, max_tokens=10)


class TestAnthropic:
    @pytest.fixture
    def ask(self) -> Iterator[Callable[..., tuple[ScriptedLlm, Chat]]]:
        opened: list[Any] = []

        def create_chat(*script: Step, path: str = "") -> tuple[ScriptedLlm, Chat]:
            server = scripted(*script)
            llm = server.__enter__()
            chat = AnthropicChat(base_url=llm.url + path, model="scripted-1", api_key=KEY)
            opened.append((server, chat))
            return llm, chat

        yield create_chat
        for server, chat in opened:
            chat.close()
            server.__exit__(None, None, None)

    def test_a_tool_is_forced_and_its_input_is_the_answer(
        self, ask: Callable[..., tuple[ScriptedLlm, Chat]]
    ) -> None:
        tool = {"type": "tool_use", "id": "t", "name": "segment", "input": GOOD}
        llm, chat = ask(message([{"type": "text", "text": "Well."}, tool]))
        bench = Bench(llm, chat)
        (summary,) = bench.summarizer.summarize([DIALOGUE])
        assert summary.source == "openai"  # the configured name
        assert len(summary.points) == 2
        assert bench.budget.get_spent(TODAY) == 120
        (received,) = llm.received
        assert received.path == "/v1/messages"
        assert received.headers["x-api-key"] == KEY
        assert received.headers["anthropic-version"] == "2023-06-01"
        assert received.payload["tool_choice"] == {"type": "tool", "name": "segment"}
        assert received.payload["max_tokens"] == 1024
        assert received.payload["tools"][0]["input_schema"]["type"] == "object"

    def test_json_in_words_will_do(self, ask: Callable[..., tuple[ScriptedLlm, Chat]]) -> None:
        llm, chat = ask(message([{"type": "text", "text": json.dumps(GOOD)}]))
        (summary,) = Bench(llm, chat).summarizer.summarize([DIALOGUE])
        assert len(summary.points) == 2

    @pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
    def test_the_address_works_with_and_without_its_path(
        self, ask: Callable[..., tuple[ScriptedLlm, Chat]], path: str
    ) -> None:
        llm, chat = ask(message([{"type": "text", "text": "{}"}]), path=path)
        assert chat.ask(QUESTION, seconds=10).text == "{}"
        assert llm.received[0].path == "/v1/messages"

    def test_an_answer_cut_off_says_so(self, ask: Callable[..., tuple[ScriptedLlm, Chat]]) -> None:
        cut = message([{"type": "text", "text": "{"}], stop_reason="max_tokens")
        assert not ask(cut)[1].ask(QUESTION, seconds=10).whole

    @pytest.mark.parametrize(
        ("step", "failure"),
        [
            (error(400, "prompt is too long: 210000 tokens > 200000 maximum"), ChatTooLong),
            (error(413), ChatRefused),
            (error(401), ChatRefused),
            (error(529, "overloaded_error"), ChatUnavailable),
            (Reply(b"[]"), ChatUnusable),
            (message([]), ChatUnusable),
            (Reply(b'{"content"', promised=5), ChatUnavailable),
        ],
    )
    def test_failures_have_their_kinds(
        self,
        ask: Callable[..., tuple[ScriptedLlm, Chat]],
        step: Step,
        failure: type[Exception],
    ) -> None:
        with pytest.raises(failure):
            ask(step)[1].ask(QUESTION, seconds=10)


class TestOpenAiAddresses:
    @pytest.mark.parametrize(
        ("path", "asked"),
        [
            ("", "/v1/chat/completions"),
            ("/", "/v1/chat/completions"),
            ("/v1", "/v1/chat/completions"),
            ("/api/v3/", "/api/v3/chat/completions"),
        ],
    )
    def test_only_a_bare_host_gains_a_version(self, path: str, asked: str) -> None:
        with scripted(completion("{}")) as llm:
            chat = OpenAiChat(base_url=llm.url + path)
            chat.ask(QUESTION, seconds=10)
            chat.close()
            assert llm.received[0].path == asked
            assert "model" not in llm.received[0].payload
            assert "authorization" not in llm.received[0].headers

    def test_a_closed_client_is_unavailable(self) -> None:
        with scripted() as llm:
            chat = OpenAiChat(base_url=llm.url)
            chat.close()
            with pytest.raises(ChatUnavailable, match="closed"):
                chat.ask(QUESTION, seconds=10)


class TestTokenBudget:
    @pytest.fixture(params=["stored", "forgetful"])
    def budget(self, request: pytest.FixtureRequest, store: OrderedStore) -> TokenBudget:
        return StoredTokenBudget(store) if request.param == "stored" else InMemoryTokenBudget()

    def test_days_are_counted_apart(self, budget: TokenBudget) -> None:
        assert budget.get_spent(TODAY) == 0
        budget.add(TODAY, 5)
        budget.add(TODAY, 7)
        budget.add("2023-11-15", 1)
        assert (budget.get_spent(TODAY), budget.get_spent("2023-11-15")) == (12, 1)

    def test_concurrent_additions_are_all_counted(self, budget: TokenBudget) -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: budget.add(TODAY, 1), range(200)))
        assert budget.get_spent(TODAY) == 200


def extractive() -> Any:
    """Return the fallback's summary of the conversation."""
    return extracting.summarize(DIALOGUE.utterances)
