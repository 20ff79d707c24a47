"""LessonEmbedding: the newest lessons first, and one that cannot be embedded stops no other."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.services.lesson_embedding import BATCH, LessonEmbedding
from agent_memory.kernel.errors import EmbedderFailed, EmbedderRefused
from agent_memory.platform.leadership import SoleLeadership
from tests.contract.stores import memory
from tests.lesson_samples import build_lesson
from tests.recall_parts import NOW, FixedClock

SESSION = build_lesson(1).session_id


class LengthEmbedder:
    """Embeds a text as its length. Refuses what says so, and fails while it is `broken`."""

    model, unrelated, broken = "lengths", 0.0, False

    def __init__(self) -> None:
        self.asked: list[bool] = []  # which calls were live

    def embed(self, texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:
        self.asked.append(live)
        if self.broken:
            raise EmbedderFailed("not now")
        if any("refuse" in text for text in texts):
            raise EmbedderRefused("not this")
        return [Vector(b"%d" % len(text)) for text in texts]

    def embed_question(self, text: str, /) -> Vector:
        return self.embed([text])[0]


class _OtherLeads:
    def lead(self) -> nullcontext[bool]:
        return nullcontext(False)

    def take_over(self) -> nullcontext[None]:
        return nullcontext()


@pytest.fixture
def lessons() -> StoredLessons:
    return StoredLessons(memory(Path()), LengthEmbedder.model)


def work(lessons: StoredLessons, told: list[str], embedder: LengthEmbedder) -> LessonEmbedding:
    return LessonEmbedding(
        lessons, embedder, FixedClock(), SoleLeadership(), lambda: told.append("embedded")
    )


def test_text_and_situation_have_a_vector_each(lessons: StoredLessons) -> None:
    both = build_lesson(1, "1234", situation="12")
    alone = build_lesson(2, "123", situation="")
    lessons.replace(SESSION, None, None, [both, alone])
    told: list[str] = []
    embedding = work(lessons, told, LengthEmbedder())
    assert embedding.count() == 2
    assert embedding.step(live=False)
    assert [each.vectors for each in lessons.list_all()] == [(b"4", b"2"), (b"3", b"3")]
    assert embedding.count() == 0
    assert not embedding.step(live=False)
    assert told == ["embedded"]


def test_only_new_ones_are_live(lessons: StoredLessons) -> None:
    old, new = build_lesson(1), build_lesson(2, at_ms=NOW)
    lessons.replace(SESSION, None, None, [old, new])
    embedder = LengthEmbedder()
    embedding = work(lessons, [], embedder)
    assert embedding.step(live=True)
    assert not embedding.step(live=True)
    assert embedder.asked == [True]
    assert [bool(each.vectors) for each in lessons.list_all()] == [False, True]


def test_a_long_backlog_takes_steps(lessons: StoredLessons) -> None:
    lessons.replace(SESSION, None, None, [build_lesson(n) for n in range(1, BATCH + 3)])
    embedding = work(lessons, [], LengthEmbedder())
    assert embedding.step(live=False)
    assert embedding.count() == 2


def test_a_refused_one_has_none_and_waits_no_more(lessons: StoredLessons) -> None:
    lessons.replace(SESSION, None, None, [build_lesson(1, "refuse"), build_lesson(2, "123")])
    embedding = work(lessons, [], LengthEmbedder())
    assert embedding.step(live=False)
    assert [len(each.vectors) for each in lessons.list_all()] == [0, 2]
    assert embedding.count() == 0


def test_an_embedder_that_fails_leaves_all_waiting(lessons: StoredLessons) -> None:
    lessons.replace(SESSION, None, None, [build_lesson(1)])
    embedder = LengthEmbedder()
    embedder.broken = True
    with pytest.raises(EmbedderFailed):
        work(lessons, [], embedder).step(live=False)
    assert lessons.count_unembedded() == 1


def test_only_the_leader_embeds(lessons: StoredLessons) -> None:
    lessons.replace(SESSION, None, None, [build_lesson(1)])
    embedding = LessonEmbedding(
        lessons, LengthEmbedder(), FixedClock(), _OtherLeads(), lambda: None
    )
    assert not embedding.step(live=False)
    assert embedding.count() == 1
