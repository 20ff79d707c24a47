"""What the status of the indexes says waits, while lessons are learned and embedded."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent_memory.features.lessons.adapters.extraction_worker import ExtractionWorker
from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.model import extracting
from agent_memory.features.lessons.services.lesson_embedding import LessonEmbedding
from agent_memory.features.lessons.services.lesson_learning import LessonLearner
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.platform.leadership import SoleLeadership
from agent_memory.platform.ports import OrderedStore
from tests.embedders import HashingEmbedder
from tests.inline_worker import InlineWorker
from tests.recall_parts import NOW, RecallHarness, build_recall, make_dialogue

RULE = "Please never use pandas in this repo, the lambda has no room for it."


@pytest.fixture
def parts(store: OrderedStore, tmp_path: Path) -> RecallHarness:
    return build_recall(store, tmp_path, HashingEmbedder())


def build_indexes(parts: RecallHarness) -> tuple[Indexes, LessonLearner]:
    assert parts.embedder is not None
    lessons = StoredLessons(parts.store, parts.embedder.model)
    learner = LessonLearner(
        log=parts.log,
        outbox=parts.outbox,
        lessons=lessons,
        extractor=ExtractionWorker(InlineWorker(), extracting.extract),
        on_learned=lambda: None,
    )
    embedding = LessonEmbedding(
        lessons, parts.embedder, parts.clock, SoleLeadership(), lambda: None
    )
    return replace(parts.indexes, learners=[learner], works=[embedding]), learner


def test_what_is_not_learned_waits_as_what_is_not_indexed(parts: RecallHarness) -> None:
    indexes, learner = build_indexes(parts)
    parts.keep(*make_dialogue("Write the report.", "Done.", RULE, begin=NOW - 5_000_000))
    indexes.keep_up(lambda: None)
    assert (indexes.count_waiting(), indexes.status().words_waiting) == (0, 3)
    learner.keep_up(lambda: None)
    assert indexes.status().words_waiting == 0


@pytest.mark.parametrize("begin", [NOW - 5_000_000, NOW - 200_000])
def test_vectors_of_lessons_wait_too(parts: RecallHarness, begin: int) -> None:
    """Those of the past are made with the backlog, new ones with what is live."""
    indexes, learner = build_indexes(parts)
    parts.keep(*make_dialogue("Write the report.", "Done.", RULE, begin=begin))
    learner.keep_up(lambda: None)
    assert indexes.status().waiting_by_kind["lessons"] == 1
    assert indexes.has_backlog()
    indexes.keep_up(lambda: None)
    is_live = begin > NOW - 600_000
    assert indexes.status().waiting_by_kind.get("lessons", 0) == (not is_live)
    indexes.embed_backlog(lambda: None)
    status = indexes.status()
    assert (status.waiting_by_kind, status.vectors_waiting) == ({}, 0)
    (known,) = learner.lessons.list_all()
    assert len(known.vectors) == 2
