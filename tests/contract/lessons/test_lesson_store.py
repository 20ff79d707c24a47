"""The port LessonStore over every store."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.model.lessons import (
    KnownLesson,
    Lesson,
    LessonId,
    LessonVerdict,
    Outcomes,
    VerdictState,
)
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from tests.contract.stores import OpenStore, commit, everything
from tests.lesson_samples import build_lesson

SESSION = build_lesson(1).session_id
MODEL = "model-a"
VECTORS = (b"\x01\x02", b"\x03\x04")


@pytest.fixture
def lessons(store: OrderedStore) -> LessonStore:
    return StoredLessons(store, MODEL)


def list_known(lessons: LessonStore, project: str | None = None) -> list[Lesson]:
    return [each.lesson for each in lessons.list_all(project)]


def find(lessons: LessonStore, name: LessonId) -> KnownLesson:
    (known,) = lessons.get([name])
    assert known is not None
    return known


def list_waiting(lessons: LessonStore) -> Sequence[Lesson]:
    waiting = lessons.list_unembedded(limit=100)
    assert lessons.count_unembedded() == len(waiting)
    return waiting


class TestReplacing:
    def test_a_lesson_comes_back_whole(self, lessons: LessonStore) -> None:
        lesson = build_lesson(1, "Größer: nie %3A pandas", project="shop: café")
        lessons.replace(SESSION, None, None, [lesson])
        assert lessons.list_all() == [KnownLesson(lesson=lesson)]
        assert lessons.list_all("shop: café") == [KnownLesson(lesson=lesson)]
        assert lessons.list_session(SESSION) == [lesson]
        assert lessons.get([lesson.id, LessonId("unknown")]) == [KnownLesson(lesson=lesson), None]

    def test_the_oldest_comes_first_whatever_its_session_and_project(
        self, lessons: LessonStore
    ) -> None:
        one = build_lesson(3, session_id="b", project="shop")
        two = build_lesson(1, session_id="a", project="zoo")
        three = build_lesson(2, session_id="b", project="shop")
        lessons.replace(SessionId("b"), None, None, [one, three])
        lessons.replace(SessionId("a"), None, None, [two])
        assert list_known(lessons) == [two, three, one]
        assert list_known(lessons, "shop") == [three, one]
        assert list_known(lessons, "sho") == []

    def test_no_project_is_a_project(self, lessons: LessonStore) -> None:
        nowhere, somewhere = build_lesson(1, project=""), build_lesson(2)
        lessons.replace(SESSION, None, None, [nowhere, somewhere])
        assert list_known(lessons, "") == [nowhere]
        assert list_known(lessons) == [nowhere, somewhere]

    def test_all_of_a_session_and_of_no_other(self, lessons: LessonStore) -> None:
        kept = build_lesson(1, session_id="s1")
        lessons.replace(SessionId("s1"), None, None, [kept])
        lessons.replace(SESSION, None, None, [build_lesson(1), build_lesson(2)])
        again = build_lesson(3)
        lessons.replace(SESSION, None, None, [again])
        assert list_known(lessons) == [kept, again]
        lessons.replace(SESSION, None, None, [])
        assert list_known(lessons) == [kept]

    def test_those_from_a_place_on(self, lessons: LessonStore) -> None:
        one, two, three = (build_lesson(number) for number in (1, 2, 3))
        lessons.replace(SESSION, None, None, [one, two, three])
        lessons.replace(SESSION, two.position, None, [three])
        assert list_known(lessons) == [one, three]

    def test_those_up_to_a_place(self, lessons: LessonStore) -> None:
        one, two, three = (build_lesson(number) for number in (1, 2, 3))
        lessons.replace(SESSION, None, None, [one, two, three])
        lessons.replace(SESSION, one.position.next, three.position, [])
        assert list_known(lessons) == [one, three]
        lessons.replace(SESSION, None, one.position.next, [])
        assert list_known(lessons) == [three]

    def test_events_of_one_moment_keep_the_order_of_the_log(self, lessons: LessonStore) -> None:
        """The id of one begins with that of the other, and goes on with less than a colon."""
        one = build_lesson(1, events=(EventId("e1"),), at_ms=Millis(5))
        two = build_lesson(2, events=(EventId("e1!"),), at_ms=Millis(5))
        lessons.replace(SESSION, None, None, [one, two])
        lessons.replace(SESSION, two.position, None, [])
        assert list_known(lessons) == [one]

    def test_one_that_changed_has_its_new_words(self, lessons: LessonStore) -> None:
        old = build_lesson(1)
        new = replace(old, text="Never use polars.", project="zoo")
        lessons.replace(SESSION, None, None, [old])
        lessons.replace(SESSION, None, None, [new])
        assert list_known(lessons) == [new]
        assert list_known(lessons, "shop") == []
        assert lessons.list_session(SESSION) == [new]

    def test_nothing_is_left_of_those_that_are_gone(
        self, lessons: LessonStore, store: OrderedStore
    ) -> None:
        lesson = build_lesson(1)
        lessons.replace(SESSION, None, None, [lesson])
        lessons.set_vectors({lesson.id: VECTORS})
        lessons.set_outcomes({lesson.id: Outcomes(given=1)}, {})
        lessons.replace(SESSION, None, None, [])
        assert everything(store, families.LESSONS) == []

    def test_many_are_read_by_the_page(self, lessons: LessonStore) -> None:
        many = [build_lesson(number) for number in range(1, 1_203)]
        lessons.replace(SESSION, None, None, many)
        assert list_known(lessons) == many
        assert lessons.list_session(SESSION) == many
        assert lessons.count_unembedded() == len(many)

    def test_a_damaged_one_is_missing_until_it_is_learned_again(
        self, lessons: LessonStore, store: OrderedStore
    ) -> None:
        one, two = build_lesson(1), build_lesson(2)
        lessons.replace(SESSION, None, None, [one, two])
        key = next(key for key, _ in everything(store, families.LESSONS) if key[:7] == b"lesson:")
        commit(store, Batch((Put(families.LESSONS, key, b"\x01garbage"),)))
        assert list_known(lessons) == [two]
        assert lessons.get([one.id]) == [None]
        lessons.replace(SESSION, None, None, [one, two])
        assert list_known(lessons) == [one, two]

    def test_a_damaged_verdict_is_a_storage_failure(
        self, lessons: LessonStore, store: OrderedStore
    ) -> None:
        lessons.replace(SESSION, None, None, [build_lesson(1)])
        key = b"verdict:" + build_lesson(1).fingerprint.encode()
        commit(store, Batch((Put(families.LESSONS, key, b"\x01garbage"),)))
        with pytest.raises(StorageFailed):
            lessons.list_all()


class TestWhatStays:
    def test_outcomes_and_vectors_of_what_is_learned_again(self, lessons: LessonStore) -> None:
        old = build_lesson(1)
        lessons.replace(SESSION, None, None, [old])
        outcomes = Outcomes(given=3, heeded=2, repeated=1, last_given_ms=Millis(7))
        lessons.set_vectors({old.id: VECTORS})
        lessons.set_outcomes({old.id: outcomes}, {})
        new = replace(old, commands=("git",))
        lessons.replace(SESSION, None, None, [new])
        known = find(lessons, old.id)
        assert (known.lesson, known.outcomes, known.vectors) == (new, outcomes, VECTORS)
        assert list_waiting(lessons) == []

    def test_vectors_go_with_the_words_that_they_were_made_from(self, lessons: LessonStore) -> None:
        old = build_lesson(1)
        lessons.replace(SESSION, None, None, [old])
        lessons.set_vectors({old.id: VECTORS})
        lessons.set_outcomes({old.id: Outcomes(given=3)}, {})
        new = replace(old, situation="something else")
        lessons.replace(SESSION, None, None, [new])
        known = find(lessons, old.id)
        assert (known.outcomes.given, known.vectors) == (3, ())
        assert list_waiting(lessons) == [new]

    def test_what_waits_goes_on_waiting(self, lessons: LessonStore) -> None:
        old = build_lesson(1)
        lessons.replace(SESSION, None, None, [old])
        new = replace(old, paths=())
        lessons.replace(SESSION, None, None, [new])
        assert list_waiting(lessons) == [new]

    def test_all_of_it_after_a_restart(self, open_durable: OpenStore, tmp_path: Path) -> None:
        lesson, at = build_lesson(1), Position(at_ms=Millis(5), event_id=EventId("e:1"))
        verdict = LessonVerdict(
            fingerprint=lesson.fingerprint, state=VerdictState.ACCEPTED, at_ms=Millis(9), text="t"
        )
        first = open_durable(tmp_path)
        lessons = StoredLessons(first, MODEL)
        lessons.replace(SESSION, None, None, [lesson])
        lessons.set_vectors({lesson.id: VECTORS})
        lessons.set_verdict(verdict)
        lessons.advance(7)
        lessons.set_history(at)
        lessons.set_outcomes({lesson.id: Outcomes(given=1)}, {})
        first.close()  # a normal stop, with the outcomes just queued
        second = open_durable(tmp_path)
        try:
            again = StoredLessons(second, MODEL)
            assert again.list_all() == [
                KnownLesson(
                    lesson=lesson, verdict=verdict, outcomes=Outcomes(given=1), vectors=VECTORS
                )
            ]
            assert (again.cursor(), again.history()) == (7, at)
        finally:
            second.close()


class TestProgress:
    def test_it_begins_with_nothing(self, lessons: LessonStore) -> None:
        assert (lessons.cursor(), lessons.history(), lessons.edition()) == (None, None, 0)

    def test_the_edition_is_kept(self, lessons: LessonStore) -> None:
        lessons.set_edition(3)
        assert lessons.edition() == 3

    def test_the_past_may_be_done(self, lessons: LessonStore) -> None:
        lessons.set_history(Position(at_ms=Millis(5), event_id=EventId("e1")))
        lessons.set_history(None)
        assert lessons.history() is None


class TestVectors:
    def test_the_newest_come_first(self, lessons: LessonStore) -> None:
        one, two, three = (build_lesson(number) for number in (1, 2, 3))
        lessons.replace(SESSION, None, None, [two, three, one])
        assert lessons.list_unembedded(limit=2) == [three, two]
        lessons.set_vectors({three.id: VECTORS, LessonId("gone"): VECTORS})
        assert list_waiting(lessons) == [two, one]
        assert lessons.get([LessonId("gone")]) == [None]

    def test_those_of_another_model_are_made_again(
        self, lessons: LessonStore, store: OrderedStore
    ) -> None:
        lesson = build_lesson(1)
        lessons.replace(SESSION, None, None, [lesson])
        assert list_waiting(lessons) == [lesson]
        lessons.set_vectors({lesson.id: VECTORS})
        other = StoredLessons(store, "model-b")
        assert find(other, lesson.id).vectors == ()
        assert list_waiting(other) == [lesson]
        other.set_vectors({lesson.id: (b"\x09",)})
        assert find(other, lesson.id).vectors == (b"\x09",)
        assert list_waiting(other) == []

    def test_a_lesson_without_any_need_not_wait(self, lessons: LessonStore) -> None:
        lesson = build_lesson(1)
        lessons.replace(SESSION, None, None, [lesson])
        lessons.set_vectors({lesson.id: ()})
        assert list_waiting(lessons) == []


class TestVerdicts:
    def test_they_hold_for_all_that_say_the_same(self, lessons: LessonStore) -> None:
        one = build_lesson(1, "Never use pandas!")
        two = build_lesson(2, "never  use *pandas*")
        other = build_lesson(3)
        lessons.replace(SESSION, None, None, [one, two, other])
        verdict = LessonVerdict(
            fingerprint=one.fingerprint,
            state=VerdictState.REJECTED,
            at_ms=Millis(9),
            reason="outdated",
            confirmed=False,
        )
        lessons.set_verdict(verdict)
        assert [each.verdict for each in lessons.list_all()] == [verdict, verdict, None]
        lessons.replace(SESSION, None, None, [])
        lessons.replace(SESSION, None, None, [two])
        assert find(lessons, two.id).is_rejected
        lessons.remove_verdict(one.fingerprint)
        assert find(lessons, two.id).verdict is None


class TestVersions:
    def test_every_change_counts_in_its_project(self, lessons: LessonStore) -> None:
        shop, zoo = build_lesson(1), build_lesson(2, project="zoo", session_id="z")
        lessons.replace(zoo.session_id, None, None, [zoo])
        seen = [lessons.version("shop"), lessons.version("zoo")]
        lessons.replace(SESSION, None, None, [shop])
        seen.append(lessons.version("shop"))
        lessons.set_vectors({shop.id: VECTORS})
        seen.append(lessons.version("shop"))
        lessons.set_verdict(
            LessonVerdict(
                fingerprint=shop.fingerprint, state=VerdictState.ACCEPTED, at_ms=Millis(1)
            )
        )
        seen.append(lessons.version("shop"))
        lessons.replace(SESSION, None, None, [])
        seen.append(lessons.version("shop"))
        shops = [seen[0], *seen[2:]]
        assert shops == sorted(set(shops))

    def test_what_stays_as_it_is_does_not_count(self, lessons: LessonStore) -> None:
        lesson = build_lesson(1)
        lessons.replace(SESSION, None, None, [lesson])
        before = lessons.version("shop")
        lessons.replace(SESSION, None, None, [lesson])
        lessons.set_outcomes({lesson.id: Outcomes(given=1)}, {})
        lessons.replace(
            SessionId("z"), None, None, [build_lesson(2, project="zoo", session_id="z")]
        )
        assert lessons.version("shop") == before
