"""The neighbors of a key (OrderedStore) and of an event (EventLog), over every store."""

from bisect import bisect_left
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.kernel.errors import StorageClosed, StorageFailed
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Delete, DeleteRange, Put, Row
from tests.contract.stores import HIGHEST, TIMEOUT, OpenStore, commit

A, B = families.EVENTS, families.TOC_NODES
ONE_STORE = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # emptied for each example
)


def fill(store: OrderedStore, *keys: bytes, family: str = A) -> None:
    commit(store, Batch(tuple(Put(family, key, b"v" + key) for key in keys)))


def around(store: OrderedStore, *keys: bytes, reach: int) -> list[list[bytes]]:
    return [[key for key, _ in rows] for rows in store.get_neighbors(A, keys, reach=reach)]


def beside(present: Sequence[bytes], key: bytes, reach: int) -> list[Row]:
    """Return the same by looking at all rows."""
    ordered = sorted(present)
    place = bisect_left(ordered, key)
    own = [key] if key in ordered else []
    before = ordered[max(0, place - reach) : place]
    after = ordered[place + len(own) :][:reach]
    return [(each, b"v" + each) for each in (*before, *own, *after)]


some_keys = st.lists(st.binary(max_size=3) | st.sampled_from([b"", b"a", b"a\0", b"b", b"\xff"]))


