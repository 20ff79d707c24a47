"""The records of the store as documents: what is there, what has changed, what is gone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_memory.features.index.model import documents, queries
from agent_memory.features.index.model.documents import Document, DocumentKind
from agent_memory.features.index.model.queries import Hit, IndexHit
from agent_memory.features.log.model.outbox import EventChanged, OutboxEntry, SegmentChanged
from agent_memory.features.toc.model.segments import Segment
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
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

TALK = make_dialogue(
    "Which database shall we take for the event log?",
    "I decided to take RocksDB, because its writes are fast and batches are atomic.",
    "Good. And what do we do about full text search?",
    "Tantivy is the best choice for full text search: it needs no server.",
    begin=NOW - 2 * DAY,
)
BEGINNING = Position(at_ms=Millis(0), event_id=EventId(""))


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[RecallHarness]:
    with open_recall(tmp_path) as created:
        yield created


def segments(parts: RecallHarness, session: str = "talk") -> list[Segment]:
    return parts.toc.list_segments(SessionId(session), BEGINNING, limit=100)


def changed(parts: RecallHarness) -> list[OutboxEntry]:
    """All that the outbox tells."""
    return [entry for _, entry in parts.outbox.read(0, limit=10_000)]


def everything(parts: RecallHarness) -> list[OutboxEntry]:
    return [entry for some in parts.library.list_entries() for entry in some]


def of_kind(held: list[Document], kind: DocumentKind) -> list[Document]:
    return [each for each in held if each.kind is kind]


def found(document: Document) -> IndexHit:
    return queries.to_index_hit(document)


class TestOwned:
    def test_an_event_owns_itself(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        owned = parts.library.read_owned(EventChanged(at=event.position) for event in TALK)
        assert list(owned) == [documents.event_owner(event.event_id) for event in TALK]
        assert list(owned.values()) == [documents.from_event(event) for event in TALK]

    def test_a_segment_owns_its_grips(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        parts.cut()
        (segment,) = segments(parts)
        entry = SegmentChanged(session_id=segment.session_id, first=segment.first)
        ((owner, held),) = parts.library.read_owned([entry]).items()
        assert owner == documents.segment_owner(segment.node_id)
        assert [each.id for each in of_kind(held, DocumentKind.SEGMENT)] == [segment.node_id]
        (node,) = parts.toc.get_nodes([segment.node_id])
        assert node is not None
        assert {each.id for each in of_kind(held, DocumentKind.GRIP)} == node.grip_ids() != set()

    def test_a_segment_belongs_where_its_events_do(self, parts: RecallHarness) -> None:
        parts.keep(
            make_event("We decided to take RocksDB for it.", project="alpha", agent="claude")
        )
        parts.cut()
        (segment,) = segments(parts)
        entry = SegmentChanged(session_id=segment.session_id, first=segment.first)
        (held,) = parts.library.read_owned([entry]).values()
        assert {(each.project, each.agent) for each in held} == {("alpha", "claude")}

    def test_what_is_gone_owns_nothing(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        parts.forget(TALK[0])
        nowhere = Position(at_ms=Millis(1), event_id=EventId("nowhere"))
        owned = parts.library.read_owned(
            [
                EventChanged(at=TALK[0].position),
                EventChanged(at=nowhere),
                SegmentChanged(session_id=SessionId("talk"), first=nowhere),
            ]
        )
        assert len(owned) == 3
        assert set(map(len, owned.values())) == {0}

    def test_an_event_without_words_owns_nothing(self, parts: RecallHarness) -> None:
        silent = make_event("", role="system")
        parts.keep(silent)
        owned = parts.library.read_owned([EventChanged(at=silent.position)])
        assert owned == {documents.event_owner(silent.event_id): []}

    def test_what_changed_twice_is_read_once_and_as_it_is_now(self, parts: RecallHarness) -> None:
        parts.keep(TALK[0])
        parts.cut()
        parts.keep(*TALK[1:])
        parts.cut()
        (segment,) = segments(parts)
        told = [each for each in changed(parts) if isinstance(each, SegmentChanged)]
        assert len(told) > 1
        (held,) = parts.library.read_owned(told).values()
        (node,) = parts.toc.get_nodes([segment.node_id])
        assert node is not None
        (shown,) = of_kind(held, DocumentKind.SEGMENT)
        assert shown.text == documents.from_segment(node, "talk").text

    def test_a_segment_that_begins_earlier_now_is_gone_under_its_old_name(
        self, parts: RecallHarness
    ) -> None:
        parts.keep(*TALK)
        parts.cut()
        (before,) = segments(parts)
        parts.keep(make_event("One thing first: hello.", TALK[0].at_ms - MINUTE))
        parts.cut()
        (now,) = segments(parts)
        owned = parts.library.read_owned(changed(parts))
        assert owned[documents.segment_owner(before.node_id)] == []
        assert owned[documents.segment_owner(now.node_id)]


class TestEverything:
    def test_there_is_an_entry_for_each_event_and_segment(self, parts: RecallHarness) -> None:
        other = make_dialogue("Another talk.", "Of other things.", session="other: 2")
        parts.keep(*TALK, *other, make_event("", NOW, session="silent", role="system"))
        parts.cut()
        told = everything(parts)
        assert len(told) == len(set(told))
        assert set(told) == set(changed(parts))

    def test_of_nothing_there_is_nothing(self, parts: RecallHarness) -> None:
        assert everything(parts) == []

    def test_what_is_gone_is_left_out(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        parts.forget(TALK[1])
        assert EventChanged(at=TALK[1].position) not in everything(parts)


class TestRead:
    def test_all_that_was_found_is_read(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        parts.cut()
        owned = parts.library.read_owned(everything(parts))
        known = [each for held in owned.values() for each in held]
        read = parts.library.read([found(each) for each in known])
        assert read.keys() == {each.key for each in known}
        for each in known:
            assert (read[each.key].text, read[each.key].title) == (each.text, each.title)
            assert read[each.key].session == "talk"

    def test_what_is_gone_is_left_out(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        parts.cut()
        owned = parts.library.read_owned(everything(parts))
        known = [found(each) for held in owned.values() for each in held]
        parts.forget(TALK[0])
        parts.keep(make_event("One thing first: hello.", TALK[0].at_ms - MINUTE))
        parts.cut()
        read = parts.library.read(known)
        (segment,) = segments(parts)
        assert f"event:{TALK[0].event_id}" not in read
        assert {each.key for each in known if each.kind is DocumentKind.SEGMENT}.isdisjoint(read)
        assert all(
            (parts.toc.get_grips([each.id])[0] or pytest.fail(each.id)).node_id == segment.node_id
            for each in read.values()
            if each.kind is DocumentKind.GRIP
        )

    def test_of_nothing_there_is_nothing(self, parts: RecallHarness) -> None:
        assert parts.library.read([]) == {}


class TestPlaced:
    def hit(self, document: Document) -> Hit:
        return Hit(document=document, score=0.5, parts={})

    def documents(self, parts: RecallHarness, kind: DocumentKind) -> list[Document]:
        owned = parts.library.read_owned(everything(parts))
        held = [each for some in owned.values() for each in some]
        return list(parts.library.read([found(each) for each in of_kind(held, kind)]).values())

    def test_an_event_stands_in_its_segment(self, parts: RecallHarness) -> None:
        parts.keep(*TALK, *make_dialogue("Later.", "Much later.", begin=TALK[0].at_ms + 5 * HOUR))
        parts.cut()
        first, second = segments(parts)
        nodes = {
            hit.event_id: hit.node_id
            for hit in map(
                parts.library.locate_hit, map(self.hit, self.documents(parts, DocumentKind.EVENT))
            )
        }
        assert [nodes[event.event_id] for event in TALK] == [first.node_id] * len(TALK)
        assert [*nodes.values()].count(second.node_id) == 2

    def test_an_event_that_is_in_no_segment_yet_stands_for_itself(
        self, parts: RecallHarness
    ) -> None:
        parts.keep(*TALK)
        parts.cut()
        parts.keep(make_event("Just now.", NOW))
        (document,) = documents.from_event(make_event("Just now.", NOW))
        placed = parts.library.locate_hit(self.hit(document))
        assert (placed.event_id, placed.node_id) == (document.id, "")

    def test_a_segment_stands_from_its_first_event_to_its_last(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        parts.cut()
        (document,) = self.documents(parts, DocumentKind.SEGMENT)
        placed = parts.library.locate_hit(self.hit(document))
        assert (placed.event_id, placed.last_event_id) == (TALK[0].event_id, TALK[-1].event_id)
        assert placed.node_id == document.id

    def test_a_grip_stands_at_the_event_that_says_it(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        parts.cut()
        said_by = {event.event_id: event.text for event in TALK}
        grips = self.documents(parts, DocumentKind.GRIP)
        assert grips
        for document in grips:
            placed = parts.library.locate_hit(self.hit(document))
            assert placed.grip_id == document.id
            assert document.text in said_by[EventId(placed.event_id)]
            assert placed.node_id == segments(parts)[0].node_id

    def test_what_went_meanwhile_stays_as_it_was_found(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        parts.cut()
        nodes = self.documents(parts, DocumentKind.SEGMENT)
        parts.keep(make_event("One thing first: hello.", TALK[0].at_ms - MINUTE))
        parts.cut()
        for document in nodes:
            hit = self.hit(document)
            uri = documents.build_uri(document)
            assert parts.library.locate_hit(hit) == replace(hit, uri=uri)

    def test_where_a_document_belongs_is_what_it_is_filtered_by(self, parts: RecallHarness) -> None:
        """A session may go on in another project."""
        parts.keep(
            make_event("We decided to take RocksDB for alpha.", TALK[0].at_ms, project="alpha"),
            make_event("We decided to take Tantivy for beta.", TALK[1].at_ms, project="beta"),
        )
        parts.cut()
        owned = parts.library.read_owned(everything(parts))
        for filtered in (each for held in owned.values() for each in held):
            (read,) = parts.library.read([found(filtered)]).values()
            assert parts.library.locate_hit(self.hit(read)).document.project == filtered.project
