"""Group commit: when readers see a write, what a failure affects, which writes share a flush."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import pytest

from agent_memory.kernel.errors import Overloaded, StorageClosed, StorageFailed, StorageUnwritable
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Absent, Append, Batch, Committed, Conflict, Put, Row
from agent_memory.platform.store.committer import CommittedStore, Engine, Stalled
from agent_memory.platform.store.submissions import GROUP_BATCHES, PENDING_BYTES
from tests.contract.engines import (
    HeldEngine,
    RefusingEngine,
    ReopenedEngine,
    SlowScanEngine,
    StallingEngine,
    UnreadableEngine,
)
from tests.contract.stores import HIGHEST, TIMEOUT, commit, everything, unexpected
from tests.memory_engine import MemoryEngine

A = families.EVENTS
MOMENT = 0.05  # time allowed for something that must not happen: a correct store waits it out
ONE = Batch((Append(A, b"n:", b"x"),))
FIRST = b"n:%020d" % 1


@contextmanager
def opened(
    engine: Engine, watch: Callable[[StoreHealth], None] = unexpected
) -> Iterator[CommittedStore]:
    store = CommittedStore(engine, watch)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def held_store() -> Iterator[tuple[CommittedStore, HeldEngine]]:
    """Yield a store whose first flush is held until released, at the latest at the end."""
    engine = HeldEngine(MemoryEngine())
    with opened(engine) as store:
        try:
            yield store, engine
        finally:
            engine.release()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def unanswered(*futures: "Future[Any]") -> bool:
    return not wait(futures, timeout=MOMENT).done


def get_first(store: OrderedStore) -> bytes | None:
    return store.get(A, FIRST)


def get_first_of_many(store: OrderedStore) -> list[bytes | None]:
    return store.get_many(A, [FIRST])


def scan_all(store: OrderedStore) -> list[Row]:
    return everything(store, A)


def scan_all_backwards(store: OrderedStore) -> list[Row]:
    return store.scan(A, b"", HIGHEST, limit=9, reverse=True)


def last_number(store: OrderedStore) -> int:
    return store.get_sequence(A, b"n:")


READS: list[tuple[Callable[[OrderedStore], object], object]] = [
    (get_first, b"x"),
    (get_first_of_many, [b"x"]),
    (scan_all, [(FIRST, b"x")]),
    (scan_all_backwards, [(FIRST, b"x")]),
    (last_number, 1),
]
every_read = pytest.mark.parametrize(
    ("read", "flushed"), READS, ids=[read.__name__ for read, _ in READS]
)


class TestDurableReads:
    @every_read
    def test_unflushed_writes_are_invisible(
        self,
        pool: ThreadPoolExecutor,
        read: Callable[[OrderedStore], object],
        flushed: object,
    ) -> None:
        with held_store() as (store, engine):
            writing = store.submit([ONE])
            engine.wait_until_held()
            reading = pool.submit(read, store)
            assert unanswered(reading, writing)
            engine.release()
            assert reading.result(TIMEOUT) == flushed
            assert writing.result(TIMEOUT) == [Committed((1,))]

    def test_a_duplicate_is_not_confirmed_before_the_first_is_flushed(self) -> None:
        claim = Batch((Put(A, b"k", b"v"),), (Absent(A, b"k"),))
        with held_store() as (store, engine):
            first = store.submit([claim])
            engine.wait_until_held()
            second = store.submit([claim])
            assert unanswered(first, second)
            engine.release()
            assert first.result(TIMEOUT) == [Committed()]
            assert second.result(TIMEOUT) == [Conflict(Absent(A, b"k"))]

    def test_a_duplicate_of_the_same_submit_waits_for_the_flush_too(self) -> None:
        claim = Batch((Put(A, b"k", b"v"),), (Absent(A, b"k"),))
        with held_store() as (store, engine):
            both = store.submit([claim, claim])
            engine.wait_until_held()
            assert unanswered(both)
            engine.release()
            assert both.result(TIMEOUT) == [Committed(), Conflict(Absent(A, b"k"))]

    def test_a_waiter_that_gives_up_does_not_cancel_the_write(self) -> None:
        with held_store() as (store, engine):
            writing = store.submit([ONE])
            engine.wait_until_held()
            assert not writing.cancel()
            engine.release()
            assert writing.result(TIMEOUT) == [Committed((1,))]

    def test_a_long_scan_delays_no_writer_and_sees_no_later_write(
        self, pool: ThreadPoolExecutor
    ) -> None:
        engine = SlowScanEngine(MemoryEngine())
        with opened(engine) as store:
            commit(store, Batch((Put(A, b"old", b"v"),)))
            scanning = pool.submit(scan_all, store)
            engine.wait_until_scanning()
            try:
                assert commit(store, Batch((Put(A, b"new", b"v"),))) == [Committed()]
                assert not scanning.done()
            finally:
                engine.release()
            assert scanning.result(TIMEOUT) == [(b"old", b"v")]

    def test_close_waits_for_scans_under_way(self, pool: ThreadPoolExecutor) -> None:
        engine = SlowScanEngine(MemoryEngine())
        store = CommittedStore(engine, unexpected)
        commit(store, Batch((Put(A, b"k", b"v"),)))
        scanning = pool.submit(scan_all, store)
        engine.wait_until_scanning()
        closing = pool.submit(store.close)
        assert unanswered(scanning, closing)
        engine.release()
        assert scanning.result(TIMEOUT) == [(b"k", b"v")]
        assert closing.result(TIMEOUT) is None


class TestGroups:
    def test_batches_that_wait_during_a_flush_are_one_group(self) -> None:
        with held_store() as (store, engine):
            first = store.submit([ONE])
            engine.wait_until_held()
            waiting = [store.submit([ONE]) for _ in range(50)]
            engine.release()
            numbers = [future.result(TIMEOUT) for future in [first, *waiting]]
            assert numbers == [[Committed((n,))] for n in range(1, 52)]
            assert engine.flushes == 2

    def test_a_group_is_bounded(self) -> None:
        with held_store() as (store, engine):
            first = store.submit([ONE])
            engine.wait_until_held()
            waiting = [store.submit([ONE]) for _ in range(GROUP_BATCHES + 1)]
            engine.release()
            wait([first, *waiting], TIMEOUT)
            assert waiting[-1].result(0) == [Committed((GROUP_BATCHES + 2,))]
            assert engine.flushes == 3

    def test_later_submissions_of_a_group_see_earlier_ones(self) -> None:
        claim = Batch((Put(A, b"k", b"v"),), (Absent(A, b"k"),))
        with held_store() as (store, engine):
            store.submit([ONE])
            engine.wait_until_held()
            waiting = [store.submit([claim]) for _ in range(3)]
            engine.release()
            conflict = [Conflict(Absent(A, b"k"))]
            assert [f.result(TIMEOUT) for f in waiting] == [[Committed()], conflict, conflict]

    def test_a_group_of_conflicts_only_needs_no_flush(self) -> None:
        with held_store() as (store, engine):
            engine.release()
            commit(store, Batch((Put(A, b"k", b"v"),)))
            commit(store, Batch((Put(A, b"k", b"w"),), (Absent(A, b"k"),)))
            assert engine.flushes == 1

    def test_too_much_waiting_is_refused_until_it_is_written(self) -> None:
        mib = bytes(1 << 20)  # one object, counted often: the test itself stays small
        too_much = Batch((Put(A, b"k", mib),) * (PENDING_BYTES // len(mib)))
        with held_store() as (store, engine):
            store.submit([ONE])
            engine.wait_until_held()
            waiting = [store.submit([ONE]), store.submit([too_much])]
            with pytest.raises(Overloaded, match="MiB are waiting"):
                store.submit([ONE])
            engine.release()
            assert [f.result(TIMEOUT) for f in waiting] == [[Committed((2,))], [Committed()]]
            assert commit(store, ONE) == [Committed((3,))]


class Watch:
    """A watcher that records the health of a store."""

    def __init__(self) -> None:
        self.seen: SimpleQueue[StoreHealth] = SimpleQueue()
        self.fails = False

    def __call__(self, health: StoreHealth) -> None:
        self.seen.put(health)
        if self.fails:
            raise RuntimeError("a watcher that fails")

    def next(self) -> StoreHealth:
        return self.seen.get(timeout=TIMEOUT)

    def wait_until(self, *, writable: bool) -> StoreHealth:
        while (health := self.next()).writable is not writable:
            pass
        return health


@pytest.fixture
def watch() -> Watch:
    return Watch()


class TestFailedFlush:
    @pytest.fixture
    def broken(self, watch: Watch) -> Iterator[tuple[CommittedStore, ReopenedEngine]]:
        """Yield a store whose first flush fails once released.

        Its files cannot be reopened before `allow`.
        """
        engine = ReopenedEngine(HeldEngine(MemoryEngine(), failures=[OSError("disk gone")]))
        with opened(engine, watch) as store:
            try:
                yield store, engine
            finally:
                engine.held.release()

    def test_the_watcher_gets_the_reason(
        self, broken: tuple[CommittedStore, ReopenedEngine], watch: Watch
    ) -> None:
        store, engine = broken
        engine.held.release()
        store.submit([ONE])
        assert watch.next() == StoreHealth(writable=False, readable=False, reason="disk gone")

    def test_waiting_and_later_submissions_are_refused(
        self, broken: tuple[CommittedStore, ReopenedEngine]
    ) -> None:
        store, engine = broken
        in_the_group = store.submit([ONE])
        engine.held.wait_until_held()
        behind_it = store.submit([ONE])
        engine.held.release()
        with pytest.raises(OSError, match="disk gone"):
            in_the_group.result(TIMEOUT)
        with pytest.raises(StorageUnwritable, match="disk gone"):
            behind_it.result(TIMEOUT)
        with pytest.raises(StorageUnwritable):
            store.submit([ONE])
        assert engine.held.flushes == 1

    @every_read
    def test_unflushed_writes_stay_invisible_while_no_file_opens(
        self,
        broken: tuple[CommittedStore, ReopenedEngine],
        pool: ThreadPoolExecutor,
        read: Callable[[OrderedStore], object],
        flushed: object,
    ) -> None:
        store, engine = broken
        writing = store.submit([ONE])
        engine.held.wait_until_held()
        held_back = pool.submit(read, store)
        engine.held.release()
        with pytest.raises(OSError, match="disk gone"):
            writing.result(TIMEOUT)
        with pytest.raises(StorageFailed):
            assert held_back.result(TIMEOUT) != flushed
        with pytest.raises(StorageFailed):
            assert read(store) != flushed

    @every_read
    def test_reads_are_answered_as_soon_as_the_files_can_be_read(
        self,
        broken: tuple[CommittedStore, ReopenedEngine],
        watch: Watch,
        read: Callable[[OrderedStore], object],
        flushed: object,
    ) -> None:
        store, engine = broken
        engine.allow(reads=True)
        writing = store.submit([ONE])
        engine.held.release()
        while not watch.next().readable:
            pass
        assert store.health == StoreHealth(writable=False, reason="still broken")
        assert read(store) == flushed  # it is in the log, which is read back
        with pytest.raises(StorageUnwritable, match="still broken"):
            store.submit([ONE])
        with pytest.raises(OSError, match="disk gone"):
            writing.result(TIMEOUT)

    def test_it_works_again_by_itself_once_the_files_open(
        self, broken: tuple[CommittedStore, ReopenedEngine], watch: Watch
    ) -> None:
        store, engine = broken
        engine.held.release()
        store.submit([ONE])
        watch.wait_until(writable=False)
        engine.allow(reads=True, writes=True)
        assert watch.wait_until(writable=True) == StoreHealth()
        # The failed write had reached the log: its number is taken.
        assert commit(store, ONE) == [Committed((2,))]

    def test_files_that_open_and_take_no_write_are_not_trusted(
        self, broken: tuple[CommittedStore, ReopenedEngine], watch: Watch
    ) -> None:
        store, engine = broken
        engine.held.failures.extend([OSError("still gone")] * 3)
        engine.allow(reads=True, writes=True)
        engine.held.release()
        store.submit([ONE])
        assert watch.wait_until(writable=True) == StoreHealth()
        assert not engine.held.failures
        assert commit(store, ONE) == [Committed((2,))]

    def test_a_watcher_that_fails_does_not_end_the_store(
        self, broken: tuple[CommittedStore, ReopenedEngine], watch: Watch
    ) -> None:
        store, engine = broken
        engine.allow(reads=True, writes=True)
        engine.held.release()
        watch.fails = True
        store.submit([ONE])
        assert watch.wait_until(writable=True) == StoreHealth()
        assert commit(store, ONE) == [Committed((2,))]

    def test_files_that_cannot_be_opened_for_any_reason_are_tried_again(
        self, broken: tuple[CommittedStore, ReopenedEngine], watch: Watch
    ) -> None:
        store, engine = broken
        engine.surprises.append(OSError("not an error of ours"))
        engine.surprises.append(OSError("nor is this"))
        engine.held.release()
        store.submit([ONE])
        watch.wait_until(writable=False)
        engine.allow(reads=True, writes=True)
        assert watch.wait_until(writable=True) == StoreHealth()

    def test_it_can_be_closed_while_it_fails(
        self, broken: tuple[CommittedStore, ReopenedEngine], watch: Watch
    ) -> None:
        store, engine = broken
        engine.held.release()
        store.submit([ONE])
        watch.wait_until(writable=False)
        store.close()
        with pytest.raises(StorageClosed):
            store.submit([ONE])


class TestFailedWrite:
    def test_it_fails_its_own_group_and_the_store_goes_on(self, watch: Watch) -> None:
        engine = RefusingEngine(MemoryEngine(), [StorageFailed("disk full")])
        with opened(engine, watch) as store:
            with pytest.raises(StorageFailed, match="disk full"):
                commit(store, ONE, Batch((Put(A, b"lost", b"v"),)))
            watch.wait_until(writable=True)
            assert everything(store, A) == []
            assert commit(store, Batch((Put(A, b"kept", b"v"),))) == [Committed()]
            assert everything(store, A) == [(b"kept", b"v")]

    def test_it_uses_up_no_sequence_number(self, watch: Watch) -> None:
        engine = RefusingEngine(MemoryEngine(), [])
        with opened(engine, watch) as store:
            commit(store, ONE)
            engine.errors.append(StorageFailed("disk full"))
            with pytest.raises(StorageFailed):
                commit(store, ONE)
            watch.wait_until(writable=True)
            assert store.get_sequence(A, b"n:") == 1
            assert commit(store, ONE) == [Committed((2,))]

    def test_an_unreadable_row_fails_only_its_submission(self) -> None:
        engine = UnreadableEngine(HeldEngine(MemoryEngine()), b"damaged")
        with opened(engine) as store:
            first = store.submit([ONE])
            engine.held.wait_until_held()
            asks = store.submit([Batch((Put(A, b"k", b"v"),), (Absent(A, b"damaged"),))])
            asks_not = store.submit([ONE])
            engine.held.release()
            assert first.result(TIMEOUT) == [Committed((1,))]
            with pytest.raises(StorageFailed, match="block checksum mismatch"):
                asks.result(TIMEOUT)
            assert asks_not.result(TIMEOUT) == [Committed((2,))]
            assert store.health == StoreHealth()

    def test_a_submission_that_fails_so_is_written_not_even_in_part(self) -> None:
        engine = UnreadableEngine(HeldEngine(MemoryEngine()), b"damaged")
        engine.held.release()
        with opened(engine) as store:
            first = Batch((Put(A, b"half", b"v"), Append(A, b"n:", b"x")))
            second = Batch((Put(A, b"k", b"v"),), (Absent(A, b"damaged"),))
            with pytest.raises(StorageFailed, match="block checksum mismatch"):
                store.submit([first, second]).result(TIMEOUT)
            assert everything(store, A) == []
            assert commit(store, ONE) == [Committed((1,))]


class TestStalls:
    def test_a_stalled_write_is_tried_again_and_applied_once(self) -> None:
        engine = RefusingEngine(MemoryEngine(), [Stalled("busy"), Stalled("busy")])
        with opened(engine) as store:
            assert commit(store, ONE) == [Committed((1,))]
            assert not engine.errors
            assert everything(store, A) == [(FIRST, b"x")]

    def test_a_failure_after_a_stall_is_a_failure(self, watch: Watch) -> None:
        engine = RefusingEngine(MemoryEngine(), [Stalled("busy"), StorageFailed("disk full")])
        with opened(engine, watch) as store:
            with pytest.raises(StorageFailed, match="disk full"):
                commit(store, ONE)
            watch.wait_until(writable=True)
            assert commit(store, ONE) == [Committed((1,))]

    def test_readers_are_served_while_writes_stall(self, pool: ThreadPoolExecutor) -> None:
        engine = StallingEngine(MemoryEngine(), Stalled("busy"))
        with opened(engine) as store:
            writing = store.submit([ONE])
            engine.wait_until_stalled()
            reading = pool.submit(get_first, store)
            try:
                assert reading.result(TIMEOUT) is None
            finally:
                engine.relieve()
            assert writing.result(TIMEOUT) == [Committed((1,))]


class TestFairness:
    def test_busy_readers_do_not_starve_a_writer(self, pool: ThreadPoolExecutor) -> None:
        with opened(MemoryEngine()) as store, repeated(pool, lambda: store.get(A, b"k")):
            for _ in range(50):
                assert commit(store, Batch((Put(A, b"k", b"v"),))) == [Committed()]

    def test_busy_writers_do_not_starve_a_reader(self, pool: ThreadPoolExecutor) -> None:
        def read_often(store: OrderedStore) -> list[bytes | None]:
            return [store.get(A, b"k") for _ in range(50)]

        with opened(MemoryEngine()) as store:
            put = Batch((Put(A, b"k", b"v"),))
            commit(store, put)
            with repeated(pool, lambda: commit(store, put)):
                assert pool.submit(read_often, store).result(TIMEOUT) == [b"v"] * 50


@contextmanager
def repeated(pool: ThreadPoolExecutor, action: Callable[[], object]) -> Iterator[None]:
    """Repeat an action in two threads while the block runs."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            action()

    running = [pool.submit(run) for _ in range(2)]
    try:
        yield
    finally:
        stop.set()
        for each in running:
            each.result(TIMEOUT)
