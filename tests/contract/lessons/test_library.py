"""LessonLibrary and LessonVerdicts over every store."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from agent_memory.features.lessons.adapters.guarded_lessons import GuardedLessons
from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.model.lessons import (
    Fingerprint,
    Lesson,
    LessonId,
    LessonKind,
    LessonState,
    LessonVerdict,
    Outcomes,
    Trust,
    VerdictState,
)
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.features.lessons.services import verdicts
from agent_memory.features.lessons.services.catalog import LessonCatalog
from agent_memory.features.lessons.services.library import LessonLibrary, LessonScope
from agent_memory.features.lessons.services.verdicts import MAX_REASON, LessonVerdicts
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.kernel import access
from agent_memory.kernel.access import Principal
from agent_memory.kernel.errors import AmbiguousName, Forbidden, InvalidInput, NotFound
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore
from tests.lesson_samples import build_lesson
from tests.recall_parts import FixedClock, make_event

SESSION = build_lesson(1).session_id
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2


def find_same_end(lessons: Sequence[Lesson]) -> dict[LessonId, LessonId]:
    """Stand for a rule of supersession: the same last word."""
    last = {each.text.split()[-1]: each.id for each in lessons}
    pairs = ((each.id, last[each.text.split()[-1]]) for each in lessons)
    return {old: new for old, new in pairs if old != new}


@dataclass
class _Desk:
    store: OrderedStore
    team: bool = False
    lessons: LessonStore = field(init=False)
    catalog: LessonCatalog = field(init=False)
    library: LessonLibrary = field(init=False)
    verdicts: LessonVerdicts = field(init=False)

    def __post_init__(self) -> None:
        stored = StoredLessons(self.store)
        self.lessons = GuardedLessons(stored) if self.team else stored
        self.catalog = LessonCatalog(self.lessons, find_same_end, FixedClock(), lambda work: work())
        self.library = LessonLibrary(self.lessons, self.catalog, StoredEventLog(self.store))
        self.verdicts = LessonVerdicts(
            self.lessons, self.library, Re2Filter(mode="redact"), FixedClock(), self.catalog.refresh
        )

    def keep(self, *lessons: Lesson) -> None:
        for session in dict.fromkeys(each.session_id for each in lessons):
            own = [each for each in lessons if each.session_id == session]
            self.lessons.replace(session, None, None, own)

    def list_texts(self, **scope: object) -> list[str]:
        return [each.text for each in self.library.list_lessons(LessonScope(**scope))]  # type: ignore[arg-type]


@pytest.fixture
def desk(store: OrderedStore) -> _Desk:
    return _Desk(store)


class TestListing:
    def test_filters(self, desk: _Desk) -> None:
        desk.keep(
            build_lesson(1, "Never use pandas"),
            build_lesson(2, "The port is 8080", kind=LessonKind.FACT, session_id="s2"),
            build_lesson(3, "Use tabs", project="zoo"),
        )
        assert desk.list_texts() == ["Use tabs", "The port is 8080", "Never use pandas"]
        assert desk.list_texts(project="shop") == ["The port is 8080", "Never use pandas"]
        assert desk.list_texts(kind=LessonKind.FACT) == ["The port is 8080"]
        assert desk.list_texts(session="s2") == ["The port is 8080"]
        assert desk.list_texts(words="PANDAS never") == ["Never use pandas"]
        assert desk.list_texts(words="report 3") == ["Use tabs"]
        assert desk.list_texts(words="pandas tabs") == []
        at = build_lesson(2).at_ms
        assert desk.list_texts(since=at) == ["Use tabs", "The port is 8080"]
        assert desk.list_texts(until=at) == ["The port is 8080", "Never use pandas"]

    def test_states(self, desk: _Desk) -> None:
        old, new = build_lesson(1, "port is 1 here"), build_lesson(2, "port is 2 here")
        gone, said = build_lesson(3, "Use tabs"), build_lesson(4, "Run make", trust=Trust.AGENT)
        desk.keep(old, new, gone, said)
        desk.verdicts.reject(gone.id, confirmed=True)
        assert desk.list_texts(state=LessonState.SUPERSEDED) == [old.text]
        assert desk.list_texts(state=LessonState.REJECTED) == [gone.text]
        assert desk.list_texts(state=LessonState.NEW) == [new.text]
        assert desk.list_texts(state=LessonState.ACTIVE) == [said.text, new.text]
        desk.verdicts.accept(new.id)
        assert desk.list_texts(state=LessonState.NEW) == []
        assert desk.list_texts(state=LessonState.ACTIVE) == [said.text, new.text]

    def test_what_awaits_review(self, desk: _Desk) -> None:
        rule, fact = build_lesson(1, "Use tabs"), build_lesson(2, "It is 1", kind=LessonKind.FACT)
        other = build_lesson(3, "Run make", project="zoo")
        desk.keep(rule, fact, other)
        desk.verdicts.reject(fact.id, confirmed=False)
        waiting = [each.lesson for each in desk.library.list_to_review()]
        assert waiting == [other, fact, rule]
        assert [each.lesson for each in desk.library.list_to_review(["zoo"])] == [other]
        desk.verdicts.reject(fact.id, confirmed=True)
        desk.verdicts.accept(rule.id)
        assert [each.lesson for each in desk.library.list_to_review()] == [other]

    def test_who_rejected_what_awaits_review(self, desk: _Desk) -> None:
        by_agent, by_words, kept = (build_lesson(n) for n in (1, 2, 3))
        desk.keep(by_agent, by_words, kept)
        desk.verdicts.reject(by_agent.id, verdicts.SAID_OUTDATED, confirmed=False)
        desk.verdicts.retire(by_words.id)
        told = {
            each.lesson.id: verdicts.tell_rejection(each) for each in desk.library.list_to_review()
        }
        assert told == {
            by_agent.id: "rejected by an agent",
            by_words.id: "retired by what you said in a session",
            kept.id: "",
        }


class TestFinding:
    def test_by_id_uri_and_beginning(self, desk: _Desk) -> None:
        lesson = build_lesson(1)
        desk.keep(lesson, build_lesson(2))
        uri = f"memory://lessons/{lesson.id}"
        for name in (lesson.id, lesson.id[:8], uri, f" {uri[:-4]} "):
            assert desk.library.find_lesson(name).lesson == lesson
        opened = desk.library.get(lesson.id)
        assert opened is not None
        assert (opened.uri, opened.title, opened.kind) == (uri, lesson.text, "lesson")
        assert [each.uri for each in desk.library.list_beginning(lesson.id[:8], limit=9)] == [uri]

    @pytest.mark.parametrize("name", ["", "abc", "memory://facts/x", "memory://lessons/", "zzzz"])
    def test_what_is_none(self, desk: _Desk, name: str) -> None:
        desk.keep(build_lesson(1))
        with pytest.raises(NotFound):
            desk.library.find_lesson(name)

    def test_a_beginning_that_several_have(self, desk: _Desk) -> None:
        one = build_lesson(1, id=LessonId("abcd-1"))
        desk.keep(one, build_lesson(2, id=LessonId("abcd-2")))
        with pytest.raises(AmbiguousName, match="abcd-1"):
            desk.library.find_lesson("abcd")
        assert desk.library.find_lesson("abcd-1").lesson == one

    def test_its_events_and_what_superseded_it(self, desk: _Desk) -> None:
        event = make_event("Never use it", name="e1")
        desk.library.log.append([event]).result()
        old, new = build_lesson(1, "port is 1 here"), build_lesson(2, "port is 2 here")
        desk.keep(old, new)
        known = desk.library.find_lesson(old.id)
        assert known.superseded_by == new.id
        assert desk.library.read_events(known) == [event]
        opened = desk.library.get(old.id)
        assert opened is not None
        assert opened.words == (event,)
        assert opened.details["superseded_by"] == f"memory://lessons/{new.id}"


class TestVerdicts:
    def test_edited_words_hold_also_for_what_is_said_again(self, desk: _Desk) -> None:
        desk.keep(build_lesson(1, "Never use pandas!"))
        known = desk.verdicts.edit(build_lesson(1).id, "  Use polars,\nnot pandas ")
        assert (known.text, known.state) == ("Use polars, not pandas", LessonState.ACTIVE)
        desk.keep(build_lesson(5, "never use PANDAS", session_id="s2"))
        assert desk.list_texts() == ["Use polars, not pandas"] * 2
        assert desk.catalog.list_lessons("shop")[0].text == "Use polars, not pandas"

    @pytest.mark.parametrize("text", ["", " \n", "x" * 401])
    def test_words_that_are_none_or_too_many(self, desk: _Desk, text: str) -> None:
        desk.keep(build_lesson(1))
        with pytest.raises(InvalidInput):
            desk.verdicts.edit(build_lesson(1).id, text)

    def test_a_rejected_one_stays_rejected_however_often_it_is_learned(self, desk: _Desk) -> None:
        lesson = build_lesson(1)
        desk.keep(lesson)
        assert desk.verdicts.reject(lesson.id, "old " * 200, confirmed=True).is_rejected
        desk.lessons.replace(SESSION, None, None, [])
        desk.keep(lesson)
        known = desk.library.find_lesson(lesson.id)
        assert known.is_rejected
        assert known.verdict is not None
        assert len(known.verdict.reason) == MAX_REASON
        assert desk.verdicts.accept(lesson.id).is_active

    def test_what_an_agent_passed_on_does_not_undo_what_a_person_said(self, desk: _Desk) -> None:
        lesson = build_lesson(1)
        desk.keep(lesson)
        desk.verdicts.reject(lesson.id, "wrong", confirmed=True)
        known = desk.verdicts.reject(lesson.id, confirmed=False)
        assert known.verdict is not None
        assert (known.verdict.confirmed, known.verdict.reason) == (True, "wrong")

    def test_secrets_are_not_kept(self, desk: _Desk) -> None:
        lesson = build_lesson(1)
        desk.keep(lesson)
        edited = desk.verdicts.edit(lesson.id, f"Use the token {SECRET}")
        rejected = desk.verdicts.reject(lesson.id, f"the token {SECRET} expired", confirmed=True)
        assert SECRET not in edited.text
        assert "Use the token" in edited.text
        assert rejected.verdict is not None
        assert SECRET not in rejected.verdict.reason

    def test_those_of_an_archive_come_before_their_lessons(self, desk: _Desk) -> None:
        verdict = LessonVerdict(
            fingerprint=build_lesson(1).fingerprint,
            state=VerdictState.REJECTED,
            at_ms=Millis(5),
            reason=f"the token {SECRET} expired",
        )
        assert desk.verdicts.add(verdict)
        assert not desk.verdicts.add(verdict)
        desk.keep(build_lesson(1))
        known = desk.library.find_lesson(build_lesson(1).id)
        assert known.is_rejected
        assert SECRET not in str(known.verdict)
        with pytest.raises(InvalidInput):
            desk.verdicts.add(replace(verdict, fingerprint=Fingerprint("x:y")))

    def test_one_that_is_gone(self, desk: _Desk) -> None:
        with pytest.raises(NotFound):
            desk.verdicts.accept("no-such-lesson")


class TestWeeks:
    def test_days_add_up(self, desk: _Desk) -> None:
        one, two = build_lesson(1), build_lesson(2)
        desk.keep(one, two)
        now = FixedClock().at
        desk.catalog.note_outcome(one.id, given=1)
        desk.catalog.note_outcome(two.id, given=1, heeded=1)
        desk.lessons.set_outcomes({}, {now // 86_400_000 - 7: Outcomes(given=100)})
        desk.lessons.set_outcomes({}, {now // 86_400_000 - 6: Outcomes(repeated=5)})
        desk.lessons.advance(1)  # later writes are durable after those
        assert desk.catalog.count_days(7) == Outcomes(
            given=2, heeded=1, repeated=5, last_given_ms=now
        )
        again = LessonCatalog(desk.lessons, find_same_end, FixedClock(), lambda work: work())
        again.note_outcome(one.id, given=1)
        assert again.count_days(1).given == 3


class TestTeams:
    def test_callers_see_and_judge_the_lessons_of_their_projects(self, store: OrderedStore) -> None:
        desk, lesson = _Desk(store, team=True), build_lesson(1)
        desk.keep(lesson, build_lesson(2, project="zoo"))
        with access.work_for(Principal(person="ada", projects=frozenset({"zoo"}))):
            assert len(desk.list_texts()) == 1
            assert desk.lessons.list_session(SESSION)[0].project == "zoo"
            with pytest.raises(NotFound):
                desk.verdicts.reject(lesson.id, confirmed=True)
            with pytest.raises(Forbidden):
                desk.lessons.remove_verdict(lesson.fingerprint)
        with access.work_for(Principal(person="bob", projects=frozenset({"shop"}))):
            assert desk.verdicts.reject(lesson.id, confirmed=True).is_rejected
        assert desk.library.find_lesson(lesson.id).is_rejected