class TestStore:
    def test_rows_before_and_after_in_order(self, store: OrderedStore) -> None:
        fill(store, *(b"%d" % each for each in range(10)))
        assert around(store, b"5", reach=2) == [[b"3", b"4", b"5", b"6", b"7"]]
        assert around(store, b"5", reach=0) == [[b"5"]]

    def test_values_come_with_them(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b")
        assert store.get_neighbors(A, [b"a"], reach=1) == [[(b"a", b"va"), (b"b", b"vb")]]

    def test_a_key_that_is_absent_has_neighbours_too(self, store: OrderedStore) -> None:
        fill(store, b"a", b"c", b"e")
        assert around(store, b"b", reach=1) == [[b"a", b"c"]]
        assert around(store, b"b", reach=0) == [[]]
        assert around(store, b"", b"z", reach=2) == [[b"a", b"c"], [b"c", b"e"]]

    def test_answers_come_in_the_order_asked_also_twice(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b", b"c")
        assert around(store, b"c", b"a", b"c", reach=1) == [
            [b"b", b"c"],
            [b"a", b"b"],
            [b"b", b"c"],
        ]
        assert around(store, reach=3) == []

    def test_an_empty_family_has_no_neighbors(self, store: OrderedStore) -> None:
        fill(store, b"a", family=B)
        assert around(store, b"a", reach=3) == [[]]

    def test_deleted_rows_are_skipped(self, store: OrderedStore) -> None:
        fill(store, *(b"%d" % each for each in range(9)))
        commit(store, Batch((Delete(A, b"4"), DeleteRange(A, b"5", b"7"))))
        assert around(store, b"4", b"3", reach=1) == [[b"3", b"7"], [b"2", b"3", b"7"]]

    def test_an_unknown_family_is_a_storage_failure(self, store: OrderedStore) -> None:
        with pytest.raises(StorageFailed):
            store.get_neighbors("no_such_family", [b"a"], reach=1)

    def test_a_closed_store_says_so(self, store: OrderedStore) -> None:
        store.close()
        with pytest.raises(StorageClosed):
            store.get_neighbors(A, [b"a"], reach=1)

    @ONE_STORE
    @given(some_keys, some_keys, some_keys, st.integers(0, 4))
    def test_neighbors_equal_those_of_a_full_scan(
        self,
        store: OrderedStore,
        put: list[bytes],
        removed: list[bytes],
        asked: list[bytes],
        reach: int,
    ) -> None:
        commit(store, Batch((DeleteRange(A, b"", HIGHEST),)))
        fill(store, *put)
        commit(store, Batch(tuple(Delete(A, key) for key in removed)))
        present = set(put) - set(removed)
        asked = [*asked, *put[:3], *removed[:3]]
        expected = [beside(sorted(present), key, reach) for key in asked]
        assert store.get_neighbors(A, asked, reach=reach) == expected

    def test_rows_on_disk_and_in_memory_alike(
        self, open_durable: OpenStore, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        folder = tmp_path_factory.mktemp("around")
        first = open_durable(folder)
        fill(first, b"a", b"c", b"e")
        first.close()
        second = open_durable(folder)
        try:
            fill(second, b"b", b"d")
            assert around(second, b"c", reach=2) == [[b"a", b"b", b"c", b"d", b"e"]]
        finally:
            second.close()


def event(session: str, at_ms: int, name: str) -> Event:
    return Event(
        event_id=EventId(name),
        session_id=SessionId(session),
        at_ms=Millis(at_ms),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
    )


def place(session: str, at_ms: int, name: str) -> tuple[SessionId, Position]:
    return SessionId(session), Position(at_ms=Millis(at_ms), event_id=EventId(name))


def append(store: OrderedStore, *events: Event) -> StoredEventLog:
    log = StoredEventLog(store)
    log.append(events).result(TIMEOUT)
    return log


def names(found: list[list[Position]]) -> list[list[str]]:
    return [[at.event_id for at in positions] for positions in found]


# Names that a missing or wrong escape could mix up.
SESSIONS = ("a", "a:", "a%", "a%3A", "b", "aa", "ü", "a:0000000000001:x")
in_sessions = st.sampled_from(SESSIONS)
moments = st.integers(1, 6)


class TestEventLog:
    def test_neighbours_are_of_the_same_session(self, store: OrderedStore) -> None:
        log = append(
            store,
            *(event("s", at, f"s{at}") for at in range(1, 6)),
            *(event("r", at, f"r{at}") for at in range(1, 6)),
            *(event("t", at, f"t{at}") for at in range(1, 6)),
        )
        assert names(log.get_neighbors([place("s", 3, "s3")], reach=1)) == [["s2", "s3", "s4"]]
        assert names(log.get_neighbors([place("s", 1, "s1")], reach=2)) == [["s1", "s2", "s3"]]
        assert names(log.get_neighbors([place("s", 5, "s5")], reach=9)) == [
            ["s1", "s2", "s3", "s4", "s5"]
        ]

    def test_events_of_one_moment_are_in_the_order_of_their_ids(self, store: OrderedStore) -> None:
        log = append(store, event("s", 1, "b"), event("s", 1, "a"), event("s", 1, "c"))
        assert names(log.get_neighbors([place("s", 1, "b")], reach=1)) == [["a", "b", "c"]]

    def test_a_missing_key_has_neighbors_but_no_row(self, store: OrderedStore) -> None:
        log = append(store, event("s", 1, "a"), event("s", 5, "b"))
        assert names(log.get_neighbors([place("s", 3, "x")], reach=1)) == [["a", "b"]]
        assert names(log.get_neighbors([place("other", 3, "x")], reach=1)) == [[]]
        assert log.get_neighbors([], reach=1) == []

    @ONE_STORE
    @given(
        st.sets(st.tuples(in_sessions, moments), max_size=25),
        st.lists(st.tuples(in_sessions, st.integers(0, 7)), max_size=6),
        st.integers(0, 3),
    )
    def test_neighbors_equal_those_of_a_full_scan(
        self,
        store: OrderedStore,
        present: set[tuple[str, int]],
        asked: list[tuple[str, int]],
        reach: int,
    ) -> None:
        ends = [(name, DeleteRange(name, b"", HIGHEST)) for name in families.ALL]
        commit(store, Batch(tuple(each for name, each in ends if name != families.META)))
        log = append(store, *(event(s, at, f"{s} {at}") for s, at in sorted(present)))
        asked = [*asked, *sorted(present)[:6]]
        expected = []
        for session, at in asked:
            moments = sorted(each for s, each in present if s == session)
            before = [each for each in moments if each < at]
            after = [each for each in moments if each > at]
            own = [at] if at in moments else []
            near = [*before[max(0, len(before) - reach) :], *own, *after[:reach]]
            expected.append([f"{session} {each}" for each in near])
        found = log.get_neighbors([place(s, at, f"{s} {at}") for s, at in asked], reach=reach)
        assert names(found) == expected
