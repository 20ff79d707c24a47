"""What a question asks for besides its words, and questions that ask for nothing of the kind."""

import pytest

from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import Hit, SearchScope
from agent_memory.features.recall.model import intents
from agent_memory.features.recall.model.intents import Intent, IntentKind, read_intent
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import time_expressions
from tests.recall_parts import NOW

MEMORIES = frozenset({DocumentKind.MEMORY})


def read(question: str) -> Intent | None:
    return read_intent(question, time_expressions.find(question, NOW))


@pytest.mark.parametrize(
    "question",
    [
        "What did we do on 12 February?",
        "what did we do yesterday",
        "What did I get done on the evening of 11 Feb?",
        "what happened last week",
        "What did you and I work on on Monday?",
        "what have we been doing since Monday",
        "yesterday",
        "recap of last week",
        "Give me a summary of this week's progress, please.",
        "tell me everything that happened on 2026-02-12",
        "how did it go yesterday?",
        "what got done today?",
        "What was discussed in the last three days?",
        "what did we build last month?",
        "which tasks did we work on over the weekend",
        "What kept us busy in May?",
    ],
)
def test_an_overview_of_a_time(question: str) -> None:
    found = read(question)
    assert found is not None
    assert found.kind is IntentKind.OVERVIEW
    assert found.windows
    assert not found.first


@pytest.mark.parametrize(
    ("question", "first", "finished"),
    [
        ("What was the first thing we finished on Feb 12?", True, True),
        ("what did we start with yesterday", True, False),
        ("what did we finish yesterday evening", False, True),
        ("what was completed last week", False, True),
        ("what did we get done this morning", False, True),
        ("what did we do this morning", False, False),
    ],
)
def test_an_overview_of_what_came_first_or_was_finished(
    question: str, first: bool, finished: bool
) -> None:
    found = read(question)
    assert found is not None
    assert (found.kind, found.first, found.finished) == (IntentKind.OVERVIEW, first, finished)


@pytest.mark.parametrize(
    "question",
    [
        "where did we leave off",
        "Where did we stop?",
        "Where were we?",
        "what were we working on",
        "what was I doing?",
        "What have we been working on?",
        "what did we do last",
        "what did we do last time?",
        "What was the last thing we did?",
        "what did we do in the last session",
        "pick up where we left off",
        "catch me up",
        "what's the latest?",
        "what have we done recently",
    ],
)
def test_the_last_work(question: str) -> None:
    found = read(question)
    assert found is not None
    assert found.kind is IntentKind.LAST


@pytest.mark.parametrize(
    "question",
    [
        "what's blocking us",
        "What\u2019s blocking us?",
        "What is still open?",
        "open blockers",
        "any blockers?",
        "Are there any open issues?",
        "what are we stuck on",
        "what are we waiting for?",
        "what problems are still unresolved",
    ],
)
def test_what_is_open(question: str) -> None:
    assert read(question) == Intent(kind=IntentKind.OPEN, namespace="blockers")


@pytest.mark.parametrize(
    ("question", "namespace", "topic"),
    [
        ("which decisions about the cache", "decisions", True),
        ("decisions about retries", "decisions", True),
        ("what did we decide about retries last week", "decisions", True),
        ("What was decided about the schema?", "decisions", True),
        ("what have we learned about tantivy", "learnings", True),
        ("which lessons did we learn from the outage", "learnings", True),
        ("any blockers for the release", "blockers", True),
        ("what is blocking the release?", "blockers", True),
        ("which patterns do we use for retries", "patterns", True),
        ("list all decisions", "decisions", False),
        ("what did we decide yesterday?", "decisions", False),
        ("what did we learn last week", "learnings", False),
    ],
)
def test_one_kind_of_memory(question: str, namespace: str, topic: bool) -> None:
    found = read(question)
    assert found is not None
    assert (found.kind, found.namespace, found.topic) == (IntentKind.KIND, namespace, topic)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "all",
        "why did the release fail yesterday",
        "what broke yesterday",
        "who worked on it yesterday?",
        "what did we not finish yesterday",
        "what didn't we finish yesterday",
        "what do we have to do today",
        "what should we do next",
        "what do we need to do this week",
        "how many tests did we finish yesterday",
        "when did we finish?",
        "what did the parser do on 12 February",
        "what happened to the index last week",
        "what did Ann say yesterday about the cache",
        "is the call blocking the event loop?",
        "how does the work queue work",
        "what does this function do",
        "where is the registry implemented",
        "what happens when the daemon stops",
        "what is the last argument of open",
        "what remained open after the epic was closed?",
        "how was the lock pattern implemented?",
        "what does block_size mean",
        "what is new in version 2",
        "open the file",
        "where are we in the specification of the format",
        "where did we leave off with the parser",
        "what did we do yesterday " * 20,
    ],
)
def test_an_ordinary_question(question: str) -> None:
    assert read(question) is None


