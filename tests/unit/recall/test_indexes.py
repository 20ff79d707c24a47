"""Both indexes kept up with the store: through failures, damage, rebuilds and stops anywhere."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from agent_memory.features.index.model import term_vectors
from agent_memory.features.index.model.documents import Document, DocumentKey, DocumentKind, Owner
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import SearchMode, SearchScope
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.outbox import EventChanged
from agent_memory.features.recall.services import indexing
from agent_memory.features.recall.services.embedding import BATCH_RECORDS
from agent_memory.kernel.errors import FeatureUnavailable, IndexFailed
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store import families
from tests.contract.stores import everything, rocks
from tests.embedders import HashingEmbedder
from tests.recall_parts import (
    DAY,
    MINUTE,
    NOW,
    FlakyEmbedder,
    RecallHarness,
    TruncatingEmbedder,
    list_texts,
    make_dialogue,
    make_event,
    open_recall,
)

ALL = 10_000
TALK = make_dialogue(
    "Which database shall we take for the event log?",
    "I decided to take RocksDB, because its writes are fast and batches are atomic.",
    "Good. And what do we do about full text search?",
    "Tantivy is the best choice for full text search: it needs no server.",
    begin=NOW - 2 * DAY,
)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[RecallHarness]:
    with open_recall(tmp_path, FlakyEmbedder(HashingEmbedder())) as created:
        yield created


def many(count: int, *, first: int = 0) -> list[Event]:
    return [
        make_event(f"remark number {n}", NOW - DAY + n, session=f"s{n % 3}", name=f"{n:05}")
        for n in range(first, first + count)
    ]


def stored(parts: RecallHarness) -> Counter[DocumentKey]:
    """All that there is, once each."""
    entries = [entry for some in parts.library.list_entries() for entry in some]
    owned = parts.library.read_owned(entries)
    return Counter(each.key for held in owned.values() for each in held)


def by_words(parts: RecallHarness) -> Counter[DocumentKey]:
    found, count = parts.lexical.find_newest(SearchScope(), limit=ALL)
    assert count == len(found)
    return Counter(each.key for each in found)


def by_terms(parts: RecallHarness) -> set[Owner]:
    """The owners with a term vector; each must be that of the present text."""
    entries = [entry for some in parts.library.list_entries() for entry in some]
    owned = parts.library.read_owned(entries)
    for held, vector in zip(owned.values(), parts.terms.get(list(owned)), strict=True):
        if held and vector is not None:
            assert term_vectors.encode(vector) == term_vectors.encode(term_vectors.build(held[0]))
    return {Owner(key.decode()) for key, _ in everything(parts.store, families.TERM_VECTORS)}


def by_meaning(parts: RecallHarness) -> Counter[DocumentKey]:
    assert parts.vectors is not None
    (query,) = HashingEmbedder().embed(["anything"])
    found = parts.vectors.find_nearest(query, SearchScope(), limit=ALL)
    assert parts.vectors.stats().documents == len(found)
    return Counter(each.key for each in found)


def assert_nothing_is_missing_or_double(parts: RecallHarness) -> None:
    wanted = stored(parts)
    assert by_words(parts) == wanted
    assert by_terms(parts) == {Owner(key) for key in wanted if not key.startswith("grip:")}
    assert by_meaning(parts) == wanted
    status = parts.indexes.status()
    assert (status.words_waiting, status.vectors_waiting) == (0, 0)
    assert (status.doing, status.trouble) == ("", "")
    assert parts.indexes.cursor() == parts.log.watermark()


def embedder(parts: RecallHarness) -> FlakyEmbedder:
    assert isinstance(parts.embedder, FlakyEmbedder)
    return parts.embedder


class Stop(Exception):
    """The daemon stops here."""


class StopAt:
    """A check that stops the work at one of its calls."""

    def __init__(self, call: int) -> None:
        self.left = call

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stop

    @property
    def reached(self) -> bool:
        return self.left < 0


class TestKeepingUp:
    def test_what_is_stored_is_in_both(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK, make_event("", role="system", session="silent"))
        assert {each.partition(":")[0] for each in by_words(parts)} == {"event", "segment", "grip"}
        assert_nothing_is_missing_or_double(parts)

    def test_an_empty_store_is_taken_in_too(self, parts: RecallHarness) -> None:
        parts.keep_up()
        assert parts.indexes.status().words.documents == 0
        assert parts.lexical.cursor() == 0

    def test_what_comes_later_is_added(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK[:2])
        parts.take_in(*TALK[2:])
        parts.take_in(make_event("One thing first: hello.", TALK[0].at_ms - MINUTE))
        assert_nothing_is_missing_or_double(parts)

    def test_what_is_removed_leaves_both(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        parts.forget(TALK[1])
        parts.keep_up()
        assert f"event:{TALK[1].event_id}" not in by_words(parts)
        assert_nothing_is_missing_or_double(parts)

    def test_what_is_read_twice_does_no_harm(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        parts.lexical.replace({}, cursor=0)
        parts.keep_up()
        assert_nothing_is_missing_or_double(parts)

    def test_what_is_embedded_already_is_not_embedded_again(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        embedded = list(embedder(parts).embedded)
        parts.lexical.replace({}, cursor=0)
        parts.keep_up()
        assert embedder(parts).embedded == embedded

    def test_what_is_live_is_embedded_before_what_is_old(self, parts: RecallHarness) -> None:
        parts.keep_up()
        parts.keep(*many(30), make_event("just now", NOW - 1, name="live"))
        parts.indexing.step()
        first = parts.queue.list_pending(limit=1)[0]
        assert first.entry == EventChanged(at=make_event("just now", NOW - 1, name="live").position)

    def test_live_records_do_not_wait_for_the_backlog(self, parts: RecallHarness) -> None:
        parts.keep_up()
        parts.keep(*many(30), make_event("just now", NOW - 1, name="live"))
        assert not parts.indexes.keep_up(lambda: None)
        assert embedder(parts).embedded == ["just now"]
        assert parts.indexes.has_backlog()
        assert not parts.indexes.embed_backlog(lambda: None)
        assert not parts.indexes.has_backlog()
        assert_nothing_is_missing_or_double(parts)

    def test_a_flood_of_new_events_is_a_backlog(self, parts: RecallHarness) -> None:
        parts.keep_up()
        flood = [
            make_event(f"new {n}", NOW - 1, name=f"{n:05}") for n in range(indexing.MOST_LIVE + 1)
        ]
        parts.keep(*flood)
        parts.indexing.step()
        assert parts.queue.list_pending(limit=1, live=True) == []
        assert len(parts.queue.list_pending(limit=ALL, live=False)) == len(flood)

    def test_a_live_record_need_not_wait_for_a_backlog_before_it(
        self, parts: RecallHarness
    ) -> None:
        parts.keep_up()
        parts.keep(*many(2 * indexing.STEP), make_event("just now", NOW - 1, name="live"))
        for _ in range(2):
            parts.indexes.embed_ahead()
        assert embedder(parts).embedded == ["just now"]
        assert set(by_meaning(parts)) == {"event:live"}
        parts.keep_up()
        assert embedder(parts).embedded.count("just now") == 1
        assert_nothing_is_missing_or_double(parts)

    def test_so_it_is_while_new_vectors_are_filled(self, parts: RecallHarness) -> None:
        parts.take_in(*many(10))
        assert parts.vectors is not None
        parts.vectors.reset()
        parts.keep(*many(2 * indexing.STEP), make_event("just now", NOW - 1, name="live"))
        parts.keep_up(parts.indexes.embed_ahead)
        assert_nothing_is_missing_or_double(parts)

    def test_one_that_the_embedder_fails_at_comes_in_its_turn(self, parts: RecallHarness) -> None:
        parts.keep_up()
        parts.keep(*many(2 * indexing.STEP), make_event("just now", NOW - 1, name="live"))
        embedder(parts).reason = "gone for a while"
        parts.indexes.embed_ahead()
        assert parts.indexes.status().trouble == "gone for a while"
        embedder(parts).reason = ""
        parts.keep_up()
        assert_nothing_is_missing_or_double(parts)

    @pytest.mark.parametrize("live", [True, False])
    def test_what_is_removed_while_it_is_embedded_gets_no_vector(
        self, parts: RecallHarness, live: bool
    ) -> None:
        parts.keep_up()
        saved, removed = (
            make_event(text, NOW - (1 if live else DAY), name=text) for text in ("kept", "removed")
        )
        parts.keep(saved, removed)
        parts.indexing.step()
        inner = embedder(parts).embed

        def remove_meanwhile(texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:
            parts.forget(removed)
            return inner(texts, live=live)

        embedder(parts).embed = remove_meanwhile  # type: ignore[method-assign]
        assert parts.indexes.embedding is not None
        assert parts.indexes.embedding.step(live=live) == 2
        assert set(by_meaning(parts)) == {f"event:{saved.event_id}"}

    def test_what_was_said_is_embedded_before_what_tools_gave(self, parts: RecallHarness) -> None:
        parts.keep(
            make_event("Which port does the server use?", NOW - DAY, name="question"),
            make_event("It uses port 8080.", NOW - DAY + 1, role="assistant", name="answer"),
            make_event("Bash: ls\nserver.py", NOW - DAY + 2, role="tool", name="output"),
            make_event("the session began", NOW - DAY + 3, role="system", name="start"),
        )
        parts.cut()
        embedder(parts).reason = "not yet"
        parts.keep_up()
        found = [each.entry for each in parts.queue.list_pending(limit=9)]
        names = [
            each.at.event_id if isinstance(each, EventChanged) else "segment" for each in found
        ]
        assert names == ["question", "answer", "segment", "start", "output"]
        status = parts.indexes.status()
        assert status.waiting_by_kind == {
            "prompts": 1,
            "answers": 1,
            "segments": 1,
            "tool_results": 2,
        }
        assert status.vectors_waiting == 5
        embedder(parts).reason = ""
        parts.keep_up()
        assert parts.indexes.status().waiting_by_kind == {}

    def test_a_tool_result_that_says_nothing_has_words_and_no_vector(
        self, parts: RecallHarness
    ) -> None:
        parts.take_in(
            *TALK, make_event('Bash: make\n{"stdout": ""}', role="tool", tool_name="Bash", name="x")
        )
        assert "event:x" in by_words(parts)
        assert by_words(parts) - by_meaning(parts) == Counter({"event:x": 1})
        assert parts.queue.size() == 0

    def test_more_than_a_batch_is_taken_in(self, tmp_path: Path) -> None:
        with open_recall(tmp_path) as parts:
            parts.keep_up()
            parts.keep(*many(indexing.BATCH + 100))
            parts.keep_up()
            assert by_words(parts) == stored(parts)

    def test_without_an_embedder_words_are_indexed_alone(self, tmp_path: Path) -> None:
        with open_recall(tmp_path) as parts:
            parts.take_in(*TALK)
            assert by_words(parts) == stored(parts)
            assert parts.indexes.status().vectors is None
            assert parts.queue.size() == 0
            with pytest.raises(FeatureUnavailable, match="provider is none"):
                parts.indexes.rebuild_vectors(lambda _: None)
            with pytest.raises(FeatureUnavailable, match="provider is none"):
                parts.indexes.embed(lambda _: None)


class TestFailingEmbedder:
    def test_words_are_indexed_and_the_trouble_is_told(self, parts: RecallHarness) -> None:
        embedder(parts).reason = "the model is not there"
        parts.take_in(*TALK)
        status = parts.indexes.status()
        assert status.trouble == "the model is not there"
        assert status.words_waiting == 0
        assert status.vectors_waiting > 0
        assert by_words(parts) == stored(parts)

    def test_when_it_is_back_what_waited_is_embedded(self, parts: RecallHarness) -> None:
        embedder(parts).reason = "the model is not there"
        parts.take_in(*TALK)
        embedder(parts).reason = ""
        parts.keep_up()
        assert_nothing_is_missing_or_double(parts)

    def test_vectors_that_do_not_fit_are_told_and_words_are_indexed(
        self, parts: RecallHarness
    ) -> None:
        """As when another model answers under the same name."""
        parts.take_in(*TALK)
        again = parts.reopen(TruncatingEmbedder(HashingEmbedder()))
        again.keep(*many(3))
        again.keep_up()
        assert by_words(again) == stored(again)
        assert "dimensions" in again.indexes.status().trouble
        again.indexes.rebuild_vectors(lambda _: None)
        again.keep_up()
        assert again.indexes.status().trouble == ""
        assert again.ask("RocksDB", mode=SearchMode.VECTOR).warning is None
        again.close()

    def test_it_may_fail_in_the_middle(self, parts: RecallHarness) -> None:
        parts.keep(*many(3 * BATCH_RECORDS))
        calls: list[int] = []

        def fail_in_the_middle() -> None:
            calls.append(1)
            embedder(parts).reason = "gone for a while" if len(calls) >= 3 else ""

        parts.keep_up(fail_in_the_middle)
        assert parts.indexes.status().trouble == "gone for a while"
        parts.keep_up()
        embedder(parts).reason = ""
        parts.keep_up()
        assert_nothing_is_missing_or_double(parts)


class TestRebuilding:
    def test_a_lost_index_of_words_is_filled_again(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        parts.outbox.trim(parts.log.watermark())
        parts.close()
        (parts.folder / "lexical").rename(parts.folder / "lost")
        again = parts.reopen()
        assert again.lexical.cursor() is None
        again.keep_up()
        assert_nothing_is_missing_or_double(again)
        again.close()

    def test_a_filling_leaves_no_term_vector_of_a_record_that_is_gone(
        self, parts: RecallHarness
    ) -> None:
        parts.take_in(*TALK)
        parts.forget(TALK[1])
        parts.close()
        (parts.folder / "lexical").rename(parts.folder / "lost")
        again = parts.reopen()
        again.keep_up()
        assert_nothing_is_missing_or_double(again)
        again.close()

    def test_an_index_of_an_earlier_version_is_filled_again_with_term_vectors(
        self, parts: RecallHarness
    ) -> None:
        parts.take_in(*TALK)
        parts.outbox.trim(parts.log.watermark())
        parts.close()
        parts.terms.clear()
        meta = parts.folder / "lexical" / "meta.json"
        assert b'"terms-2"' in meta.read_bytes()
        meta.write_bytes(meta.read_bytes().replace(b'"terms-2"', b'"terms-1"'))
        again = parts.reopen()
        assert again.lexical.cursor() is None
        assert TALK[3].text in list_texts(again.ask("full text search", mode=SearchMode.VECTOR))
        again.keep_up()
        assert_nothing_is_missing_or_double(again)
        again.close()

    def test_term_vectors_are_written_before_the_index_has_moved_on(
        self, parts: RecallHarness
    ) -> None:
        parts.keep_up()
        parts.keep(*TALK)
        parts.lexical.close()
        (parts.folder / "lexical").rename(parts.folder / "lost")  # so that writing to it fails
        with pytest.raises(IndexFailed):
            parts.indexing.step()
        assert len(by_terms(parts)) == len(TALK)

    @pytest.mark.parametrize("damage", ["cut", "flipped"])
    def test_a_damaged_index_of_words_is_filled_again(
        self, parts: RecallHarness, damage: str
    ) -> None:
        parts.take_in(*TALK)
        parts.outbox.trim(parts.log.watermark())
        parts.close()
        for each in sorted((parts.folder / "lexical").glob("*.idx")):
            content = each.read_bytes()
            middle = len(content) // 2
            flipped = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
            each.write_bytes(flipped if damage == "flipped" else content[:middle])
        again = parts.reopen()
        again.keep_up()
        assert_nothing_is_missing_or_double(again)
        again.close()

    def test_an_index_that_is_ahead_of_the_store_is_filled_again(
        self, parts: RecallHarness
    ) -> None:
        """It is of another store, or of a later state of this one."""
        ghost = Document(
            kind=DocumentKind.EVENT,
            id="ghost",
            owner=Owner("event:ghost"),
            at_ms=Millis(NOW),
            text="of another store",
            session="talk",
        )
        parts.lexical.begin()
        parts.lexical.replace({ghost.owner: [ghost]})
        parts.lexical.finish(cursor=1_000)
        parts.take_in(*TALK)
        assert_nothing_is_missing_or_double(parts)

    def test_a_rebuild_removes_what_is_no_more_also_after_a_restart(
        self, parts: RecallHarness
    ) -> None:
        ghost = Document(
            kind=DocumentKind.EVENT,
            id="ghost",
            owner=Owner("event:ghost"),
            at_ms=Millis(NOW),
            text="of another store",
            session="talk",
        )
        parts.take_in(*TALK)
        parts.indexes.rebuild_words(lambda _: None)
        parts.lexical.replace({ghost.owner: [ghost]})
        again = parts.reopen()
        again.take_in(make_event("and one more remark"))
        again.indexes.rebuild_words(lambda _: None)
        assert_nothing_is_missing_or_double(again)
        again.close()

    def test_a_new_index_of_vectors_is_filled_through_the_queue(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        parts.close()
        (parts.folder / "vectors").rename(parts.folder / "lost")
        again = parts.reopen()
        assert again.vectors is not None
        states = [again.vectors.is_complete]
        again.keep_up()
        states.append(again.vectors.is_complete)
        assert states == [False, True]
        assert_nothing_is_missing_or_double(again)
        again.close()

    def test_what_came_while_nothing_was_embedded_is_embedded_later(self, tmp_path: Path) -> None:
        with open_recall(tmp_path) as parts:
            parts.take_in(*TALK)
            again = parts.reopen(HashingEmbedder())
            again.keep_up()
            assert_nothing_is_missing_or_double(again)
            again.close()

    def test_on_demand_the_vectors_are_made_anew(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        embedded = len(embedder(parts).embedded)
        counts: list[int] = []
        parts.indexes.rebuild_vectors(counts.append)
        assert counts
        assert by_meaning(parts) == Counter()
        parts.indexes.embed(counts.append)
        assert counts[-1] == 0
        assert len(embedder(parts).embedded) == 2 * embedded
        assert_nothing_is_missing_or_double(parts)

    def test_while_words_are_indexed_anew_the_old_answers_stay(self, tmp_path: Path) -> None:
        with open_recall(tmp_path) as parts:
            parts.keep(*many(indexing.BATCH + 500))
            parts.keep_up()
            parts.take_in(*TALK)
            self.assert_old_answers_stay(parts)

    def assert_old_answers_stay(self, parts: RecallHarness) -> None:
        before = list_texts(parts.ask("RocksDB", mode=SearchMode.BM25))
        assert before
        during: list[tuple[list[str], str]] = []

        def look(_: int) -> None:
            during.append(
                (
                    list_texts(parts.ask("RocksDB", mode=SearchMode.BM25)),
                    parts.indexes.status().doing,
                )
            )

        count = parts.indexes.rebuild_words(look)
        assert len(during) > 1
        assert all(found == before for found, _ in during)
        assert all(doing.startswith("filling the index of words: ") for _, doing in during)
        assert count == len([e for some in parts.library.list_entries() for e in some])
        assert list_texts(parts.ask("RocksDB", mode=SearchMode.BM25)) == before

    def test_what_waited_when_a_rebuild_began_is_embedded_too(self, parts: RecallHarness) -> None:
        """Filling the index of words takes it past entries of which the other has not heard."""
        parts.take_in(*TALK)
        parts.keep(*many(5))
        parts.indexes.rebuild_words(lambda _: None)
        parts.keep_up()
        assert_nothing_is_missing_or_double(parts)

    def test_what_is_stored_during_a_rebuild_is_not_lost(self, parts: RecallHarness) -> None:
        parts.take_in(*many(10))
        late = iter(many(5, first=100))

        def store_one(_: int) -> None:
            if event := next(late, None):
                parts.keep(event)
                parts.indexing.step()

        parts.indexes.rebuild_words(store_one)
        parts.keep(*late)
        parts.keep_up()
        assert_nothing_is_missing_or_double(parts)


class TestStops:
    """A stop at any point, and going on from there."""

    def each_stop(
        self, folder: Path, work: Callable[[RecallHarness, StopAt], object], *, restart: bool
    ) -> int:
        """Stop at the first call of the check, then at the second ... until none is left."""
        for call in range(100):
            with open_recall(folder / f"{call}", HashingEmbedder()) as first:
                parts = first
                parts.take_in(*TALK[:2])
                parts.keep(*many(2 * BATCH_RECORDS))
                stop = StopAt(call)
                with suppress(Stop):
                    work(parts, stop)
                if restart:
                    parts = parts.reopen()
                parts.cut()
                parts.keep_up()
                assert_nothing_is_missing_or_double(parts)
                if restart:
                    parts.close()
                if not stop.reached:
                    return call
        raise AssertionError("it never ends")

    @pytest.mark.parametrize("restart", [False, True])
    def test_keeping_up_goes_on_where_it_stopped(self, tmp_path: Path, restart: bool) -> None:
        calls = self.each_stop(tmp_path, lambda p, stop: p.keep_up(stop), restart=restart)
        assert calls > 2

    def test_so_does_filling_the_index_of_words(self, tmp_path: Path) -> None:
        calls = self.each_stop(
            tmp_path, lambda p, stop: p.indexes.rebuild_words(stop), restart=True
        )
        assert calls >= 1

    def test_so_does_embedding_anew(self, tmp_path: Path) -> None:
        def work(parts: RecallHarness, stop: StopAt) -> None:
            parts.indexes.rebuild_vectors(stop)
            parts.indexes.embed(stop)

        assert self.each_stop(tmp_path, work, restart=True) > 3

    def test_a_lost_index_that_was_half_filled_is_filled_whole(self, tmp_path: Path) -> None:
        with open_recall(tmp_path, store=rocks) as parts:
            parts.keep(*many(indexing.BATCH + 500))
            with pytest.raises(Stop):
                parts.indexes.rebuild_words(StopAt(0))
            assert parts.lexical.stats().documents > 0
            assert parts.lexical.cursor() is None
            again = parts.reopen()
            again.indexes.rebuild_words(lambda _: None)
            assert by_words(again) == stored(again)
            again.close()
