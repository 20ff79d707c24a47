"""Moving a memory from one store to another, over every implementation of the store."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_memory.features.maintenance.services import migration
from agent_memory.features.maintenance.services.migration import (
    COMPARING,
    COPYING,
    FAMILIES,
    OUTBOX,
    MigrationReport,
    MigrationSide,
    StoreMigration,
)
from agent_memory.kernel.errors import InvalidInput, StorageDamaged, StorageFailed
from agent_memory.platform.clock import SystemClock
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families, keys, migration_mark, schema
from agent_memory.platform.store.batches import (
    Append,
    Batch,
    CommitOutcome,
    Committed,
    Delete,
    Put,
    Row,
    SetCounter,
)
from agent_memory.platform.store.plans import counter_key
from tests.contract.stores import PORT_STORES, TIMEOUT, commit

NOTE = Append(families.NOTE_QUEUE, b"note:home:", b"key")
LONG = b"p" * 3_000
EVER = 1_000_000
Rows = dict[str, list[Row]]
Open = Callable[[str], OrderedStore]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Open]:
    """Open one more store of a kind."""
    with ExitStack() as closing:
        opened = iter(range(1_000))

        def open_one(kind: str) -> OrderedStore:
            store = PORT_STORES[kind](tmp_path / f"{kind}-{next(opened)}")
            closing.callback(store.close)
            return store

        yield open_one


def fill(store: OrderedStore, rows: Mapping[str, Sequence[Row]] | None = None) -> None:
    """Give a store a memory: rows of every size, sequences, and an outbox that was trimmed."""
    schema.prepare(store)
    schema.ensure_identity(store)
    for family, of_family in (rows or {}).items():
        commit(store, Batch(tuple(Put(family, key, value) for key, value in of_family)))
    commit(store, *(Batch((Append(*OUTBOX, b"%d" % n), NOTE)) for n in range(7)))
    commit(store, Batch(tuple(Delete(families.OUTBOX, b"outbox:%020d" % n) for n in range(1, 5))))


def sample() -> Rows:
    events = [(b"evt:%013d:%d" % (n, n), b"text %d" % n * (n % 9)) for n in range(2_500)]
    long = [(LONG + b"%03d" % n, b"") for n in range(30)] + [(LONG[:2_100], b"x"), (b"q", b"y")]
    return {
        families.EVENTS: events,
        families.GRAPH_CHECKPOINTS: long,
        families.MEMORIES: [(b"\0", b"\0"), (b"\xff\xfe", b"\xff" * 70_000)],
    }


def read_all(store: OrderedStore) -> Rows:
    """Everything that a memory has, with the number of the outbox."""
    found = {
        family: [
            row
            for page in migration.iterate_pages(store, family)
            for row in page
            if migration.is_of_memory(family, row[0])
        ]
        for family in FAMILIES
    }
    return {**found, "outbox number": [(b"%d" % store.get_sequence(*OUTBOX), b"")]}


def side(store: OrderedStore, name: str = "a store") -> MigrationSide:
    return MigrationSide(location=name, store=store, rows=100)


def migrate(source: OrderedStore, target: OrderedStore) -> MigrationReport:
    return StoreMigration(
        side(source, "the source"), side(target, "the target"), clock=SystemClock()
    ).run()


PAIRS = [
    ("rocks", "postgres"),
    ("postgres", "rocks"),
    ("memory", "transacted"),
    ("transacted", "memory"),
    ("rocks", "rocks"),
    ("postgres", "postgres"),
]


@pytest.mark.parametrize(("kind", "other"), PAIRS)
class TestCopy:
    def test_has_the_same_rows_and_numbers(self, stores: Open, kind: str, other: str) -> None:
        source, target = stores(kind), stores(other)
        fill(source, sample())
        before = read_all(source)

        report = migrate(source, target)

        assert report.same
        assert (report.resumed, report.ended) == (False, False)
        assert read_all(target) == before == read_all(source)
        assert sum(map(len, before.values())) - 1 == report.copied
        assert [it.source.rows for it in report.families] == [
            len(before[name]) for name in FAMILIES
        ]
        assert schema.ensure_identity(target) == schema.ensure_identity(source)

    def test_numbers_go_on_without_a_gap(self, stores: Open, kind: str, other: str) -> None:
        source, target = stores(kind), stores(other)
        fill(source)
        migrate(source, target)
        schema.prepare(target)
        assert commit(target, Batch((Append(*OUTBOX, b"next"), NOTE))) == [Committed((8, 8))]

    def test_a_second_run_copies_nothing(self, stores: Open, kind: str, other: str) -> None:
        source, target = stores(kind), stores(other)
        fill(source, sample())
        migrate(source, target)

        again = migrate(source, target)

        assert (again.same, again.ended, again.copied) == (True, True, 0)
        commit(target, Batch((Put(families.EVENTS, b"later", b""),)))
        used = migrate(source, target)
        assert (used.same, used.different) == (False, (families.EVENTS,))
        assert target.get(families.EVENTS, b"later") == b""


class _Stop(Exception):
    """The process ends here."""


class StoppingStore:
    """A store whose process ends before a certain batch is submitted."""

    def __init__(self, store: OrderedStore, after: int) -> None:
        self._store = store
        self._after = after
        self.submitted: list[Future[list[CommitOutcome]]] = []

    def submit(self, batches: Sequence[Batch], /) -> "Future[list[CommitOutcome]]":
        if len(self.submitted) == self._after:
            for future in self.submitted:
                future.result(TIMEOUT)  # they arrive before the next process begins
            raise _Stop
        self.submitted.append(self._store.submit(batches))
        return self.submitted[-1]

    def get(self, family: str, key: bytes, /) -> bytes | None:
        return self._store.get(family, key)

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        return self._store.get_many(family, keys)

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool = False
    ) -> list[Row]:
        return self._store.scan(family, start, end, limit=limit, reverse=reverse)

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        return self._store.get_neighbors(family, keys, reach=reach)

    def get_sequence(self, family: str, prefix: bytes, /) -> int:
        return self._store.get_sequence(family, prefix)

    def close(self) -> None:
        self._store.close()


@pytest.mark.parametrize("kind", ["memory", "rocks", "postgres"])
class TestInterruption:
    def test_it_goes_on_after_the_last_page_wherever_it_ended(
        self, stores: Open, kind: str
    ) -> None:
        source = stores("memory")
        fill(source, sample())
        whole = StoppingStore(stores("memory"), EVER)
        total = migrate(source, whole).copied
        assert len(whole.submitted) > len(FAMILIES)
        for after in range(1, len(whole.submitted)):
            target = stores("memory" if after % 7 else kind)
            with pytest.raises(_Stop):
                migrate(source, StoppingStore(target, after))
            for refuse in (schema.prepare, schema.check):
                with pytest.raises(StorageFailed, match="from the source to this store is not fin"):
                    refuse(target)
            resumed = migrate(source, target)
            assert (resumed.same, resumed.resumed) == (True, True)
            assert resumed.copied <= total
            assert read_all(target) == read_all(source)
            schema.prepare(target)

    def test_a_source_that_was_used_in_between_is_copied_again(
        self, stores: Open, kind: str
    ) -> None:
        source, target = stores("memory"), stores(kind)
        fill(source, sample())
        with pytest.raises(_Stop):
            migrate(source, StoppingStore(target, 30))
        removed, _ = sample()[families.EVENTS][3]
        changes = (
            Delete(families.EVENTS, removed),
            Put(families.EVENTS, b"evt:new", b"new"),
            Append(*OUTBOX, b"x"),
            Delete(families.META, counter_key(families.NOTE_QUEUE, b"note:home:")),
        )
        commit(source, Batch(changes))

        assert migrate(source, target).same
        assert read_all(target) == read_all(source)

    def test_rows_that_differ_keep_daemons_away_until_they_are_copied_again(
        self, stores: Open, kind: str
    ) -> None:
        source, target = stores("memory"), stores(kind)
        fill(source, sample())
        with pytest.raises(_Stop):
            migrate(source, StoppingStore(target, 30))
        # Without an outbox entry: only the comparison can find it.
        key, _ = sample()[families.EVENTS][3]
        commit(source, Batch((Put(families.EVENTS, key, b"changed"),)))

        report = migrate(source, target)

        assert (report.same, report.different) == (False, (families.EVENTS,))
        with pytest.raises(StorageFailed, match="not finished"):
            schema.prepare(target)
        assert migrate(source, target).same
        assert read_all(target) == read_all(source)


class TestRefusal:
    def test_of_a_target_with_a_memory(self, stores: Open) -> None:
        source, target = stores("memory"), stores("memory")
        fill(source, sample())
        fill(target)
        before = read_all(target)
        with pytest.raises(InvalidInput, match="the target is not empty"):
            migrate(source, target)
        assert read_all(target) == before

    def test_of_a_target_that_another_memory_was_copied_to(self, stores: Open) -> None:
        first, second, target = stores("memory"), stores("memory"), stores("memory")
        fill(first)
        fill(second)
        with pytest.raises(_Stop):
            migrate(first, StoppingStore(target, 5))
        with pytest.raises(InvalidInput, match="part of another memory"):
            migrate(second, target)
        migrate(first, target)
        with pytest.raises(InvalidInput, match="not empty"):
            migrate(second, target)

    def test_of_a_source_that_is_none_or_half(self, stores: Open) -> None:
        with pytest.raises(StorageFailed, match="no schema version"):
            migrate(stores("memory"), stores("memory"))
        source, half = stores("memory"), stores("memory")
        fill(source)
        with pytest.raises(_Stop):
            migrate(source, StoppingStore(half, 9))
        with pytest.raises(StorageFailed, match="not finished"):
            migrate(half, stores("memory"))

    def test_of_damage(self, stores: Open) -> None:
        source, target = stores("memory"), stores("memory")
        fill(source)
        damaged = MigrationSide(
            location="the source", store=source, list_damages=lambda: ["a table of events"]
        )
        with pytest.raises(StorageDamaged, match=r"a table of events\. .*--repair"):
            StoreMigration(damaged, side(target), clock=SystemClock()).run()
        assert migration_mark.read_mark(target.get) is not None

    @pytest.mark.parametrize("content", [b"", b"[]", b"{", json.dumps({"source": 1}).encode()])
    def test_of_a_damaged_mark(self, stores: Open, content: bytes) -> None:
        target = stores("memory")
        commit(target, Batch((Put(families.META, migration_mark.UNDER_WAY, content),)))
        with pytest.raises(StorageFailed, match="mark of a migration in the store is damaged"):
            schema.prepare(target)


def test_progress_counts_rows_by_phase(stores: Open) -> None:
    source, target = stores("memory"), stores("memory")
    fill(source, sample())
    seen: list[tuple[str, int, int]] = []
    report = StoreMigration(
        side(source),
        side(target),
        clock=SystemClock(),
        on_progress=lambda *each: seen.append(each),
    ).run()
    phases = {phase: [done for name, done, _ in seen if name == phase] for phase, *_ in seen}
    assert list(phases) == [COPYING, COMPARING]
    assert all(counts == sorted(counts) for counts in phases.values())
    assert phases[COPYING][-1] == report.copied


def test_large_rows_come_in_small_pages(stores: Open) -> None:
    store = stores("memory")
    rows = {families.EVENTS: [(b"%05d" % n, b"x" * 100_000) for n in range(150)]}
    fill(store, {**rows, families.GRIPS: [(b"%05d" % n, b"x") for n in range(5_000)]})
    large = [len(page) for page in migration.iterate_pages(store, families.EVENTS)]
    assert sum(large) == 150
    assert max(large[1:]) <= migration.PAGE_BYTES // 100_000 + 1
    small = [len(page) for page in migration.iterate_pages(store, families.GRIPS)]
    assert (sum(small), max(small)) == (5_000, migration.PAGE_ROWS)


@pytest.mark.parametrize("kind", list(PORT_STORES))
def test_a_counter_can_be_set(stores: Open, kind: str) -> None:
    store = stores(kind)
    for family, prefix in (OUTBOX, (families.JOURNAL, b"run:")):
        assert commit(store, Batch((SetCounter(family, prefix, b"41"),))) == [Committed()]
        assert store.get_sequence(family, prefix) == 41
        assert commit(store, Batch((Append(family, prefix, b""),))) == [Committed((42,))]
        assert store.scan(family, b"", keys.LAST, limit=9) == [(prefix + b"%020d" % 42, b"")]


PARTS = st.sampled_from([b"", b"\0", b"a", b"\x7f", b"\xff", b"p" * 2_015, b"p" * 2_048])
KEYS = st.builds(lambda parts, end: b"".join(parts) + end, st.lists(PARTS, max_size=3), st.binary())
VALUES = st.binary(max_size=40)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.dictionaries(st.tuples(st.sampled_from(FAMILIES[:-1]), KEYS), VALUES, max_size=40),
    outbox=st.integers(0, 2**62),
)
def test_there_and_back_again_nothing_changes(
    stores: Open, rows: dict[tuple[str, bytes], bytes], outbox: int
) -> None:
    start, between, end = stores("rocks"), stores("postgres"), stores("rocks")
    schema.prepare(start)
    puts = [Put(family, key, value) for (family, key), value in rows.items()]
    commit(start, Batch((*puts, SetCounter(*OUTBOX, b"%d" % outbox))))
    assert migrate(start, between).same
    assert migrate(between, end).same
    assert read_all(end) == read_all(between) == read_all(start)
