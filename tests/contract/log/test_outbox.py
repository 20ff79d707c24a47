"""The Outbox port, over every store."""

from pathlib import Path

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.outbox import EventChanged
from agent_memory.features.log.ports import Outbox
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Batch
from tests.contract.stores import TIMEOUT, OpenStore, commit


@pytest.fixture
def outbox(store: OrderedStore) -> Outbox:
    return StoredOutbox(store)


def append(store: OrderedStore, *names: str, at_ms: int = 5) -> None:
    events = [
        Event(
            event_id=EventId(name),
            session_id=SessionId("s"),
            at_ms=Millis(at_ms),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
        )
        for name in names
    ]
    StoredEventLog(store).append(events).result(TIMEOUT)


def read(outbox: Outbox, after: int = 0, limit: int = 100) -> list[tuple[int, str]]:
    return [(number, entry.at.event_id) for number, entry in _events(outbox, after, limit)]


def _events(outbox: Outbox, after: int, limit: int) -> list[tuple[int, EventChanged]]:
    found = outbox.read(after, limit=limit)
    return [(number, entry) for number, entry in found if isinstance(entry, EventChanged)]


class TestReading:
    def test_it_is_empty_at_first(self, outbox: Outbox) -> None:
        assert read(outbox) == []

    def test_entries_come_in_the_order_of_arrival_with_their_places(
        self, outbox: Outbox, store: OrderedStore
    ) -> None:
        append(store, "b:1", at_ms=9)
        append(store, "a", "ü")
        assert read(outbox) == [(1, "b:1"), (2, "a"), (3, "ü")]
        assert [entry.at.at_ms for _, entry in _events(outbox, 0, 9)] == [9, 5, 5]

    def test_entries_after_a_number_up_to_the_limit(
        self, outbox: Outbox, store: OrderedStore
    ) -> None:
        append(store, *"abcdefghijkl")
        assert read(outbox, 2, 3) == [(3, "c"), (4, "d"), (5, "e")]
        assert read(outbox, 9) == [(10, "j"), (11, "k"), (12, "l")]
        assert read(outbox, 12) == []
        assert read(outbox, 99) == []

    def test_an_event_sent_twice_is_there_once(self, outbox: Outbox, store: OrderedStore) -> None:
        append(store, "a", "a")
        append(store, "a")
        assert read(outbox) == [(1, "a")]


class TestTrimming:
    def test_trimming_removes_read_entries_and_keeps_unread_ones(
        self, outbox: Outbox, store: OrderedStore
    ) -> None:
        append(store, *"abc")
        outbox.trim(2)
        assert read(outbox) == [(3, "c")]

    def test_trimming_to_zero_removes_nothing(self, outbox: Outbox, store: OrderedStore) -> None:
        append(store, *"ab")
        outbox.trim(0)
        assert read(outbox) == [(1, "a"), (2, "b")]

    def test_numbers_go_on_after_all_was_trimmed(self, outbox: Outbox, store: OrderedStore) -> None:
        append(store, *"ab")
        outbox.trim(2)
        outbox.trim(2)
        append(store, "c")
        assert read(outbox) == [(3, "c")]

    def test_also_over_a_restart(self, open_durable: OpenStore, tmp_path: Path) -> None:
        first = open_durable(tmp_path)
        append(first, *"ab")
        StoredOutbox(first).trim(2)
        first.close()
        second = open_durable(tmp_path)
        try:
            append(second, "c")
            assert read(StoredOutbox(second)) == [(3, "c")]
        finally:
            second.close()

    def test_the_events_stay(self, outbox: Outbox, store: OrderedStore) -> None:
        append(store, "a")
        outbox.trim(1)
        assert StoredEventLog(store).get(EventId("a")) is not None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x02evt:0000000000005:a",
        b"\x01",
        b"\x01garbage",
        codec.encode_key(b"evt:notatime00000:a"),
        codec.encode_key(b"evt:0000000000005:\xff"),
    ],
    ids=ascii,
)
def test_a_damaged_entry_is_a_storage_failure(
    outbox: Outbox, store: OrderedStore, value: bytes
) -> None:
    commit(store, Batch((Append(families.OUTBOX, keys.OUTBOX_PREFIX, value),)))
    with pytest.raises(StorageFailed):
        outbox.read(0, limit=9)
