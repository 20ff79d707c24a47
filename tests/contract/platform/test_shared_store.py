"""Several stores on one database: fences, leadership, marks, the slowest reader, anchors."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from agent_memory.kernel.errors import Overloaded, StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.platform import leadership as leading
from agent_memory.platform.leadership import LeasedLeadership
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import anchors, families, fences, keys, leases
from agent_memory.platform.store.batches import Append, Batch, Committed, DeleteRange, Put
from agent_memory.platform.store.change_marks import ChangeMarks
from agent_memory.platform.store.database import LeaseLost, TenantDatabase
from agent_memory.platform.store.group_writer import GroupWriter
from agent_memory.platform.store.leases import JOBS, LEASE_MS, WANTED_MS, HeldLease, StoreLease
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.transacted import TransactedStore, open_transacted
from agent_memory.platform.store.watching import StoreWatch
from tests.contract.stores import unexpected
from tests.memory_database import MemoryDatabase, MemoryServer, RealTime
from tests.postgres_server import name_tenant, share_server

TIMEOUT = 30.0
EVENT = Append(families.OUTBOX, keys.OUTBOX_PREFIX, b"\x01evt:1")
FACT = Batch((Put(families.FACTS, b"fact:1", b"v"),))


@dataclass
class Sharer:
    """One of several processes on a database."""

    name: str
    database: TenantDatabase
    marks: ChangeMarks
    held: HeldLease
    writer: GroupWriter
    store: TransactedStore

    def build_lease(self, now: Callable[[], Millis]) -> StoreLease:
        return StoreLease(self.store, JOBS, now, holder=self.name, label=f"{self.name}'s machine")


Join = Callable[[str], Sharer]


@pytest.fixture(params=["memory", "postgres"])
def join(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Join]:
    server = MemoryServer()

    def open_one(name: str) -> Sharer:
        database: TenantDatabase = (
            MemoryDatabase(server, RealTime())
            if request.param == "memory"
            else PostgresDatabase(share_server().url, name_tenant(tmp_path))
        )
        marks = ChangeMarks(database)
        held = leases.take_lease(database, leases.name_daemon(name), holder=name, label=name)
        writer = GroupWriter(
            database, writer=name, lease=held, new_token=partial(os.urandom, 16), marks=marks
        )
        store = TransactedStore(database, writer, unexpected)
        closing.callback(store.close)
        return Sharer(name, database, marks, held, writer, store)

    with ExitStack() as closing:
        yield open_one


def commit(store: OrderedStore, *batches: Batch) -> None:
    outcomes = store.submit(batches).result(TIMEOUT)
    assert all(isinstance(each, Committed) for each in outcomes)


class LeaseTime:
    """A clock that tests move on."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms = now_ms

    def now(self) -> Millis:
        return Millis(self.now_ms)

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


def build_leader(
    sharer: Sharer, time: LeaseTime, sleep: Callable[[float], None] | None = None
) -> LeasedLeadership:
    return LeasedLeadership(
        sharer.build_lease(time.now), monotonic=time.monotonic, sleep=sleep or time.sleep
    )


class TestWriting:
    def test_all_write_and_numbers_have_no_gap(self, join: Join) -> None:
        stores = [join("one").store, join("two").store]
        for number in range(6):
            commit(stores[number % 2], Batch((EVENT,)))
        rows = stores[0].scan(families.OUTBOX, b"", keys.LAST, limit=100)
        assert [int(key[-20:]) for key, _ in rows] == [1, 2, 3, 4, 5, 6]

    def test_a_database_that_was_set_back_is_noticed(self, join: Join) -> None:
        seen = threading.Event()
        one = join("one")
        database = one.database
        store = open_transacted(
            database, lambda _: seen.set(), holder="three", label="three", marks=one.marks
        )
        commit(store, Batch((EVENT,)))
        transaction = database.begin([])
        transaction.commit([DeleteRange(families.OUTBOX, b"", keys.LAST)], 0)
        transaction.roll_back()
        with pytest.raises(StorageFailed, match="set back to an earlier state"):
            store.submit([Batch((EVENT,))]).result(TIMEOUT)
        assert seen.wait(TIMEOUT)
        assert store.health.final
        store.close()


