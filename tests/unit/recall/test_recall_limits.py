"""Recall under what is too much: refused texts, endless questions, equals, work side by side."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import MAX_OFFSET, Query, SearchMode, TermStatistics
from agent_memory.features.index.ports import Embedder
from agent_memory.features.recall.model import questions
from agent_memory.features.recall.services import embedding
from agent_memory.kernel.errors import EmbedderRefused, InvalidInput
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store import schema
from tests.embedders import HashingEmbedder
from tests.recall_parts import MINUTE, NOW, RecallHarness, list_ids, make_event, open_recall


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[RecallHarness]:
    with open_recall(tmp_path, HashingEmbedder()) as created:
        yield created


class Picky:
    """A real embedder that refuses any batch with a certain word in it."""

    def __init__(self, inner: Embedder) -> None:
        self.model, self.unrelated = inner.model, inner.unrelated
        self._inner = inner

    def embed(self, texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:
        if any("unspeakable" in text for text in texts):
            raise EmbedderRefused("not this one")
        return self._inner.embed(texts, live=live)

    def embed_question(self, text: str, /) -> Vector:
        return self._inner.embed_question(text)


def many(count: int, text: str) -> list[str]:
    return [f"{text} {number}" for number in range(count)]


class TestRefusedTexts:
    def test_one_keeps_no_other_from_its_vector(self, tmp_path: Path) -> None:
        with open_recall(tmp_path, Picky(HashingEmbedder())) as parts:
            texts = [*many(20, "lantern"), "an unspeakable thing", *many(20, "harbour")]
            events = [make_event(text, NOW - MINUTE + at) for at, text in enumerate(texts)]
            parts.keep(*events)
            parts.keep_up()
            assert parts.queue.size() == 0
            assert parts.vectors is not None
            assert parts.vectors.stats().documents == 40
            assert not parts.indexes.status().trouble
            assert f"event:{events[20].event_id}" in list_ids(parts.ask("unspeakable"))


class TestBatches:
    def test_a_batch_has_many_short_texts_or_few_long_ones(self, parts: RecallHarness) -> None:
        parts.keep_up()
        long = "word " * 2_000
        parts.keep(*(make_event(f"{long} {at}", NOW - MINUTE + at) for at in range(4)))
        parts.keep(*(make_event(f"note {at}", NOW - 1_000 + at) for at in range(200)))
        parts.indexing.step()
        step = parts.indexes.embedding.step if parts.indexes.embedding else None
        assert step is not None
        assert [step(), step(), step(), step()] == [embedding.BATCH_RECORDS, 74, 2, 0]


class TestQuestions:
    def test_of_a_long_one_the_rarest_terms_count(self) -> None:
        text = " ".join(f"term{number}" for number in range(500))
        question = questions.parse_question(text, NOW)
        counts = {term: number for number, term in enumerate(question.terms)}
        stored = questions.limit_terms(question, TermStatistics(documents=500, frequencies=counts))
        assert len(stored.terms) == questions.MOST_TERMS
        assert set(stored.terms) == set(question.terms[1 : questions.MOST_TERMS + 1])

    def test_a_short_one_keeps_all(self) -> None:
        question = questions.parse_question("where is the lantern", NOW)
        nothing = TermStatistics(documents=1, frequencies={})
        assert questions.limit_terms(question, nothing) is question

    def test_a_word_is_a_name_only_where_it_is_written_as_one(self) -> None:
        bot = frozenset({"deploy", "bot"})
        assert not questions.resolve_speakers(
            questions.parse_question("how do we deploy it", NOW), bot
        ).names
        assert (
            questions.resolve_speakers(
                questions.parse_question("what did Deploy Bot say", NOW), bot
            ).names
            == bot
        )

    def test_pages_have_an_end(self) -> None:
        with pytest.raises(InvalidInput, match="narrow the time range"):
            Query(text="x", offset=MAX_OFFSET + 1)


class TestEquals:
    def test_the_newest_of_many_that_say_the_same_come_first(self, parts: RecallHarness) -> None:
        texts = ["thanks a lot"] * 300
        events = [
            make_event(t, NOW - 10 * MINUTE + at, session=f"s{at}") for at, t in enumerate(texts)
        ]
        parts.keep(*events)
        parts.keep_up()
        found = list_ids(parts.ask("thanks", mode=SearchMode.BM25, limit=5))
        assert found == [f"event:{each.event_id}" for each in events[: -5 - 1 : -1]]


class TestSideBySide:
    def test_a_step_leaves_an_index_alone_that_is_being_filled(self, parts: RecallHarness) -> None:
        parts.keep_up()
        during: list[int | None] = []

        def look(_: int) -> None:
            if not during:
                parts.keep(make_event("a zeppelin passes", Millis(NOW - 5)))
                parts.keep_up()
                during.append(parts.lexical.cursor())

        parts.keep(make_event("before", Millis(NOW - 9)))
        parts.indexes.rebuild_words(look)
        assert during == [1], "the step has gone on beside it"
        parts.keep_up()
        assert parts.lexical.cursor() == parts.log.watermark()
        assert parts.ask("zeppelin").hits[0].document.text == "a zeppelin passes"


def test_a_store_has_a_name_that_stays(parts: RecallHarness) -> None:
    first = schema.ensure_identity(parts.store)
    assert first == schema.ensure_identity(parts.store)
    assert len(first) == 32


class TestLongTexts:
    def test_what_stands_at_their_end_is_found_before_and_after_indexing(
        self, parts: RecallHarness
    ) -> None:
        parts.keep_up()
        parts.keep(make_event("word " * 15_000 + "xylophone", NOW - MINUTE, name="long"))
        assert list_ids(parts.ask("xylophone", mode=SearchMode.BM25)) == ["event:long"]
        parts.keep_up()
        assert list_ids(parts.ask("xylophone", mode=SearchMode.BM25)) == ["event:long"]


class TestNamedTimes:
    def test_a_day_comes_before_the_days_after_it(self, parts: RecallHarness) -> None:
        day = 24 * 60 * MINUTE
        parts.keep(
            make_event("the garden was dug over", NOW - day, name="then", session="one"),
            make_event("the garden was dug over again", NOW - MINUTE, name="later", session="two"),
        )
        parts.keep_up()
        assert list_ids(parts.ask("what about the garden yesterday"))[0] == "event:then"