def make_hit(name: str, score: float, namespace: str = "") -> Hit:
    return Hit(document=make_document(name, namespace), score=score, parts={})


def make_document(name: str, namespace: str = "") -> Document:
    return Document(
        kind=DocumentKind.MEMORY if namespace else DocumentKind.EVENT,
        id=name,
        owner=Owner(name),
        at_ms=Millis(1),
        text=name,
        namespace=namespace,
    )


def list_names(hits: list[Hit]) -> list[str]:
    return [hit.document.id for hit in hits]


class TestOrder:
    def test_answers_fall_in_score_and_come_once(self) -> None:
        answers = [make_document(name) for name in ("b", "c", "b", "d")]
        hits = intents.score_answers(answers)
        assert list_names(hits) == ["b", "c", "d"]
        scores = [hit.score for hit in hits]
        assert scores == pytest.approx([intents.TOP_SCORE, 0.6, intents.LOWEST_SCORE])
        assert intents.score_answers([]) == []

    def test_the_kind_asked_for_comes_before_a_better_hit_but_not_a_weak_one(self) -> None:
        ranked = [
            make_hit("said", 0.8),
            make_hit("learned", 0.7, "learnings"),
            make_hit("decided", 0.5, "decisions"),
            make_hit("unrelated", 0.2, "decisions"),
        ]
        asked = Intent(kind=IntentKind.KIND, namespace="decisions", topic=True)
        hits = intents.prefer_kind(asked, ranked)
        assert list_names(hits) == ["decided", "said", "learned", "unrelated"]
        assert [hit.score for hit in hits] == [0.8, 0.8, 0.7, 0.2]


class TestKindScope:
    def test_open_blockers_are_active(self) -> None:
        asked = read("what's blocking us?")
        assert list(intents.narrow_to_kind(asked, SearchScope(project="x"))) == [
            SearchScope(
                project="x", kinds=MEMORIES, namespace="blockers", statuses=frozenset({"active"})
            )
        ]

    def test_a_status_of_the_caller_holds(self) -> None:
        (scope,) = intents.narrow_to_kind(
            read("open blockers"), SearchScope(statuses=frozenset({"resolved"}))
        )
        assert scope.statuses == {"resolved"}

    @pytest.mark.parametrize(
        "scope",
        [SearchScope(kinds=frozenset({DocumentKind.EVENT})), SearchScope(namespace="decisions")],
    )
    def test_what_the_caller_excludes_is_not_listed(self, scope: SearchScope) -> None:
        assert list(intents.narrow_to_kind(read("what's blocking us?"), scope)) == []

    def test_a_time_narrows_a_listing_within_the_callers_time(self) -> None:
        scope = SearchScope(since=Millis(NOW - 30 * 3_600_000))
        (narrowed,) = intents.narrow_to_kind(read("what did we decide yesterday?"), scope)
        assert narrowed.since == scope.since
        assert narrowed.until < NOW
        late = SearchScope(since=NOW)
        assert not list(intents.narrow_to_kind(read("what did we decide yesterday?"), late))
