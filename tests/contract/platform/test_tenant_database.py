"""The TenantDatabase port: transactions, leases and groups, on PostgreSQL and in memory."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import chain, count
from pathlib import Path

import pytest

from agent_memory.kernel.errors import StorageClosed, StorageFailed, StorageLocked
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import (
    Absent,
    Append,
    Batch,
    Committed,
    Conflict,
    Delete,
    DeleteRange,
    Equals,
    Put,
)
from agent_memory.platform.store.database import (
    DatabaseLost,
    LeaseLost,
    TenantDatabase,
    Transaction,
)
from agent_memory.platform.store.group_writer import GroupWriter
from agent_memory.platform.store.leases import (
    JOBS,
    HeldLease,
    name_daemon,
    release_lease,
    take_lease,
)
from agent_memory.platform.store.plans import Place, Write
from agent_memory.platform.store.postgres import KEPT_BYTES, LONG_KEY, PostgresDatabase
from agent_memory.platform.store.submissions import UnknownFamily
from agent_memory.platform.store.transacted import open_transacted
from tests.contract.stores import TIMEOUT, commit, everything, unexpected
from tests.memory_database import MemoryDatabase, MemoryServer, RealTime
from tests.postgres_server import name_tenant, share_server

A, META = families.EVENTS, families.META
MOMENT = 0.05  # time allowed for something that must not happen
NOTE = Append(families.OUTBOX, b"outbox:", b"x")

ALIKE = b"p" * KEPT_BYTES
LONG_KEYS = sorted(
    [
        b"p",
        ALIKE,
        *(ALIKE + b"%02d" % n for n in range(5)),
        *(ALIKE + b"%02d" % n + b"x" * LONG_KEY for n in range(12)),
        b"q" * (LONG_KEY - 1),
        b"q" * LONG_KEY,
        b"q" * 5_000,
        b"r",
    ]
)

Connect = Callable[[], TenantDatabase]


@pytest.fixture(params=["memory", "postgres"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connect]:
    """Return a function that connects one more process to the same rows."""
    server = MemoryServer()

    def open_one() -> TenantDatabase:
        if request.param == "memory":
            database: TenantDatabase = MemoryDatabase(server, RealTime())
        else:
            database = PostgresDatabase(share_server().url, name_tenant(tmp_path))
        closing.callback(database.close)
        return database

    with ExitStack() as closing:
        yield open_one


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def take(database: TenantDatabase, holder: str) -> HeldLease:
    return take_lease(database, JOBS, holder=holder, label=f"{holder}'s machine")


def make_writer(
    database: TenantDatabase, name: str = "one", lease: HeldLease | None = None
) -> GroupWriter:
    tokens = (b"%s-%d" % (name.encode(), number) for number in count())
    return GroupWriter(database, writer=name, lease=lease, new_token=lambda: next(tokens))


def is_waiting(future: "Future[Transaction]") -> bool:
    return not wait([future], timeout=MOMENT).done


class TestTransactions:
    def test_nothing_is_seen_before_the_commit_and_all_of_it_after(self, connect: Connect) -> None:
        one, two = connect(), connect()
        transaction = one.begin([(A, b"k")])
        assert transaction.get(A, b"k") is None
        assert two.get_many(A, [b"k"]) == [None]
        transaction.commit([Put(A, b"k", b"v"), Put(META, b"m", b"w")], 7)
        assert (two.get_many(A, [b"k"]), two.get_many(META, [b"m"])) == ([b"v"], [b"w"])
        assert two.read_head().outbox == 7

    def test_a_look_shows_the_head_row_and_some_values(self, connect: Connect) -> None:
        one, two = connect(), connect()
        assert two.look(A, [b"k"])[0].outbox == 0
        assert two.look(A, [b"k", b"x" * LONG_KEY])[1] == [None, None]
        long = b"k" * LONG_KEY
        one.begin([]).commit([Put(A, b"k", b"v"), Put(A, long, b"l"), Put(META, b"m", b"w")], 3)
        head, values = two.look(A, [long, b"m", b"k", b"k"])
        assert (head.outbox, values) == (3, [b"l", None, b"v", b"v"])
        assert head.now_ms <= two.look(A, [])[0].now_ms
        with pytest.raises(UnknownFamily):
            two.look("none", [b"k"])

    def test_a_transaction_that_is_rolled_back_leaves_nothing(self, connect: Connect) -> None:
        database = connect()
        database.begin([]).roll_back()
        transaction = database.begin([])
        assert transaction.head.outbox == 0
        transaction.roll_back()
        transaction.roll_back()
        assert database.scan(A, b"", b"\xff", limit=9, reverse=False) == []

    def test_the_head_row_lets_one_transaction_in_at_a_time(
        self, connect: Connect, pool: ThreadPoolExecutor
    ) -> None:
        one, two = connect(), connect()
        first = one.begin([])
        second = pool.submit(two.begin, [(A, b"k")])
        assert is_waiting(second)
        first.commit([Put(A, b"k", b"v")], 5)
        found = second.result(TIMEOUT)
        # What it reads is read after the lock, not when it began to wait.
        assert (found.head.outbox, found.get(A, b"k")) == (5, b"v")
        found.roll_back()

    def test_one_that_is_rolled_back_lets_the_next_one_in(
        self, connect: Connect, pool: ThreadPoolExecutor
    ) -> None:
        first = connect().begin([])
        second = pool.submit(connect().begin, [])
        assert is_waiting(second)
        first.roll_back()
        second.result(TIMEOUT).roll_back()

    def test_operations_apply_in_order(self, connect: Connect) -> None:
        database = connect()
        operations: list[Write] = [
            Put(A, b"a", b"1"),
            Put(A, b"b", b"1"),
            Delete(A, b"a"),
            DeleteRange(A, b"b", b"d"),
            Put(A, b"c", b"2"),
            Put(A, b"a", b"2"),
            Put(A, b"a", b"3"),
            Delete(A, b"z"),
        ]
        database.begin([]).commit(operations, 0)
        found = database.scan(A, b"", b"\xff", limit=9, reverse=False)
        assert found == [(b"a", b"3"), (b"c", b"2")]

    def test_an_unknown_family_is_named(self, connect: Connect) -> None:
        database = connect()
        with pytest.raises(UnknownFamily, match="no_such"):
            database.begin([("no_such", b"k")])
        transaction = database.begin([])
        with pytest.raises(UnknownFamily, match="no_such"):
            transaction.commit([Put(A, b"k", b"v"), Put("no_such", b"k", b"v")], 1)
        transaction.roll_back()
        assert database.get_many(A, [b"k"]) == [None]

    def test_a_closed_database_says_so(self, connect: Connect) -> None:
        database = connect()
        database.close()
        with pytest.raises(StorageClosed):
            database.begin([])
        with pytest.raises(StorageClosed):
            database.read_head()


class TestLeases:
    def test_one_holder_at_a_time_and_the_refusal_names_it(self, connect: Connect) -> None:
        take(connect(), "one")
        with pytest.raises(StorageLocked, match=r"one's machine.*try again in \d+ s"):
            take(connect(), "two")

    def test_a_lease_that_is_released_can_be_taken_at_once(self, connect: Connect) -> None:
        database = connect()
        first = take(database, "one")
        release_lease(database, first)
        assert take(connect(), "two").epoch == first.epoch + 1

    def test_the_same_holder_may_take_it_again(self, connect: Connect) -> None:
        first = take(connect(), "one")
        assert take(connect(), "one").epoch == first.epoch + 1

    def test_one_that_was_taken_over_is_not_released_by_its_former_holder(
        self, connect: Connect
    ) -> None:
        database = connect()
        first = take(database, "one")
        take(connect(), "one")
        release_lease(database, first)
        with pytest.raises(StorageLocked):
            take(connect(), "two")

    def test_a_holder_whose_lease_was_taken_writes_nothing_more(self, connect: Connect) -> None:
        database = connect()
        writer = make_writer(database, lease=take(database, "one"))
        assert writer.commit([Batch((NOTE,))]) == [Committed((1,))]
        take(connect(), "one")
        with pytest.raises(LeaseLost):
            writer.commit([Batch((NOTE, Put(A, b"k", b"v")))])
        with pytest.raises(LeaseLost):
            writer.renew()
        assert database.get_many(A, [b"k"]) == [None]
        assert database.read_head().outbox == 1

    def test_a_store_whose_lease_was_taken_has_ended(self, connect: Connect) -> None:
        seen: list[StoreHealth] = []
        reported = threading.Event()

        def watch(health: StoreHealth) -> None:
            seen.append(health)
            reported.set()

        store = open_transacted(connect(), watch, holder="one", label="one")
        try:
            commit(store, Batch((NOTE,)))
            take_lease(connect(), name_daemon("one"), holder="one", label="the next one")
            with pytest.raises(StorageFailed, match="away for too long"):
                commit(store, Batch((NOTE,)))
            assert reported.wait(TIMEOUT)
            assert [(health.writable, health.readable, health.final) for health in seen] == [
                (False, False, True)
            ]
            with pytest.raises(StorageFailed, match="away for too long"):
                store.get(A, b"k")
        finally:
            store.close()


class TestGroups:
    def test_numbers_of_several_writers_have_no_gap(
        self, connect: Connect, pool: ThreadPoolExecutor
    ) -> None:
        def write(name: str) -> list[int]:
            writer = make_writer(connect(), name)
            outcomes = [writer.commit([Batch((NOTE,))])[0] for _ in range(10)]
            return [done.sequences[0] for done in outcomes if isinstance(done, Committed)]

        numbers = list(pool.map(write, ["one", "two", "three"]))
        assert all(mine == sorted(mine) for mine in numbers)
        assert sorted(chain.from_iterable(numbers)) == list(range(1, 31))

    def test_a_writer_sees_what_another_has_written(self, connect: Connect) -> None:
        one, two = make_writer(connect(), "one"), make_writer(connect(), "two")
        claim = Batch((Put(A, b"k", b"v"),), (Absent(A, b"k"),))
        assert one.commit([claim]) == [Committed()]
        assert two.commit([claim]) == [Conflict(Absent(A, b"k"))]
        assert two.commit([Batch((Delete(A, b"k"),), (Equals(A, b"k", b"v"),))]) == [Committed()]

    @pytest.mark.parametrize("done", [True, False], ids=["committed", "not committed"])
    def test_an_answer_that_was_lost_is_found_out(self, connect: Connect, done: bool) -> None:
        losing = LosingDatabase(connect(), done=done)
        writer = make_writer(losing)
        group = [Batch((NOTE, Put(A, b"k", b"v")), (Absent(A, b"k"),))]
        with pytest.raises(DatabaseLost):
            writer.commit(group)
        assert losing.get_many(A, [b"k"]) == [b"v" if done else None]
        assert writer.commit(group) == [Committed((1,))]
        assert losing.read_head().outbox == 1
        assert writer.commit([Batch((NOTE,))]) == [Committed((2,))]


class LosingDatabase:
    """A database whose first COMMIT is not answered, whether it is `done` or not."""

    def __init__(self, inner: TenantDatabase, *, done: bool) -> None:
        self._inner = inner
        self._done = done
        self._lost = False
        self.get_many, self.scan = inner.get_many, inner.scan
        self.get_neighbors, self.read_head = inner.get_neighbors, inner.read_head
        self.look = inner.look
        self.close = inner.close

    def begin(self, places: Sequence[Place], /) -> Transaction:
        transaction = self._inner.begin(places)
        if self._lost:
            return transaction
        self._lost = True
        return _LosingTransaction(transaction, done=self._done)


class _LosingTransaction:
    def __init__(self, inner: Transaction, *, done: bool) -> None:
        self.head, self.get, self.roll_back = inner.head, inner.get, inner.roll_back
        self._inner, self._done = inner, done

    def commit(self, operations: Sequence[Write], outbox: int, /) -> None:
        if self._done:
            self._inner.commit(operations, outbox)
        raise DatabaseLost("the answer is lost")


class TestLongKeys:
    """Keys that do not fit into an index entry, and those around them."""

    def test_they_are_read_scanned_and_removed_as_any_other(self, tmp_path: Path) -> None:
        database = PostgresDatabase(share_server().url, name_tenant(tmp_path))
        store = open_transacted(database, unexpected, holder="test", label="a test")
        try:
            rows = [(key, b"%d" % n) for n, key in enumerate(LONG_KEYS)]
            commit(store, Batch(tuple(Put(A, *row) for row in reversed(rows))))
            commit(store, Batch(tuple(Put(A, *row) for row in rows)))
            assert store.get_many(A, LONG_KEYS) == [value for _, value in rows]
            for start in LONG_KEYS:
                for end in LONG_KEYS:
                    expected = [row for row in rows if start <= row[0] < end]
                    assert store.scan(A, start, end, limit=99) == expected
                    backwards = store.scan(A, start, end, limit=3, reverse=True)
                    assert backwards == expected[::-1][:3]
            near = store.get_neighbors(A, LONG_KEYS, reach=2)
            assert near == [rows[max(0, n - 2) : n + 3] for n in range(len(rows))]
            start, end = LONG_KEYS[4], LONG_KEYS[11]
            commit(store, Batch((DeleteRange(A, start, end), Delete(A, LONG_KEYS[-2]))))
            stored = [row for row in rows if not start <= row[0] < end and row[0] != LONG_KEYS[-2]]
            assert everything(store, A) == stored
        finally:
            store.close()
