"""The outbox entries of changed events and segments, over every store."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.adapters.outbox_entries import decode_entry, encode_entry
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.outbox import EventChanged, OutboxEntry, SegmentChanged
from agent_memory.features.log.ports import Outbox
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.toc import NodeWrite, TocChange, TocNode
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Batch
from tests.contract.stores import TIMEOUT, commit

letters = st.sampled_from(":%|3A25a0") | st.characters(exclude_categories=("C", "Z"))
positions = st.builds(
    Position,
    at_ms=st.integers(0, MAX_MILLIS).map(Millis),
    event_id=st.text(letters, min_size=1, max_size=20).map(EventId),
)
sessions = st.text(letters, min_size=1, max_size=20).map(SessionId)
entries: st.SearchStrategy[OutboxEntry] = st.builds(EventChanged, at=positions) | st.builds(
    SegmentChanged, session_id=sessions, first=positions
)


@pytest.fixture
def toc(store: OrderedStore) -> StoredToc:
    return StoredToc(store)


@pytest.fixture
def outbox(store: OrderedStore) -> Outbox:
    return StoredOutbox(store)


def told(outbox: Outbox, after: int = 0) -> list[OutboxEntry]:
    return [entry for _, entry in outbox.read(after, limit=999)]


@given(entries)
def test_an_entry_of_either_kind_comes_back_as_it_was(entry: OutboxEntry) -> None:
    assert decode_entry(codec.decode_key(encode_entry(entry))) == entry


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # numbers only grow
)
@given(st.lists(entries, max_size=8))
def test_entries_are_read_in_the_order_they_were_appended(
    store: OrderedStore, written: list[OutboxEntry]
) -> None:
    before = store.get_sequence(families.OUTBOX, keys.OUTBOX_PREFIX)
    made = tuple(Append(families.OUTBOX, keys.OUTBOX_PREFIX, encode_entry(e)) for e in written)
    commit(store, Batch(made))
    assert StoredOutbox(store).read(before, limit=999) == list(enumerate(written, before + 1))


def segment(name: str, at_ms: int = 1_769_783_400_000, session: str = "s:%") -> Segment:
    return Segment(
        session_id=SessionId(session),
        first=Position(at_ms=Millis(at_ms), event_id=EventId(name)),
        last=Position(at_ms=Millis(at_ms + 9), event_id=EventId(f"{name}:last")),
        tokens=12,
        count=3,
        ended=False,
    )


def written(node_id: NodeId, *, kept: bool = False, level: Level = Level.SEGMENT) -> NodeWrite:
    node = TocNode(
        node_id=node_id,
        level=level,
        title="Title",
        summary="Said.",
        bullets=(),
        keywords=(),
        child_ids=(),
        start_ms=Millis(1),
        end_ms=Millis(2),
        version=1,
        created_ms=Millis(3),
    )
    return NodeWrite(node=node, kept=kept)


def changed(segment: Segment) -> SegmentChanged:
    return SegmentChanged(session_id=segment.session_id, first=segment.first)


class TestSegments:
    @pytest.mark.parametrize("kept", [True, False])
    def test_a_summarized_segment_is_announced(
        self, toc: StoredToc, outbox: Outbox, kept: bool
    ) -> None:
        given = segment("a")
        change = TocChange(segments=(given,), nodes=(written(given.node_id, kept=kept),))
        toc.commit(change)
        assert told(outbox) == [changed(given)]
        toc.commit(change)
        assert told(outbox) == [changed(given)] * 2

    def test_an_unchanged_summary_is_not_announced_again(
        self, toc: StoredToc, outbox: Outbox
    ) -> None:
        given = segment("a")
        toc.commit(TocChange(segments=(given,), nodes=(written(given.node_id),)))
        grown = replace(
            given, count=4, last=Position(at_ms=given.last.at_ms, event_id=EventId("z"))
        )
        toc.commit(TocChange(segments=(grown,), sealed=frozenset({grown})))
        assert told(outbox) == [changed(given)]

    def test_a_lost_segment_is_announced_with_its_replacements(
        self, toc: StoredToc, outbox: Outbox
    ) -> None:
        lost, first, second = segment("b"), segment("a"), segment("c", 1_769_783_400_007)
        toc.commit(TocChange(segments=(lost,), nodes=(written(lost.node_id),)))
        toc.commit(
            TocChange(
                segments=(first, second),
                lost_segments=(lost,),
                nodes=(
                    *(written(each.node_id) for each in (first, second)),
                    written(lost.node_id, kept=True),  # the node is gone, its history stays
                ),
                gone=(lost.node_id,),
            )
        )
        assert set(told(outbox, 1)) == {changed(first), changed(second), changed(lost)}
        assert len(told(outbox, 1)) == 3

    def test_periods_are_not_announced(self, toc: StoredToc, outbox: Outbox) -> None:
        toc.commit(TocChange(nodes=(written(NodeId("toc:day:2026-01-30"), level=Level.DAY),)))
        toc.commit(TocChange(dirty=frozenset({NodeId("toc:day:2026-01-30")}), cursor=4))
        assert told(outbox) == []

    def test_events_and_segments_share_one_order(
        self, toc: StoredToc, outbox: Outbox, store: OrderedStore
    ) -> None:
        log, given = StoredEventLog(store), segment("a")
        events = [
            Event(
                event_id=EventId(name),
                session_id=SessionId("s:%"),
                at_ms=Millis(5),
                type=EventType.USER_MESSAGE,
                role=EventRole.USER,
            )
            for name in "xy"
        ]
        log.append(events[:1]).result(TIMEOUT)
        toc.commit(TocChange(segments=(given,), nodes=(written(given.node_id),)))
        log.append(events[1:]).result(TIMEOUT)
        expected = [EventChanged(at=events[0].position), changed(given)]
        assert outbox.read(0, limit=9) == list(
            enumerate([*expected, EventChanged(at=events[1].position)], 1)
        )
        assert log.watermark() == 3
