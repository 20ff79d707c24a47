"""What is newer than the index of words: found at once, and let go when the index has it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.features.index.model import documents, term_vectors
from agent_memory.features.index.model.documents import Document, DocumentKey, DocumentKind
from agent_memory.features.index.model.queries import IndexHit, SearchScope
from agent_memory.features.recall.services import unindexed
from agent_memory.kernel.text import analysis
from tests.recall_parts import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    RecallHarness,
    make_dialogue,
    make_event,
    open_recall,
)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[RecallHarness]:
    with open_recall(tmp_path) as created:
        yield created


def names(found: list[IndexHit]) -> list[str]:
    return [each.key for each in found]


def find(
    parts: RecallHarness, *needles: str, scope: SearchScope | None = None, limit: int = 10
) -> list[str]:
    return names(parts.tail.find(needles, scope or SearchScope(), limit=limit)[0])


def held(parts: RecallHarness, scope: SearchScope | None = None) -> list[str]:
    return sorted(names(parts.tail.all(scope or SearchScope())[0]))


class TestFreshness:
    def test_of_an_empty_store_there_is_nothing(self, parts: RecallHarness) -> None:
        assert parts.tail.all(SearchScope()) == ([], 0)
        assert parts.tail.find(["lantern"], SearchScope(), limit=10) == ([], 0)
        assert parts.tail.statistics(["lantern"], SearchScope()).documents == 0

    def test_what_was_stored_is_found_at_once(self, parts: RecallHarness) -> None:
        parts.keep(make_event("The lantern.", name="a"))
        assert find(parts, "lantern") == ["event:a"]
        parts.keep(make_event("A second lantern.", name="b"))
        assert sorted(find(parts, "lantern")) == ["event:a", "event:b"]

    def test_a_segment_and_its_grips_are_found_at_once(self, parts: RecallHarness) -> None:
        parts.keep(*make_dialogue("Which store?", "I decided to take RocksDB for the event log."))
        parts.cut()
        kinds = {each.kind for each in parts.tail.all(SearchScope())[0]}
        assert kinds == {DocumentKind.EVENT, DocumentKind.SEGMENT, DocumentKind.GRIP}

    def test_when_the_index_has_it_it_is_let_go(self, parts: RecallHarness) -> None:
        parts.keep(make_event("The lantern.", name="a"))
        assert held(parts) == ["event:a"]
        parts.keep_up()
        assert parts.tail.all(SearchScope()) == ([], 0)
        parts.keep(make_event("Another lantern.", name="b"))
        assert held(parts) == ["event:b"]

    def test_a_grown_segment_is_held_as_it_is_now(self, parts: RecallHarness) -> None:
        lines = ["Which store?", "I decided to take RocksDB.", "I decided to add Tantivy too."]
        first, *rest = make_dialogue(*lines)
        parts.take_in(first)
        parts.keep(*rest)
        parts.cut()
        segments = [e for e in parts.tail.all(SearchScope())[0] if e.kind is DocumentKind.SEGMENT]
        assert len(segments) == 1
        assert find(parts, "tantivy", scope=SearchScope(kinds=frozenset({DocumentKind.SEGMENT})))

    def test_what_was_removed_is_not_found(self, parts: RecallHarness) -> None:
        lantern = make_event("The lantern.", name="a")
        parts.keep(lantern)
        assert find(parts, "lantern") == ["event:a"]
        parts.forget(lantern)
        assert find(parts, "lantern") == []
        assert held(parts) == []

    def test_a_segment_that_is_no_more_is_not_found(self, parts: RecallHarness) -> None:
        begin = NOW - DAY
        parts.keep(*make_dialogue("Which store?", "I decided to take RocksDB.", begin=begin))
        parts.cut()
        before = set(held(parts, SearchScope(kinds=frozenset({DocumentKind.SEGMENT}))))
        parts.keep(make_event("One thing first.", begin - MINUTE))
        parts.cut()
        after = set(held(parts, SearchScope(kinds=frozenset({DocumentKind.SEGMENT}))))
        assert len(after) == 1
        assert after.isdisjoint(before)


class TestFinding:
    def test_more_of_the_needles_comes_first_then_the_newer(self, parts: RecallHarness) -> None:
        parts.keep(
            make_event("lantern", NOW - 3, name="one-old"),
            make_event("lantern", NOW - 1, name="one-new"),
            make_event("attic lantern", NOW - 2, name="both"),
            make_event("neither", NOW, name="none"),
        )
        wanted = ["event:both", "event:one-new", "event:one-old"]
        assert find(parts, "lantern", "attic") == wanted
        assert find(parts, "lantern", "attic", limit=2) == wanted[:2]

    def test_only_what_is_in_scope_is_found(self, parts: RecallHarness) -> None:
        parts.keep(
            make_event("lantern", NOW - 1, name="a", project="alpha"),
            make_event("lantern", NOW, name="b", project="beta"),
        )
        assert find(parts, "lantern", scope=SearchScope(project="alpha")) == ["event:a"]
        assert held(parts, SearchScope(project="beta")) == ["event:b"]
        assert held(parts, SearchScope(project="gamma")) == []

    def test_file_tool_project_and_date_are_searched_too(self, parts: RecallHarness) -> None:
        parts.keep(
            make_event(
                "ok", NOW, role="tool", tool_name="Bash", file_path="src/outbox.py", project="alpha"
            )
        )
        for needle in ("bash", "outbox", "alpha", "june"):
            assert len(find(parts, needle)) == 1


class TestStatistics:
    def test_words_and_speakers_are_counted_as_the_index_would(self, parts: RecallHarness) -> None:
        parts.keep(
            make_event("one lantern, two lanterns", NOW - 2, speaker="Ada"),
            make_event("parseLantern in the attic", NOW - 1, speaker="Ben"),
            make_event("nothing", NOW, role="assistant"),
        )
        terms = analysis.extract_terms("lantern attic cellar ada ben cid")
        before = parts.tail.statistics(terms, SearchScope())
        parts.keep_up()
        after = parts.lexical.get_statistics(terms)
        assert before.documents == after.documents == 3
        assert before.frequencies == after.frequencies
        assert before.speakers == after.speakers

    def test_of_a_long_text_the_beginning_is_counted_and_all_of_it_found(
        self, parts: RecallHarness
    ) -> None:
        parts.keep(make_event("attic " * 10_000 + "lantern", name="a"))
        counted = parts.tail.statistics(["attic", "lantern"], SearchScope())
        assert counted.frequencies == {"attic": 1, "lantern": 0}
        assert find(parts, "lantern") == ["event:a"]


class TestTooMany:
    def test_the_newest_are_held_and_the_rest_is_told(self, parts: RecallHarness) -> None:
        count = unindexed.MOST + 50
        parts.keep_up()
        parts.keep(*(make_event("lantern", n, name=f"{n:05}") for n in range(count)))
        found, missing = parts.tail.all(SearchScope())
        assert len(found) + missing == count
        assert missing == 50
        assert f"event:{count - 1:05}" in names(found)
        parts.keep_up()
        assert parts.tail.all(SearchScope()) == ([], 0)

    def test_it_does_not_grow_beyond_the_most(self, parts: RecallHarness) -> None:
        parts.keep_up()
        for start in range(0, unindexed.MOST + 1_000, 500):
            parts.keep(
                *(make_event("lantern", start + n, name=f"{start + n:05}") for n in range(500))
            )
            found, missing = parts.tail.all(SearchScope())
            assert len(found) <= unindexed.MOST
            assert missing == max(0, start + 500 - unindexed.MOST)

    def test_what_neither_index_nor_outbox_has_is_missing(self, parts: RecallHarness) -> None:
        """As when the index was lost: the outbox goes no further back than it needed to."""
        parts.take_in(*(make_event("lantern", n, name=f"{n}") for n in range(20)))
        parts.outbox.trim(parts.log.watermark())
        parts.close()
        (parts.folder / "lexical").rename(parts.folder / "lost")
        again = parts.reopen()
        found, missing = again.tail.all(SearchScope())
        assert found == []
        assert missing > 0
        again.keep_up()
        assert again.tail.all(SearchScope()) == ([], 0)
        again.close()


class TestTermVectors:
    def test_a_document_is_read_once(self, parts: RecallHarness) -> None:
        parts.keep(make_event("The lantern on the pier.", name="a"))
        (key,) = (hit.key for hit in parts.tail.all(SearchScope())[0])
        (lantern,) = documents.from_event(make_event("The lantern on the pier.", name="a"))
        built = parts.tail.get_vectors([key], lambda _: {key: lantern})
        assert built[key].hashes.tolist() == term_vectors.build(lantern).hashes.tolist()
        assert parts.tail.get_vectors([key], fail_to_read)[key] is built[key]

    def test_of_one_that_is_forgotten_nothing_is_known(self, parts: RecallHarness) -> None:
        event = make_event("The lantern on the pier.", name="a")
        parts.keep(event)
        (key,) = (hit.key for hit in parts.tail.all(SearchScope())[0])
        (lantern,) = documents.from_event(event)
        assert parts.tail.get_vectors([key], lambda _: {key: lantern})
        parts.forget(event)
        assert parts.tail.all(SearchScope())[0] == []
        assert parts.tail.get_vectors([key], lambda _: {}) == {}

    def test_a_changed_text_gets_another(self, parts: RecallHarness) -> None:
        parts.keep(*make_dialogue("Which lantern?", "I decided to hang it on the pier."))
        parts.cut()
        found, _ = parts.tail.all(SearchScope(kinds=frozenset({DocumentKind.SEGMENT})))
        (segment,) = found
        before = parts.tail.get_vectors([segment.key], lambda _: parts.library.read([segment]))
        lines = ("And the buoy?", "I decided to chain it to the wall.")
        parts.keep(*make_dialogue(*lines, begin=NOW - HOUR + 2 * MINUTE))
        parts.cut()
        assert segment.key in names(parts.tail.all(SearchScope())[0])
        after = parts.tail.get_vectors([segment.key], lambda _: parts.library.read([segment]))
        assert after[segment.key].hashes.tolist() != before[segment.key].hashes.tolist()

    def test_one_that_is_not_held_is_read_each_time(self, parts: RecallHarness) -> None:
        (lantern,) = documents.from_event(make_event("The lantern on the pier.", name="a"))
        reads: list[object] = []

        def read(keys: object) -> dict[DocumentKey, Document]:
            reads.append(keys)
            return {lantern.key: lantern}

        for _ in range(2):
            assert parts.tail.get_vectors([lantern.key], read).keys() == {lantern.key}
        assert reads == [[lantern.key], [lantern.key]]

    def test_the_vector_of_a_long_text_is_not_kept(self, parts: RecallHarness) -> None:
        event = make_event("lantern " * 2_000, name="a")
        parts.keep(event)
        (key,) = (hit.key for hit in parts.tail.all(SearchScope())[0])
        (lantern,) = documents.from_event(event)
        first = parts.tail.get_vectors([key], lambda _: {key: lantern})
        assert parts.tail.get_vectors([key], lambda _: {key: lantern})[key] is not first[key]


def fail_to_read(_: object) -> dict[DocumentKey, Document]:
    raise AssertionError("it is known")