class TestLeadership:
    def test_one_leads_at_a_time(self, join: Join) -> None:
        time = LeaseTime()
        one, two = build_leader(join("one"), time), build_leader(join("two"), time)
        with one.lead() as leads:
            assert leads
        with two.lead() as leads:
            assert not leads  # the first one keeps it
        time.now_ms += LEASE_MS + 1
        with two.lead() as leads:
            assert leads

    def test_a_leader_that_renews_stays_one(self, join: Join) -> None:
        time = LeaseTime()
        one, two = build_leader(join("one"), time), build_leader(join("two"), time)
        with one.lead():
            for _ in range(5):
                time.now_ms += LEASE_MS // 2
                one.keep_up()
        with two.lead() as leads:
            assert not leads

    def test_a_closed_leader_leaves_the_work_to_others_at_once(self, join: Join) -> None:
        time = LeaseTime()
        one, two = build_leader(join("one"), time), build_leader(join("two"), time)
        with one.lead():
            pass
        one.close()
        with two.lead() as leads:
            assert leads

    def test_what_a_former_leader_writes_is_refused_and_its_block_ends(self, join: Join) -> None:
        time = LeaseTime()
        first = join("one")
        one, two = build_leader(first, time), build_leader(join("two"), time)
        reached = False
        with one.lead() as leads:
            assert leads
            time.now_ms += LEASE_MS + 1  # it is paused here
            with two.lead() as leads_too:
                assert leads_too
            first.store.submit([FACT]).result(TIMEOUT)
            reached = True
        assert not reached
        assert first.store.get(families.FACTS, b"fact:1") is None
        commit(first.store, FACT)  # no job: this one may write
        with one.lead() as leads:
            assert not leads

    def test_one_who_must_lead_gets_the_lease_when_the_leader_is_done(self, join: Join) -> None:
        time, second = LeaseTime(), join("two")
        one, two = build_leader(join("one"), time), build_leader(second, time)
        with one.lead():
            second.build_lease(time.now).ask_for()
            one.keep_up()  # it has work under way
            with two.lead() as leads:
                assert not leads
        one.keep_up()
        with one.lead() as leads:
            assert not leads  # it was asked to make way
        with two.take_over(), one.lead() as leads:
            assert not leads
        time.now_ms += WANTED_MS + 1
        two.close()
        with one.lead() as leads:
            assert leads

    def test_a_leader_that_is_never_done_is_reported(self, join: Join) -> None:
        time, renewed = LeaseTime(), threading.Event()
        one = build_leader(join("one"), time)

        def sleep(seconds: float) -> None:
            time.sleep(seconds)
            one.keep_up()
            renewed.set()

        two = build_leader(join("two"), time, sleep)
        with one.lead(), pytest.raises(Overloaded, match="try again in a minute"), two.take_over():
            pytest.fail("both lead")
        assert renewed.is_set()
        assert leading.TAKE_OVER_SECONDS > LEASE_MS / 1000  # a dead leader does not count as busy

    def test_a_fence_covers_only_its_own_thread(self, join: Join) -> None:
        sharer = join("one")
        lease = sharer.build_lease(LeaseTime().now)
        held = lease.take()
        assert held is not None
        lease.release(held)
        taken = join("two").build_lease(LeaseTime(1_900_000_000_000).now).take()
        assert taken is not None
        with fences.fence_thread(held):
            with pytest.raises(LeaseLost):
                sharer.store.submit([FACT]).result(TIMEOUT)
            with ThreadPoolExecutor(1) as other:
                other.submit(commit, sharer.store, FACT).result(TIMEOUT)


