"""The traps of the RocksDB binding: each still exists, and our engine avoids it.

A raw test that fails after an upgrade is good news: its workaround in `rocks.py` can go.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from agent_memory.kernel.errors import StorageFailed, StorageLocked
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Committed, DeleteRange, Put
from agent_memory.platform.store.committer import CommittedStore, Stalled
from agent_memory.platform.store.rocks import RocksEngine
from tests.contract.stores import HIGHEST, TIMEOUT, commit, everything, rocks, unexpected

A = families.EVENTS
KEYS = [b"%d" % n for n in range(6)]


def raw_options() -> rocksdict.Options:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    return options


def open_raw(path: Path, *names: str) -> rocksdict.Rdict:
    return rocksdict.Rdict(
        str(path),
        options=raw_options(),
        column_families={name: raw_options() for name in names},
    )


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[rocksdict.Rdict]:
    """Yield the binding itself, with six keys."""
    db = open_raw(tmp_path / "raw")
    for key in KEYS:
        db.put(key, b"old")
    yield db
    db.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RocksEngine]:
    """Yield our engine, with the same six keys."""
    opened = RocksEngine(tmp_path / "engine")
    opened.write([Put(A, key, b"old") for key in KEYS])
    yield opened
    opened.close()


class TestLowerBounds:
    def test_the_binding_takes_a_lower_bound_for_an_upper_one(self, raw: rocksdict.Rdict) -> None:
        bound = rocksdict.ReadOptions()
        bound.set_iterate_lower_bound(KEYS[2])
        rows: Any = raw.items(read_opt=bound)
        assert [key for key, _ in rows] == KEYS[:2]

    @pytest.mark.parametrize("reverse", [False, True])
    def test_our_scan_keeps_both_bounds(self, engine: RocksEngine, reverse: bool) -> None:
        rows = engine.scan(A, KEYS[2], KEYS[4], limit=9, reverse=reverse)
        assert sorted(key for key, _ in rows) == KEYS[2:4]


class TestStableViews:
    def test_iterating_a_snapshot_of_the_binding_sees_later_writes(
        self, raw: rocksdict.Rdict
    ) -> None:
        snapshot = raw.snapshot()
        raw.put(KEYS[0], b"new")
        rows: Any = snapshot.items()
        assert dict(rows)[KEYS[0]] == b"new"

    def test_point_reads_of_a_snapshot_are_isolated(self, raw: rocksdict.Rdict) -> None:
        snapshot = raw.snapshot()
        raw.put(KEYS[0], b"new")
        assert snapshot[KEYS[0]] == b"old"

    def test_a_plain_iterator_of_the_binding_is_stable(self, raw: rocksdict.Rdict) -> None:
        rows: Any = raw.items()
        raw.put(KEYS[0], b"new")
        raw.delete(KEYS[1])
        assert dict(rows) == dict.fromkeys(KEYS, b"old")

    @pytest.mark.parametrize("reverse", [False, True])
    def test_our_scan_is_stable(self, engine: RocksEngine, reverse: bool) -> None:
        rows = engine.scan(A, b"", HIGHEST, limit=9, reverse=reverse)
        engine.write([Put(A, KEYS[0], b"new"), Put(A, b"9", b"new")])
        engine.write([DeleteRange(A, KEYS[1], KEYS[3])])
        assert dict(rows) == dict.fromkeys(KEYS, b"old")


class TestWriteStalls:
    def test_the_binding_says_incomplete_instead_of_blocking(self, tmp_path: Path) -> None:
        uncompacted = never_compacting(raw_options())
        db = rocksdict.Rdict(str(tmp_path), options=uncompacted)
        for value in (b"1", b"2"):
            db.put(b"k", value)
            db.flush()
        db.set_options(stall_at(2))
        options = rocksdict.WriteOptions()
        options.no_slowdown = True
        with pytest.raises(Exception, match=r"(?i)^result incomplete"):
            db.put(b"k", b"3", write_opt=options)
        db.set_options(stall_at(100))
        db.put(b"k", b"4", write_opt=options)
        assert db.get(b"k") == b"4"
        db.close()

    def test_our_engine_raises_stalled_and_writes_nothing(self, stalling: "Stalling") -> None:
        with pytest.raises(Stalled):
            stalling.write([Put(A, b"k", b"v")])
        assert stalling.get(A, b"k") is None

    def test_our_engine_goes_on_after_a_stall(self, stalling: "Stalling") -> None:
        with pytest.raises(Stalled):
            stalling.write([Put(A, b"k", b"v")])
        stalling.relieve()
        stalling.write([Put(A, b"k", b"v")])
        assert stalling.get(A, b"k") == b"v"

    def test_our_store_outlasts_a_stall(self, stalling: "Stalling") -> None:
        store = CommittedStore(stalling, watch=unexpected)
        future = store.submit([Batch((Put(A, b"k", b"v"),))])
        stalling.relieve()
        assert future.result(TIMEOUT) == [Committed()]
        assert store.get(A, b"k") == b"v"
        store.close()

    def test_an_error_that_names_a_path_is_not_taken_for_a_stall(self, tmp_path: Path) -> None:
        script = (
            "import resource, sys, pathlib;"
            "from agent_memory.platform.store.rocks import RocksEngine;"
            "from agent_memory.platform.store.batches import Put;"
            "from agent_memory.kernel.errors import StorageFailed\n"
            "engine = RocksEngine(pathlib.Path(sys.argv[1]))\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
            "try: engine.write([Put('events', b'k', b'v')])\n"
            "except StorageFailed as exc: print(exc, flush=True)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "Result incomplete: x")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert "cannot write the store" in done.stdout, done.stderr

    @pytest.fixture
    def stalling(self, tmp_path: Path) -> Iterator["Stalling"]:
        engine = Stalling(tmp_path / "engine")
        engine.stall()
        yield engine
        engine.relieve()  # closing would wait for the stall to end
        engine.close()


class Stalling(RocksEngine):
    """Our engine with a family that refuses writes while it has two files."""

    def _options(self, family: str) -> rocksdict.Options:
        return never_compacting(super()._options(family))

    def stall(self) -> None:
        for key in (b"1", b"2"):
            self.write([Put(A, key, b"v")])
            self._families[A].flush()
        self._families[A].set_options(stall_at(2))

    def relieve(self) -> None:
        if A in self._families:
            self._families[A].set_options(stall_at(100))


def never_compacting(options: rocksdict.Options) -> rocksdict.Options:
    """Return options without compactions, so that a stall lasts until it is relieved."""
    never = rocksdict.UniversalCompactOptions()
    never.min_merge_width = never.max_merge_width = 1_000
    never.max_size_amplification_percent = 1 << 30
    options.set_compaction_style(rocksdict.DBCompactionStyle.universal())
    options.set_universal_compaction_options(never)
    return options


def stall_at(files: int) -> dict[str, str]:
    return {
        "level0_file_num_compaction_trigger": str(files),
        "level0_slowdown_writes_trigger": str(files),
        "level0_stop_writes_trigger": str(files),
    }


class TestLocks:
    @pytest.mark.parametrize("kind", ["iterator", "family handle", "snapshot"])
    def test_the_binding_stays_locked_while_an_object_of_it_lives(
        self, tmp_path: Path, kind: str
    ) -> None:
        db = open_raw(tmp_path, A)
        db.put(b"k", b"v")
        openers: dict[str, Callable[[], object]] = {
            "iterator": db.items,
            "family handle": lambda: db.get_column_family_handle(A),
            "snapshot": db.snapshot,
        }
        alive = openers[kind]()
        openers.clear()
        db.close()
        with pytest.raises(Exception, match="lock hold by current process"):
            open_raw(tmp_path, A)
        del alive
        gc.collect()
        open_raw(tmp_path, A).close()

    def test_our_engine_releases_the_lock_when_closed(self, tmp_path: Path) -> None:
        engine = RocksEngine(tmp_path)
        engine.write([Put(A, key, b"v") for key in KEYS])
        assert len(list(engine.scan(A, b"", HIGHEST, limit=9, reverse=False))) == len(KEYS)
        engine.close()
        again = RocksEngine(tmp_path)
        assert again.get(A, KEYS[0]) == b"v"
        again.close()

    def test_our_store_releases_the_lock_after_scans_cut_short(self, tmp_path: Path) -> None:
        store = rocks(tmp_path)
        commit(store, Batch(tuple(Put(A, key, b"v") for key in KEYS)))
        assert len(store.scan(A, b"", HIGHEST, limit=2)) == 2
        assert len(store.scan(A, b"", HIGHEST, limit=2, reverse=True)) == 2
        store.close()
        rocks(tmp_path).close()

    def test_a_store_that_this_process_holds_is_locked(self, tmp_path: Path) -> None:
        engine = RocksEngine(tmp_path)
        with pytest.raises(StorageLocked, match=r"another process has .* open"):
            RocksEngine(tmp_path)
        engine.close()

    def test_a_store_that_another_process_holds_is_locked(self, tmp_path: Path) -> None:
        holder = (
            "import sys, pathlib;"
            "from agent_memory.platform.store.rocks import RocksEngine;"
            "engine = RocksEngine(pathlib.Path(sys.argv[1]));"
            "print('held', flush=True);"
            "sys.stdin.read();"
            "engine.close()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", holder, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            with pytest.raises(StorageLocked):
                RocksEngine(tmp_path)
            process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0
        RocksEngine(tmp_path).close()


class TestDamage:
    def test_a_damaged_store_is_not_called_locked(self, tmp_path: Path) -> None:
        path = tmp_path / "clock"  # the word is in the path, and in "block checksum mismatch"
        only_table(path).unlink()
        with pytest.raises(StorageFailed) as raised:
            RocksEngine(path)
        assert not isinstance(raised.value, StorageLocked)

    def test_iterating_the_binding_ends_at_a_damaged_block_without_an_error(
        self, tmp_path: Path
    ) -> None:
        damage(only_table(tmp_path))
        db = open_raw(tmp_path, *families.ALL)
        family = db.get_column_family(A)
        rows: Any = family.items()
        assert 0 < len(list(rows)) < ROWS
        del rows, family
        db.close()

    @pytest.mark.parametrize("reverse", [False, True])
    def test_our_scan_goes_on_behind_damaged_blocks_and_names_them(
        self, tmp_path: Path, reverse: bool
    ) -> None:
        damage(only_table(tmp_path), at=(0.25, 0.5, 0.75))
        engine = RocksEngine(tmp_path)
        try:
            rows = list(engine.scan(A, b"", HIGHEST, limit=10 * ROWS, reverse=reverse))
            gaps = engine.gaps
        finally:
            engine.close()
        read = [key for key, _ in rows]
        assert read == sorted(read, reverse=reverse)
        missing = {b"%06d" % n for n in range(ROWS)} - set(read)
        assert 3 <= len(missing) <= 3 * 20  # a block has about 16 rows
        assert len(gaps) == 3
        for key in missing:
            assert any(gap.family == A and gap.low <= key <= gap.high for gap in gaps), key

    def test_a_page_of_a_scan_ends_where_it_was_asked_to(self, tmp_path: Path) -> None:
        damage(only_table(tmp_path))
        engine = RocksEngine(tmp_path)
        try:
            whole = list(engine.scan(A, b"", HIGHEST, limit=10 * ROWS, reverse=False))
            assert list(engine.scan(A, b"", HIGHEST, limit=300, reverse=False)) == whole[:300]
            assert len(whole) > 300
        finally:
            engine.close()

    def test_of_many_rows_only_the_damaged_are_missing(self, tmp_path: Path) -> None:
        damage(only_table(tmp_path))
        engine = RocksEngine(tmp_path)
        keys = [b"%06d" % n for n in range(ROWS)]
        try:
            rows = engine.get_many(A, keys)
            missing = [key for key, row in zip(keys, rows, strict=True) if row is None]
            assert 0 < len(missing) < 40
            assert {gap.low for gap in engine.gaps} == set(missing)
        finally:
            engine.close()

    def test_a_single_read_of_a_damaged_row_fails(self, tmp_path: Path) -> None:
        damage(only_table(tmp_path))
        engine = RocksEngine(tmp_path)
        try:
            engine.get_many(A, [b"%06d" % n for n in range(ROWS)])
            with pytest.raises(StorageFailed, match="block checksum mismatch"):
                engine.get(A, engine.gaps[0].low)
        finally:
            engine.close()

    def test_a_place_that_cannot_hold_a_store_is_storage_failed(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(StorageFailed):
            RocksEngine(tmp_path / "file")


ROWS = 400


def only_table(path: Path) -> Path:
    """Return the one table with all events of a store that was just closed: about 25 blocks."""
    engine = RocksEngine(path)
    engine.write([Put(A, b"%06d" % n, os.urandom(1_000)) for n in range(ROWS)])
    engine.flush()
    engine.close()
    RocksEngine(path).close()  # the rest of the log becomes a table here
    (table,) = path.glob("*.sst")
    return table


def damage(table: Path, at: Sequence[float] = (0.5,)) -> None:
    content = bytearray(table.read_bytes())
    for share in at:
        place = int(len(content) * share)
        content[place : place + 64] = bytes(64)
    table.write_bytes(content)


class TestReversedRanges:
    def test_the_binding_takes_no_write_after_one(self, tmp_path: Path) -> None:
        db = open_raw(tmp_path / "raw", A)
        batch = rocksdict.WriteBatch(raw_mode=True)
        batch.delete_range(b"b", b"a", db.get_column_family_handle(A))
        with pytest.raises(Exception, match="end key comes before start key"):
            db.write(batch)
        with pytest.raises(Exception, match="end key comes before start key"):
            db.put(b"k", b"v")
        with pytest.raises(Exception, match="end key comes before start key"):
            db.close()

    def test_our_engine_goes_on_after_one(self, tmp_path: Path) -> None:
        engine = RocksEngine(tmp_path)
        engine.write([DeleteRange(A, b"b", b"a")])
        engine.write([Put(A, b"k", b"v")])
        assert engine.get(A, b"k") == b"v"
        engine.close()


class TestUnknownFamilies:
    def test_a_store_with_a_family_of_a_newer_version_opens(self, tmp_path: Path) -> None:
        rocks(tmp_path).close()
        newer = open_raw(tmp_path, *families.ALL, "from_the_future")
        newer.get_column_family("from_the_future").put(b"k", b"kept")
        newer.close()

        store = rocks(tmp_path)
        commit(store, Batch((Put(A, b"k", b"v"),)))
        assert everything(store, A) == [(b"k", b"v")]
        store.close()

        newer = open_raw(tmp_path, *families.ALL, "from_the_future")
        assert newer.get_column_family("from_the_future").get(b"k") == b"kept"
        newer.close()

    def test_a_store_that_lacks_a_family_gains_it(self, tmp_path: Path) -> None:
        open_raw(tmp_path, A).close()
        store = rocks(tmp_path)
        commit(store, Batch((Put(families.OUTBOX, b"k", b"v"),)))
        assert everything(store, families.OUTBOX) == [(b"k", b"v")]
        store.close()
