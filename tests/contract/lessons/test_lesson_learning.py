"""LessonLearner over every store: lessons are the same however their events come."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from agent_memory.features.lessons.adapters.extraction_worker import ExtractionWorker
from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.model.lessons import (
    EDITION,
    Lesson,
    LessonKind,
    LessonVerdict,
    Outcomes,
    Trust,
    VerdictState,
    derive_lesson_id,
)
from agent_memory.features.lessons.services import lesson_learning
from agent_memory.features.lessons.services.lesson_learning import LessonLearner
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, SessionPosition
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import everything, memory
from tests.conversation_samples import build_session
from tests.inline_worker import InlineWorker


def extract_rules(events: Sequence[Event]) -> list[Lesson]:
    """Each rule is about the request before it; one that was just stated is not stated again."""
    found: list[Lesson] = []
    request = ""
    for event in events:
        if event.text == "broken":
            raise ValueError(event.text)
        if event.text.startswith("rule"):
            found.append(
                Lesson(
                    id=derive_lesson_id(LessonKind.RULE, event.session_id, event.event_id, 0),
                    kind=LessonKind.RULE,
                    text=event.text,
                    situation=request,
                    trust=Trust.USER,
                    project=event.metadata.get("project", ""),
                    session_id=event.session_id,
                    at_ms=event.at_ms,
                    events=(event.event_id,),
                )
            )
        elif event.text.startswith("ask"):
            request = event.text
    return found


def build_talk(session: str, count: int = 500) -> list[Event]:
    """Every twentieth is a request, and a rule follows ten later."""
    lines = [
        ("user", {0: f"ask {number}", 10: f"rule {number}"}.get(number % 20, "go on"))
        for number in range(count)
    ]
    return build_session(session, lines, project="shop")


@dataclass
class LessonHarness:
    store: OrderedStore
    log: StoredEventLog = field(init=False)
    outbox: StoredOutbox = field(init=False)
    lessons: StoredLessons = field(init=False)
    learner: LessonLearner = field(init=False)
    told: list[int] = field(default_factory=list)  # how many lessons there were at each news

    def __post_init__(self) -> None:
        self.log, self.outbox = StoredEventLog(self.store), StoredOutbox(self.store)
        self.lessons = StoredLessons(self.store)
        self.learner = LessonLearner(
            log=self.log,
            outbox=self.outbox,
            lessons=self.lessons,
            extractor=ExtractionWorker(InlineWorker(), extract_rules),
            on_learned=lambda: self.told.append(len(self.lessons.list_all())),
        )

    def record(self, events: Sequence[Event]) -> None:
        self.log.append(events).result()

    def hear(self, events: Sequence[Event]) -> None:
        self.record(events)
        while self.learner.keep_up(lambda: None):
            pass

    def forget(self, *events: Event) -> None:
        self.log.remove([SessionPosition(event.session_id, event.position) for event in events])
        self.learner.relearn({event.session_id for event in events})

    def know(self) -> list[Lesson]:
        return [each.lesson for each in self.lessons.list_all()]


@pytest.fixture
def ann(store: OrderedStore) -> LessonHarness:
    return LessonHarness(store)


TALKS = [build_talk("main", 500), build_talk("main/agent-1", 70), build_talk("other", 25)]
EVENTS = sorted((each for talk in TALKS for each in talk), key=lambda each: each.position.order)
LESSONS = sorted(
    (each for talk in TALKS for each in extract_rules(talk)), key=lambda each: each.position.order
)


class TestLearning:
    def test_all_at_once(self, ann: LessonHarness) -> None:
        ann.hear(EVENTS)
        assert ann.know() == LESSONS
        assert ann.learner.cursor() == ann.log.watermark()
        assert ann.told[-1] == len(LESSONS)

    @pytest.mark.parametrize("size", [7, 61])
    def test_as_they_happen(self, ann: LessonHarness, size: int) -> None:
        for start in range(0, len(EVENTS), size):
            ann.hear(EVENTS[start : start + size])
        assert ann.know() == LESSONS

    @pytest.mark.parametrize("seed", range(3))
    def test_in_any_order(self, ann: LessonHarness, seed: int) -> None:
        random = Random(seed)
        events = random.sample(EVENTS, len(EVENTS))
        size = random.choice([90, 200, 400])
        for start in range(0, len(events), size):
            ann.hear(events[start : start + size])
        assert ann.know() == LESSONS

    def test_a_session_is_read_once_however_many_changes_it_is(self, ann: LessonHarness) -> None:
        read: list[int] = []

        def count(events: Sequence[Event]) -> list[Lesson]:
            read.append(len(events))
            return extract_rules(events)

        ann.learner.extractor._extract = count  # type: ignore[attr-defined]  # noqa: SLF001
        ann.hear(TALKS[0])
        assert len(TALKS[0]) > lesson_learning.BATCH
        assert sum(read) == len(TALKS[0]) + lesson_learning.BEFORE

    def test_what_is_known_of_a_lesson_stays(self, ann: LessonHarness) -> None:
        ann.hear(EVENTS[:-1])
        outcomes = {each.id: Outcomes(given=1) for each in ann.know()}
        ann.lessons.set_outcomes(outcomes, {})
        ann.learner.relearn({each.session_id for each in EVENTS})
        ann.hear(EVENTS[-1:])
        assert {each.outcomes for each in ann.lessons.list_all()} == {Outcomes(given=1)}
        assert len(outcomes) == len(LESSONS)

    def test_what_cannot_be_read_teaches_nothing_and_stops_nothing(
        self, ann: LessonHarness
    ) -> None:
        ann.hear(build_session("bad", [("user", "rule 1"), ("user", "broken")]))
        ann.hear(build_session("good", [("user", "rule 2")]))
        assert [each.text for each in ann.know()] == ["rule 2"]
        assert ann.learner.cursor() == ann.log.watermark()

    def test_what_was_cut_off_is_learned_later(self, ann: LessonHarness) -> None:
        ann.record(EVENTS)
        calls: list[int] = []

        def stop() -> None:
            calls.append(1)
            if len(calls) > 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ann.learner.keep_up(stop)
        assert ann.learner.cursor() < ann.log.watermark()
        ann.hear([])
        assert ann.know() == LESSONS


class TestThePast:
    def test_a_store_from_before_is_learned_from_whole(self, ann: LessonHarness) -> None:
        ann.record(EVENTS)
        ann.outbox.trim(ann.log.watermark())
        assert ann.learner.keep_up(lambda: None)  # by steps
        assert ann.learner.cursor() == ann.log.watermark()
        ann.hear([])
        assert ann.know() == LESSONS
        assert ann.lessons.history() is None

    def test_another_edition_learns_all_again(self, ann: LessonHarness) -> None:
        ann.hear(EVENTS)
        before = {each.id: Outcomes(given=1) for each in ann.know()}
        ann.lessons.set_outcomes(before, {})
        for talk in TALKS[1:]:
            ann.lessons.replace(talk[0].session_id, None, None, [])
        ann.lessons.set_edition(EDITION - 1)
        ann.hear([])
        assert ann.know() == LESSONS
        given = [each.outcomes.given for each in ann.lessons.list_all("shop")]
        assert sorted(set(given)) == [0, 1]  # those that were removed are new
        assert ann.lessons.edition() == EDITION

    def test_it_goes_on_after_a_restart(self, ann: LessonHarness, store: OrderedStore) -> None:
        ann.record(EVENTS)
        ann.outbox.trim(ann.log.watermark())
        assert ann.learner.keep_up(lambda: None)
        at = ann.lessons.history()
        assert at is not None
        assert at.at_ms > EVENTS[0].at_ms
        again = LessonHarness(store)
        again.hear(build_session("new", [("user", "rule of today")], project="shop"))
        assert sorted(each.text for each in again.know()) == sorted(
            [*(each.text for each in LESSONS), "rule of today"]
        )


class TestForgetting:
    def test_nothing_is_left_of_a_session(self, ann: LessonHarness) -> None:
        ann.hear(EVENTS)
        ann.forget(*TALKS[0])
        assert {each.session_id for each in ann.know()} == {"main/agent-1", "other"}
        ann.forget(*TALKS[1], *TALKS[2])
        assert everything(ann.store, "lessons") == []

    def test_the_words_of_a_forgotten_request_are_gone(self, ann: LessonHarness) -> None:
        ann.hear(EVENTS)
        ann.forget(TALKS[0][40])
        assert not any(
            each.situation == "ask 40" for each in ann.know() if each.session_id == "main"
        )
        in_order = LessonHarness(memory(Path()))
        in_order.hear([each for each in EVENTS if each is not TALKS[0][40]])
        assert ann.know() == in_order.know()

    def test_a_verdict_goes_with_the_last_that_says_so(self, ann: LessonHarness) -> None:
        one = build_session("one", [("user", "rule of both"), ("user", "rule of one")])
        two = build_session("two", [("user", "rule of both")], start=one[-1].at_ms + 1)
        ann.hear([*one, *two])
        for lesson in ann.know():
            ann.lessons.set_verdict(
                LessonVerdict(
                    fingerprint=lesson.fingerprint,
                    state=VerdictState.REJECTED,
                    at_ms=Millis(1),
                    reason="secret words",
                )
            )
        ann.forget(*one)
        assert [each.is_rejected for each in ann.lessons.list_all()] == [True]
        ann.forget(*two)
        assert everything(ann.store, "lessons") == []
        ann.hear(build_session("three", [("user", "rule of one")]))
        assert [each.is_rejected for each in ann.lessons.list_all()] == [False]


def test_a_store_that_fails_is_told(ann: LessonHarness) -> None:
    ann.hear(EVENTS[:10])
    ann.store.close()
    with pytest.raises(StorageFailed):
        ann.learner.relearn([SessionId("main")])
