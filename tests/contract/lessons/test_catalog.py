"""LessonCatalog over every store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as change

import pytest

from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.model.lessons import (
    Lesson,
    LessonId,
    LessonVerdict,
    Outcomes,
    VerdictState,
)
from agent_memory.features.lessons.services.catalog import LessonCatalog
from agent_memory.kernel import access
from agent_memory.kernel.access import Principal
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore
from tests.lesson_samples import build_lesson

NOW = Millis(1_767_600_000_000)
SESSION = build_lesson(1).session_id


class _Stopped:
    def now(self) -> Millis:
        return NOW


def replace_first_by_last(lessons: Sequence[Lesson]) -> Mapping[LessonId, LessonId]:
    """Stand for a rule of supersession: the same first word."""
    last = {each.text.split()[0]: each.id for each in lessons}
    return {
        each.id: last[first] for each in lessons if last[first := each.text.split()[0]] != each.id
    }


@dataclass
class _Shelf:
    store: OrderedStore
    soon: list[Callable[[], None]] = field(default_factory=list)
    lessons: StoredLessons = field(init=False)
    catalog: LessonCatalog = field(init=False)

    def __post_init__(self) -> None:
        self.lessons = StoredLessons(self.store)
        self.catalog = LessonCatalog(
            self.lessons, replace_first_by_last, _Stopped(), self.soon.append
        )

    def work(self) -> None:
        """Run what was put off."""
        while self.soon:
            self.soon.pop()()

    def keep(self, *lessons: Lesson) -> None:
        self.lessons.replace(SESSION, None, None, lessons)

    def judge(
        self, lesson: Lesson, state: VerdictState, text: str = "", *, confirmed: bool = True
    ) -> None:
        verdict = LessonVerdict(
            fingerprint=lesson.fingerprint,
            state=state,
            at_ms=NOW,
            text=text,
            confirmed=confirmed,
        )
        self.lessons.set_verdict(verdict)

    def list_superseded(self) -> list[tuple[str, LessonId | None]]:
        return [(each.text, each.superseded_by) for each in self.catalog.list_lessons("shop")]


@pytest.fixture
def shelf(store: OrderedStore) -> _Shelf:
    return _Shelf(store)


def test_it_lists_the_lessons_of_a_project(shelf: _Shelf) -> None:
    one, two, other = build_lesson(1, "a"), build_lesson(2, "b"), build_lesson(3, project="zoo")
    shelf.keep(two, other, one)
    assert [each.lesson for each in shelf.catalog.list_lessons("shop")] == [one, two]
    assert shelf.catalog.list_lessons("none") == ()


def test_it_is_the_same_list_until_something_changes(shelf: _Shelf) -> None:
    lesson = build_lesson(1)
    shelf.keep(lesson)
    first = shelf.catalog.list_lessons("shop")
    shelf.lessons.replace(build_lesson(2, session_id="z").session_id, None, None, [])
    shelf.catalog.note_outcome(lesson.id, given=1)
    shelf.lessons.note_foreign_changes()
    shelf.catalog.refresh()
    assert shelf.catalog.list_lessons("shop") is first
    shelf.judge(lesson, VerdictState.REJECTED)
    shelf.catalog.refresh()
    second = shelf.catalog.list_lessons("shop")
    assert [each.is_active for each in second] == [False]
    assert shelf.catalog.list_lessons("shop") is second


def test_what_another_daemon_learned_is_seen(store: OrderedStore) -> None:
    here, there = _Shelf(store), _Shelf(store)
    assert here.catalog.list_lessons("shop") == ()
    there.keep(build_lesson(1))
    here.lessons.note_foreign_changes()
    assert here.catalog.list_lessons("shop") == ()  # no hook waits
    here.work()
    assert len(here.catalog.list_lessons("shop")) == 1
    assert here.soon == []


class TestSupersession:
    def test_the_last_word_counts(self, shelf: _Shelf) -> None:
        old, new = build_lesson(1, "port 1"), build_lesson(2, "port 2")
        shelf.keep(old, new)
        assert shelf.list_superseded() == [("port 1", new.id), ("port 2", None)]

    def test_a_rejected_one_replaces_none(self, shelf: _Shelf) -> None:
        old, new = build_lesson(1, "port 1"), build_lesson(2, "port 2")
        shelf.keep(old, new)
        shelf.judge(new, VerdictState.REJECTED)
        assert shelf.list_superseded() == [("port 1", None), ("port 2", None)]

    def test_one_that_an_agent_rejected_does(self, shelf: _Shelf) -> None:
        """An agent must not bring back what the user has replaced."""
        old, new = build_lesson(1, "port 1"), build_lesson(2, "port 2")
        shelf.keep(old, new)
        shelf.judge(new, VerdictState.REJECTED, confirmed=False)
        assert shelf.list_superseded() == [("port 1", new.id), ("port 2", None)]

    def test_an_edited_one_counts_with_its_new_words(self, shelf: _Shelf) -> None:
        old, new = build_lesson(1, "port 1"), build_lesson(2, "gate 2")
        shelf.keep(old, new)
        shelf.judge(new, VerdictState.ACCEPTED, text="port 2")
        assert shelf.list_superseded() == [("port 1", new.id), ("port 2", None)]


class TestOutcomes:
    def test_they_add_up_and_stay(self, store: OrderedStore) -> None:
        shelf, lesson = _Shelf(store), build_lesson(1)
        shelf.keep(lesson)
        shelf.catalog.note_outcome(lesson.id, given=1)
        shelf.catalog.note_outcome(lesson.id, heeded=1)
        shelf.lessons.advance(1)  # later writes are durable after those
        again = _Shelf(store)
        again.catalog.note_outcome(lesson.id, given=1)
        again.catalog.note_outcome(lesson.id, repeated=2)
        again.keep(change(lesson, paths=()))
        (known,) = again.catalog.list_lessons("shop")
        assert known.outcomes == Outcomes(given=2, heeded=1, repeated=2, last_given_ms=NOW)

    def test_those_of_a_lesson_that_is_gone_are_dropped(self, shelf: _Shelf) -> None:
        shelf.catalog.note_outcome(LessonId("gone"), given=1)
        assert shelf.lessons.get([LessonId("gone")]) == [None]


def test_a_caller_sees_the_lessons_of_their_projects(shelf: _Shelf) -> None:
    shelf.keep(build_lesson(1))
    with access.work_for(Principal(person="ada", projects=frozenset({"zoo"}))):
        assert shelf.catalog.list_lessons("shop") == ()
    with access.work_for(Principal(person="bob", projects=frozenset({"shop"}))):
        assert len(shelf.catalog.list_lessons("shop")) == 1
