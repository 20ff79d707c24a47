"""The records of the store as documents: what is there, what has changed, what is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.features.index.model import documents, queries
from agent_memory.features.index.model.documents import Document, Kind
from agent_memory.features.index.model.queries import Found, Hit
from agent_memory.features.log.model.outbox import Entry, EventChanged, SegmentChanged
from agent_memory.features.toc.model.segments import Segment
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from tests.recall_parts import DAY, HOUR, MINUTE, NOW, Parts, dialogue, opened, said

TALK = dialogue(
    "Which database shall we take for the event log?",
    "I decided to take RocksDB, because its writes are fast and batches are atomic.",
    "Good. And what do we do about full text search?",
    "Tantivy is the best choice for full text search: it needs no server.",
    begin=NOW - 2 * DAY,
)
BEGINNING = Position(at_ms=Millis(0), event_id=EventId(""))


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with opened(tmp_path) as made:
        yield made


def segments(parts: Parts, session: str = "talk") -> list[Segment]:
    return parts.toc.segments(SessionId(session), BEGINNING, limit=100)


def changed(parts: Parts) -> list[Entry]:
    """All that the outbox tells."""
    return [entry for _, entry in parts.outbox.read(0, limit=10_000)]


def everything(parts: Parts) -> list[Entry]:
    return [entry for some in parts.library.everything() for entry in some]


def of_kind(held: list[Document], kind: Kind) -> list[Document]:
    return [each for each in held if each.kind is kind]


def found(document: Document) -> Found:
    return queries.found(document)


class TestOwned:
    def test_an_event_owns_itself(self, parts: Parts) -> None:
        parts.keep(*TALK)
        owned = parts.library.owned(EventChanged(at=event.position) for event in TALK)
        assert list(owned) == [documents.event_owner(event.event_id) for event in TALK]
        assert list(owned.values()) == [documents.of_event(event) for event in TALK]

    def test_a_segment_owns_its_grips(self, parts: Parts) -> None:
        parts.keep(*TALK)
        parts.cut()
        (segment,) = segments(parts)
        entry = SegmentChanged(session_id=segment.session_id, first=segment.first)
        ((owner, held),) = parts.library.owned([entry]).items()
        assert owner == documents.segment_owner(segment.node_id)
        assert [each.id for each in of_kind(held, Kind.SEGMENT)] == [segment.node_id]
        (node,) = parts.toc.nodes([segment.node_id])
        assert node is not None
        assert {each.id for each in of_kind(held, Kind.GRIP)} == node.grip_ids() != set()

    def test_a_segment_belongs_where_its_events_do(self, parts: Parts) -> None:
        parts.keep(said("We decided to take RocksDB for it.", project="alpha", agent="claude"))
        parts.cut()
        (segment,) = segments(parts)
        entry = SegmentChanged(session_id=segment.session_id, first=segment.first)
        (held,) = parts.library.owned([entry]).values()
        assert {(each.project, each.agent) for each in held} == {("alpha", "claude")}

    def test_what_is_gone_owns_nothing(self, parts: Parts) -> None:
        parts.keep(*TALK)
        parts.forget(TALK[0])
        nowhere = Position(at_ms=Millis(1), event_id=EventId("nowhere"))
        owned = parts.library.owned(
            [
                EventChanged(at=TALK[0].position),
                EventChanged(at=nowhere),
                SegmentChanged(session_id=SessionId("talk"), first=nowhere),
            ]
        )
        assert len(owned) == 3
        assert set(map(len, owned.values())) == {0}

    def test_an_event_without_words_owns_nothing(self, parts: Parts) -> None:
        silent = said("", role="system")
        parts.keep(silent)
        owned = parts.library.owned([EventChanged(at=silent.position)])
        assert owned == {documents.event_owner(silent.event_id): []}

    def test_what_changed_twice_is_read_once_and_as_it_is_now(self, parts: Parts) -> None:
        parts.keep(TALK[0])
        parts.cut()
        parts.keep(*TALK[1:])
        parts.cut()
        (segment,) = segments(parts)
        told = [each for each in changed(parts) if isinstance(each, SegmentChanged)]
        assert len(told) > 1
        (held,) = parts.library.owned(told).values()
        (node,) = parts.toc.nodes([segment.node_id])
        assert node is not None
        (shown,) = of_kind(held, Kind.SEGMENT)
        assert shown.text == documents.of_segment(node, "talk").text

    def test_a_segment_that_begins_earlier_now_is_gone_under_its_old_name(
        self, parts: Parts
    ) -> None:
        parts.keep(*TALK)
        parts.cut()
        (before,) = segments(parts)
        parts.keep(said("One thing first: hello.", TALK[0].at_ms - MINUTE))
        parts.cut()
        (now,) = segments(parts)
        owned = parts.library.owned(changed(parts))
        assert owned[documents.segment_owner(before.node_id)] == []
        assert owned[documents.segment_owner(now.node_id)]


class TestEverything:
    def test_there_is_an_entry_for_each_event_and_segment(self, parts: Parts) -> None:
        other = dialogue("Another talk.", "Of other things.", session="other: 2")
        parts.keep(*TALK, *other, said("", NOW, session="silent", role="system"))
        parts.cut()
        told = everything(parts)
        assert len(told) == len(set(told))
        assert set(told) == set(changed(parts))

    def test_of_nothing_there_is_nothing(self, parts: Parts) -> None:
        assert everything(parts) == []

    def test_what_is_gone_is_left_out(self, parts: Parts) -> None:
        parts.keep(*TALK)
        parts.forget(TALK[1])
        assert EventChanged(at=TALK[1].position) not in everything(parts)


class TestRead:
    def test_all_that_was_found_is_read(self, parts: Parts) -> None:
        parts.keep(*TALK)
        parts.cut()
        owned = parts.library.owned(everything(parts))
        known = [each for held in owned.values() for each in held]
        read = parts.library.read([found(each) for each in known])
        assert read.keys() == {each.key for each in known}
        for each in known:
            assert (read[each.key].text, read[each.key].title) == (each.text, each.title)
            assert read[each.key].session == "talk"

    def test_what_is_gone_is_left_out(self, parts: Parts) -> None:
        parts.keep(*TALK)
        parts.cut()
        owned = parts.library.owned(everything(parts))
        known = [found(each) for held in owned.values() for each in held]
        parts.forget(TALK[0])
        parts.keep(said("One thing first: hello.", TALK[0].at_ms - MINUTE))
        parts.cut()
        read = parts.library.read(known)
        (segment,) = segments(parts)
        assert f"event:{TALK[0].event_id}" not in read
        assert {each.key for each in known if each.kind is Kind.SEGMENT}.isdisjoint(read)
        assert all(
            (parts.toc.grips([each.id])[0] or pytest.fail(each.id)).node_id == segment.node_id
            for each in read.values()
            if each.kind is Kind.GRIP
        )

    def test_of_nothing_there_is_nothing(self, parts: Parts) -> None:
        assert parts.library.read([]) == {}


class TestPlaced:
    def hit(self, document: Document) -> Hit:
        return Hit(document=document, score=0.5, parts={})

    def documents(self, parts: Parts, kind: Kind) -> list[Document]:
        owned = parts.library.owned(everything(parts))
        held = [each for some in owned.values() for each in some]
        return list(parts.library.read([found(each) for each in of_kind(held, kind)]).values())

    def test_an_event_stands_in_its_segment(self, parts: Parts) -> None:
        parts.keep(*TALK, *dialogue("Later.", "Much later.", begin=TALK[0].at_ms + 5 * HOUR))
        parts.cut()
        first, second = segments(parts)
        nodes = {
            hit.event_id: hit.node_id
            for hit in map(parts.library.placed, map(self.hit, self.documents(parts, Kind.EVENT)))
        }
        assert [nodes[event.event_id] for event in TALK] == [first.node_id] * len(TALK)
        assert [*nodes.values()].count(second.node_id) == 2

    def test_an_event_that_is_in_no_segment_yet_stands_for_itself(self, parts: Parts) -> None:
        parts.keep(*TALK)
        parts.cut()
        parts.keep(said("Just now.", NOW))
        (document,) = documents.of_event(said("Just now.", NOW))
        placed = parts.library.placed(self.hit(document))
        assert (placed.event_id, placed.node_id) == (document.id, "")

    def test_a_segment_stands_from_its_first_event_to_its_last(self, parts: Parts) -> None:
        parts.keep(*TALK)
        parts.cut()
        (document,) = self.documents(parts, Kind.SEGMENT)
        placed = parts.library.placed(self.hit(document))
        assert (placed.event_id, placed.last_event_id) == (TALK[0].event_id, TALK[-1].event_id)
        assert placed.node_id == document.id

    def test_a_grip_stands_at_the_event_that_says_it(self, parts: Parts) -> None:
        parts.keep(*TALK)
        parts.cut()
        said_by = {event.event_id: event.text for event in TALK}
        grips = self.documents(parts, Kind.GRIP)
        assert grips
        for document in grips:
            placed = parts.library.placed(self.hit(document))
            assert placed.grip_id == document.id
            assert document.text in said_by[EventId(placed.event_id)]
            assert placed.node_id == segments(parts)[0].node_id

    def test_what_went_meanwhile_stays_as_it_was_found(self, parts: Parts) -> None:
        parts.keep(*TALK)
        parts.cut()
        nodes = self.documents(parts, Kind.SEGMENT)
        parts.keep(said("One thing first: hello.", TALK[0].at_ms - MINUTE))
        parts.cut()
        for document in nodes:
            hit = self.hit(document)
            assert parts.library.placed(hit) == hit

    def test_where_a_document_belongs_is_what_it_is_filtered_by(self, parts: Parts) -> None:
        """A session may go on in another project."""
        parts.keep(
            said("We decided to take RocksDB for alpha.", TALK[0].at_ms, project="alpha"),
            said("We decided to take Tantivy for beta.", TALK[1].at_ms, project="beta"),
        )
        parts.cut()
        owned = parts.library.owned(everything(parts))
        for filtered in (each for held in owned.values() for each in held):
            (read,) = parts.library.read([found(filtered)]).values()
            assert parts.library.placed(self.hit(read)).document.project == filtered.project