class TestMarks:
    def test_a_change_by_another_is_noticed_by_the_next_write_and_by_a_look(
        self, join: Join
    ) -> None:
        one, two = join("one"), join("two")
        noticed: list[str] = []
        two.marks.listen(families.FACTS, lambda: noticed.append("facts"))
        two.marks.listen(families.ACCESS_KEYS, lambda: noticed.append("keys"))
        commit(one.store, FACT)
        commit(two.store, Batch((EVENT,)))
        assert noticed == ["facts"]
        commit(one.store, Batch((Put(families.ACCESS_KEYS, b"key:a", b"v"),)))
        watch = StoreWatch(two.database, two.marks)
        watch.look()
        assert noticed == ["facts", "keys"]
        watch.look()
        assert noticed == ["facts", "keys"]

    def test_own_changes_are_not_foreign(self, join: Join) -> None:
        one = join("one")
        one.marks.listen(families.FACTS, lambda: pytest.fail("it was our own"))
        commit(one.store, FACT)
        commit(one.store, Batch((Put(families.FACTS, b"fact:2", b"v"),)))
        StoreWatch(one.database, one.marks).look()

    def test_a_foreign_change_between_two_own_ones_is_noticed(self, join: Join) -> None:
        one, two = join("one"), join("two")
        noticed: list[str] = []
        one.marks.listen(families.FACTS, lambda: noticed.append("facts"))
        commit(one.store, FACT)
        commit(two.store, FACT)
        commit(one.store, FACT)
        assert noticed == ["facts"]

    def test_a_look_tells_of_the_newest_entry_once(self, join: Join) -> None:
        one, two = join("one"), join("two")
        watch, seen = StoreWatch(two.database, two.marks), list[int]()
        watch.on_outbox(seen.append)
        watch.look()
        commit(one.store, Batch((EVENT,)), Batch((EVENT,)))
        watch.look()
        watch.look()
        assert seen == [0, 2]


class TestOutbox:
    def test_it_is_kept_for_the_slowest_and_not_for_one_that_is_gone(self, join: Join) -> None:
        one, two = join("one"), join("two")
        one.store.report_reached(lambda: 7)
        two.store.report_reached(lambda: 3)
        for sharer in (one, two):
            sharer.writer.renew()
        now = one.store.read_clock()
        assert leases.find_slowest(one.store, now, own="one") == 3
        commit(one.store, Batch((one.held.extend(Millis(now + LEASE_MS)),)))
        assert leases.find_slowest(one.store, Millis(now + LEASE_MS + 5_000), own="one") == 7
        assert leases.find_slowest(one.store, now, own="one") == 7  # it stays away
        with pytest.raises(LeaseLost):
            two.writer.commit([Batch((EVENT,))])

    def test_one_that_was_asleep_does_not_remove_itself(self, join: Join) -> None:
        one = join("one")
        one.store.report_reached(lambda: 7)
        one.writer.renew()
        awake = Millis(one.store.read_clock() + LEASE_MS + 5_000)  # before it has renewed its lease
        assert leases.find_slowest(one.store, awake, own="one") == 7
        assert isinstance(one.writer.commit([Batch((EVENT,))])[0], Committed)


class TestAnchors:
    def test_an_index_of_another_history_is_recognized(self, join: Join, tmp_path: Path) -> None:
        store, path = join("one").store, tmp_path / "anchor"
        assert anchors.holds_anchor(path, store)  # there is no index yet
        commit(store, Batch((EVENT,)), Batch((EVENT,)))
        anchors.save_anchor(path, store, 2)
        assert anchors.holds_anchor(path, store)
        key = keys.OUTBOX_PREFIX + b"%020d" % 2
        commit(store, Batch((Put(families.OUTBOX, key, b"\x01evt:9"),)))
        assert not anchors.holds_anchor(path, store)
        commit(store, Batch((DeleteRange(families.OUTBOX, b"", keys.LAST),)))
        assert not anchors.holds_anchor(path, store)
        path.write_bytes(b"damaged")
        assert not anchors.holds_anchor(path, store)
