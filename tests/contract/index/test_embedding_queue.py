"""The EmbeddingQueue port, over every store."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_memory.features.index.adapters.embedding_queue import StoredEmbeddingQueue
from agent_memory.features.index.model.embeddings import Priority
from agent_memory.features.index.ports import EmbeddingQueue
from agent_memory.features.log.adapters.outbox_entries import encode_entry
from agent_memory.features.log.model.outbox import EventChanged, OutboxEntry, SegmentChanged
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.batches import Append, Batch
from tests.contract.stores import OpenStore, commit


@pytest.fixture
def queue(store: OrderedStore) -> EmbeddingQueue:
    return StoredEmbeddingQueue(store)


def entry(name: str, at_ms: int = 5) -> EventChanged:
    return EventChanged(at=Position(at_ms=Millis(at_ms), event_id=EventId(name)))


def segment(name: str, session: str = "s:1 %") -> SegmentChanged:
    first = Position(at_ms=Millis(7), event_id=EventId(name))
    return SegmentChanged(session_id=SessionId(session), first=first)


def add(
    queue: EmbeddingQueue, *names: str, live: bool, priority: Priority = Priority.PROMPTS
) -> None:
    queue.add({entry(name): priority for name in names}, live=live)


def waiting(queue: EmbeddingQueue, limit: int = 100, *, live: bool | None = None) -> list[str]:
    found = [each.entry for each in queue.list_pending(limit=limit, live=live)]
    return [each.at.event_id for each in found if isinstance(each, EventChanged)]


class TestOrder:
    def test_it_is_empty_at_first(self, queue: EmbeddingQueue) -> None:
        assert queue.list_pending(limit=9) == []
        assert queue.size() == 0

    def test_the_newest_come_first(self, queue: EmbeddingQueue) -> None:
        add(queue, "a", "b", live=False)
        add(queue, "c", live=False)
        assert waiting(queue) == ["c", "b", "a"]

    def test_live_entries_come_first(self, queue: EmbeddingQueue) -> None:
        add(queue, "live-1", live=True)
        add(queue, "past-1", "past-2", live=False)
        add(queue, "live-2", live=True)
        assert waiting(queue) == ["live-2", "live-1", "past-2", "past-1"]

    def test_no_more_than_asked_over_both_lanes(self, queue: EmbeddingQueue) -> None:
        add(queue, *"abc", live=True)
        add(queue, *"xyz", live=False)
        assert waiting(queue, 2) == ["c", "b"]
        assert waiting(queue, 3) == ["c", "b", "a"]
        assert waiting(queue, 4) == ["c", "b", "a", "z"]

    def test_one_lane_alone_can_be_asked_for(self, queue: EmbeddingQueue) -> None:
        add(queue, *"abc", live=True)
        add(queue, *"xyz", live=False)
        assert waiting(queue, live=True) == ["c", "b", "a"]
        assert waiting(queue, live=False) == ["z", "y", "x"]
        assert waiting(queue, 1, live=False) == ["z"]

    def test_more_than_nine_entries_stay_in_order(self, queue: EmbeddingQueue) -> None:
        for number in range(120):
            add(queue, f"{number}", live=number % 2 == 0)
        even, odd = range(118, -1, -2), range(119, 0, -2)
        assert waiting(queue, 999) == [f"{number}" for number in (*even, *odd)]

    def test_entries_of_both_kinds_come_back_as_they_were(self, queue: EmbeddingQueue) -> None:
        given: list[OutboxEntry] = [entry("ü:1"), segment("ü:1"), segment("b", session="ses:%3A:")]
        queue.add(dict.fromkeys(given, Priority.PROMPTS), live=True)
        assert [each.entry for each in queue.list_pending(limit=9)] == given[::-1]

    def test_adding_no_entries_changes_nothing(self, queue: EmbeddingQueue) -> None:
        queue.add({}, live=True)
        assert queue.size() == 0


class TestDone:
    def test_they_stay_until_they_are_done(self, queue: EmbeddingQueue) -> None:
        add(queue, *"abc", live=False)
        first = queue.list_pending(limit=2)
        assert queue.list_pending(limit=2) == first
        queue.mark_done([each.ticket for each in first])
        assert waiting(queue) == ["a"]
        assert queue.size() == 1

    def test_entries_that_arrive_meanwhile_stay(self, queue: EmbeddingQueue) -> None:
        add(queue, "a", live=True)
        first = queue.list_pending(limit=9)
        add(queue, "a", live=True)
        queue.mark_done([each.ticket for each in first])
        assert waiting(queue) == ["a"]

    def test_what_two_have_done_is_counted_once(self, queue: EmbeddingQueue) -> None:
        add(queue, "a", "b", live=False)
        assert queue.size() == 2
        tickets = [each.ticket for each in queue.list_pending(limit=1)]
        for _ in range(2):
            queue.mark_done(tickets)
        assert queue.size() == 1

    def test_marking_no_entries_changes_nothing(self, queue: EmbeddingQueue) -> None:
        add(queue, "a", live=True)
        queue.mark_done([])
        assert waiting(queue) == ["a"]

    def test_clearing_removes_all_entries_and_new_ones_can_follow(
        self, queue: EmbeddingQueue
    ) -> None:
        add(queue, *"ab", live=True)
        add(queue, *"xy", live=False)
        queue.clear()
        assert waiting(queue) == []
        assert queue.size() == 0
        add(queue, "c", live=False)
        assert (waiting(queue), queue.size()) == (["c"], 1)


class TestRestart:
    def test_size_order_and_lanes_are_the_same(
        self, open_durable: OpenStore, tmp_path: Path
    ) -> None:
        first = open_durable(tmp_path)
        queue = StoredEmbeddingQueue(first)
        add(queue, *"abc", live=False)
        add(queue, "live", live=True)
        queue.mark_done([queue.list_pending(limit=2)[-1].ticket])
        before = queue.list_pending(limit=9)
        first.close()
        second = open_durable(tmp_path)
        try:
            again = StoredEmbeddingQueue(second)
            assert again.size() == 3
            assert again.list_pending(limit=9) == before
            add(again, "d", live=False)
            assert waiting(again) == ["live", "d", "b", "a"]
            assert again.size() == 4
        finally:
            second.close()

    def test_the_size_is_counted_beyond_one_page(self, store: OrderedStore) -> None:
        add(StoredEmbeddingQueue(store), *map(str, range(10_001)), live=False)
        assert StoredEmbeddingQueue(store).size() == 10_001


class TestPriorities:
    def test_the_highest_come_first_and_the_newest_of_each(self, queue: EmbeddingQueue) -> None:
        for priority in (Priority.PROMPTS, *Priority, Priority.PROMPTS):
            add(queue, f"{priority.name}-{queue.size()}", live=False, priority=priority)
        assert waiting(queue) == [
            "MEMORIES-5",
            "PROMPTS-6",
            "PROMPTS-4",
            "PROMPTS-0",
            "ANSWERS-3",
            "SEGMENTS-2",
            "TOOL_RESULTS-1",
        ]

    def test_what_is_live_comes_before_all_that_is_past(self, queue: EmbeddingQueue) -> None:
        add(queue, "past", live=False, priority=Priority.MEMORIES)
        add(queue, "live", live=True, priority=Priority.TOOL_RESULTS)
        assert waiting(queue) == ["live", "past"]

    def test_each_is_counted_also_after_a_restart(self, store: OrderedStore) -> None:
        queue = StoredEmbeddingQueue(store)
        add(queue, *"abc", live=False, priority=Priority.ANSWERS)
        counts = queue.count()
        add(queue, "d", live=True, priority=Priority.MEMORIES)
        queue.mark_done([each.ticket for each in queue.list_pending(limit=2)])
        assert counts == {Priority.ANSWERS: 3}
        assert queue.count() == StoredEmbeddingQueue(store).count() == {Priority.ANSWERS: 2}

    def test_entries_of_an_earlier_version_are_embedded_last(self, store: OrderedStore) -> None:
        """Their keys have no priority."""
        for lane, name in ((b"live:", "old-1"), (b"live:", "old-2"), (b"past:", "old-3")):
            value = encode_entry(entry(name))
            commit(store, Batch((Append(families.EMBEDDING_QUEUE, lane, value),)))
        queue = StoredEmbeddingQueue(store)
        assert queue.count() == {Priority.TOOL_RESULTS: 3}
        for live in (True, False):
            add(queue, f"new-{live}", live=live, priority=Priority.TOOL_RESULTS)
        assert waiting(queue) == ["new-True", "old-2", "old-1", "new-False", "old-3"]
        queue.mark_done([each.ticket for each in queue.list_pending(limit=9)])
        assert (queue.list_pending(limit=9), queue.size()) == ([], 0)


steps = st.lists(
    st.tuples(st.just("add"), st.booleans(), st.integers(0, 4))
    | st.tuples(st.just("done"), st.booleans(), st.integers(0, 4))
    | st.tuples(st.sampled_from(["clear", "reopen", "count"]), st.just(True), st.just(0)),
    max_size=20,
)


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # cleared for each example
)
@given(steps)
def test_it_is_two_stacks(store: OrderedStore, steps: list[tuple[str, bool, int]]) -> None:
    queue = StoredEmbeddingQueue(store)
    queue.clear()
    lanes: dict[bool, list[str]] = {True: [], False: []}
    for number, (step, live, count) in enumerate(steps):
        names = [f"{number}-{each}" for each in range(count)]
        if step == "add":
            add(queue, *names, live=live)
            lanes[live] += names
        elif step == "done":
            some = queue.list_pending(limit=count)
            queue.mark_done([each.ticket for each in some])
            for each in some:
                assert isinstance(each.entry, EventChanged)
                name = each.entry.at.event_id
                lanes[name in lanes[True]].remove(name)
        elif step == "clear":
            queue.clear()
            lanes = {True: [], False: []}
        elif step == "reopen":
            queue = StoredEmbeddingQueue(store)
        else:
            assert queue.size() == len(lanes[True] + lanes[False])
        assert waiting(queue, 999) == [*reversed(lanes[True]), *reversed(lanes[False])]
    assert queue.size() == len(lanes[True] + lanes[False])


@pytest.mark.parametrize(
    "value", [b"", b"\x02x", b"\x01", b"\x01garbage", codec.encode_key(b"ses:x")], ids=ascii
)
def test_a_damaged_entry_is_a_storage_failure(
    queue: EmbeddingQueue, store: OrderedStore, value: bytes
) -> None:
    commit(store, Batch((Append(families.EMBEDDING_QUEUE, b"live:", value),)))
    with pytest.raises(StorageFailed):
        queue.list_pending(limit=9)
