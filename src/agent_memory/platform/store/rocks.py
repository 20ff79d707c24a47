"""The RocksDB engine, the only module that uses the binding.

It avoids these traps:

- `set_iterate_lower_bound` sets the upper bound: ranges use a start key and an upper bound;
- iterating a snapshot sees later writes: a view is a plain iterator, which is stable;
- a write stall would block inside `write` with the GIL held: we set `no_slowdown` and retry;
- `write` holds the GIL even while it syncs, `flush_wal` does not: `write` does not sync;
- the LOCK is held while any handle or iterator lives: `close` drops them all;
- `cancel_all_background` makes `compact_range` return as if it had finished, and makes `close`
  fail: we check for both;
- `items()` ends at a damaged block without an error: we use `iter()` and check its status;
- `create_checkpoint` holds the GIL, `flush` does not: we flush the families first;
- by default a log is read up to its first damaged record, and the rest is silently dropped: we
  refuse a log with any damage, and `damage` removes only the damaged records.
"""

import gc
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import rocksdict

from agent_memory.kernel.errors import StorageClosed, StorageDamaged, StorageFailed, StorageLocked
from agent_memory.kernel.status import FamilyStats, StoreStats
from agent_memory.platform import durable
from agent_memory.platform.store import families, keys, plans
from agent_memory.platform.store.acknowledged import Acknowledged, MissingWrites, WriteClaim
from agent_memory.platform.store.batches import Delete, DeleteRange, Put, Row
from agent_memory.platform.store.committer import Stalled
from agent_memory.platform.store.submissions import UnknownFamily

MIB = 1 << 20
CACHE_BYTES = 32 * MIB
MEMTABLE_BYTES = 64 * MIB
WAL_BYTES = 128 * MIB
DICTIONARY_BYTES = 32 << 10
MAX_GAPS = 1_000
_ALL_ROWS = 1 << 60
# "lock" alone would also match "block checksum mismatch", or a path.
_LOCKED = ("While lock file:", "lock hold by current process")
# The beginning of a message: a path may contain any of these words.
_STALLED = "Result incomplete:"
_CANCELLED = "Shutdown in progress:"
_CORRUPTED = "Corruption:"
_RECORDS = plans.counter_key(families.OUTBOX, keys.OUTBOX_PREFIX)
_LAST_NUMBER = re.compile(rb"(.*?)(\d{6,20})(?:\D.*)?$", re.DOTALL)  # a time or a sequence


Get = Callable[[str, Sequence[bytes]], Sequence[bytes | None]]
Mend = Callable[[Path], Callable[[Get], object] | None]


class Gap(NamedTuple):
    """A range of keys, both ends included, that cannot be read because a table is damaged."""

    family: str
    low: bytes
    high: bytes


class RocksEngine:
    """One RocksDB database, opened for writing."""

    def __init__(
        self,
        path: Path,
        mend: Mend | None = None,
        report_missing: Callable[[MissingWrites], object] | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        """Open the database at `path`, and create it unless `read_only`.

        `mend` removes damaged records from the logs of the closed database; the function that it
        may return is called once the database is open. `report_missing` is called then if the
        database lacks writes that were acknowledged. A read-only engine shows the state at the
        time it was opened.
        """
        self._path = path
        self._mend = mend
        self._report_missing = report_missing
        self._interrupting = threading.Lock()
        self._compactions = 0
        self._gaps: dict[Gap, None] = {}
        self._no_stall = rocksdict.WriteOptions()
        self._no_stall.no_slowdown = True
        # One cache object for all families: it must outlive the database.
        self._cache = rocksdict.Cache(CACHE_BYTES)
        if not read_only:
            try:
                durable.make_folder(path)  # RocksDB syncs the files in it, not its own name
            except OSError as exc:
                raise StorageFailed(f"cannot open the store at {path}: {exc}") from exc
        self._open(read_only=read_only)

    @staticmethod
    def is_store(path: Path) -> bool:
        """Tell whether there is a database at a path."""
        return (path / "CURRENT").exists()

    def _open(self, *, read_only: bool = False) -> None:
        existing = _list_families(self._path)
        names = {*existing, *(() if read_only else families.ALL)}
        self._interrupted = False
        self._db: rocksdict.Rdict | None = None
        self._acknowledged: Acknowledged | None = None
        self._records = 0  # the last number of the outbox
        mended: Callable[[Get], object] | None = None
        if read_only:
            self._db = self._open_for_reading(names)
        else:
            claim = WriteClaim(self._path)
            self._db, mended = self._open_for_writing(names)
            self._acknowledged = Acknowledged(self._path)
        self._families = {name: self._db.get_column_family(name) for name in names}
        self._handles = {name: self._db.get_column_family_handle(name) for name in names}
        if mended is not None:
            mended(self.get_many)
        if not read_only:
            self._compare(claim, self._db.latest_sequence_number())

    def _compare(self, claim: WriteClaim, sequence: int) -> None:
        """Report acknowledged writes that are missing, once."""
        with suppress(StorageFailed):  # a damaged row, which is reported by itself
            self._records = plans.read_counter(self, families.OUTBOX, keys.OUTBOX_PREFIX)
        missing = claim.find_missing(sequence, self._records)
        if missing is None or self._report_missing is None or self._acknowledged is None:
            return
        try:
            self._report_missing(missing)
        except OSError as exc:
            raise StorageFailed(f"cannot report what {self._path} lacks: {exc}") from exc
        self._acknowledged.reset()

    def _open_for_writing(
        self, names: AbstractSet[str]
    ) -> "tuple[rocksdict.Rdict, Callable[[Get], object] | None]":
        modes = rocksdict.DBRecoveryMode
        try:
            return self._database(names, modes.absolute_consistency()), None
        except StorageDamaged:
            if self._mend is None:
                raise
        try:
            mended = self._mend(self._path)
        except OSError as exc:
            raise StorageFailed(f"cannot repair the log of {self._path}: {exc}") from exc
        # Only an incomplete last write can be left, which was never acknowledged.
        return self._database(names, modes.skip_any_corrupted_record()), mended

    def _open_for_reading(self, names: AbstractSet[str]) -> rocksdict.Rdict:
        """Open files that cannot be written, as far as the log can be read."""
        return self._database(
            names,
            rocksdict.DBRecoveryMode.point_in_time(),
            access_type=rocksdict.AccessType.read_only(False),
        )

    def _database(
        self, names: AbstractSet[str], mode: rocksdict.DBRecoveryMode, **how: Any
    ) -> rocksdict.Rdict:
        options = _database_options()
        options.set_wal_recovery_mode(mode)
        try:
            return rocksdict.Rdict(
                str(self._path),
                options=options,
                column_families={name: self._options(name) for name in names},
                **how,
            )
        except Exception as exc:  # the binding raises plain Exception throughout
            if any(reason in str(exc) for reason in _LOCKED):
                raise StorageLocked(f"another process has {self._path} open") from exc
            raise _to_open_error(self._path, exc) from exc

    def reopen(self, *, read_only: bool) -> None:
        with suppress(StorageFailed):  # closing may report the same failure again
            self.close()
        gc.collect()  # handles in the traceback of an earlier error would keep the lock
        self._open(read_only=read_only)

    def get(self, family: str, key: bytes, /) -> bytes | None:
        try:
            return self._family(family).get(key)
        except Exception as exc:
            raise self._to_storage_error("read", exc) from exc

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        try:
            values: Any = self._family(family).get(list(keys))
            return list(values)
        except Exception as exc:
            if not _is_corruption(exc) or len(keys) == 1:
                raise self._to_storage_error("read", exc) from exc
        return [self._get_unless_damaged(family, key) for key in keys]

    def _get_unless_damaged(self, family: str, key: bytes) -> bytes | None:
        try:
            return self.get(family, key)
        except StorageFailed as exc:
            if not _is_corruption(exc.__cause__):
                raise
            self._note_gap(Gap(family, key, key))
            return None

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool
    ) -> Iterator[Row]:
        if start >= end:
            return iter(())
        try:
            bounds = rocksdict.ReadOptions()
            if not reverse:
                bounds.set_iterate_upper_bound(end)
            rows = self._family(family).iter(bounds)
            if reverse:
                rows.seek_for_prev(end)
                if rows.valid() and rows.key() == end:
                    rows.prev()
            else:
                rows.seek(start)
        except Exception as exc:
            raise self._to_storage_error("read", exc) from exc
        return self._rows(family, rows, start, end, limit=limit, reverse=reverse)

    def _rows(
        self,
        family: str,
        rows: rocksdict.RdictIter,
        start: bytes,
        end: bytes,
        *,
        limit: int,
        reverse: bool,
    ) -> Iterator[Row]:
        """Yield rows, skip damaged blocks, and record the ranges that could not be read."""
        advance = rows.prev if reverse else rows.next
        edge, left = end if reverse else start, limit
        while left > 0:
            try:
                while left > 0 and rows.valid() and not (reverse and rows.key() < start):
                    edge = rows.key()
                    yield edge, rows.value()
                    left -= 1
                    advance()
                rows.status()  # a damaged block ends an iteration as if there were no more rows
                return
            except Exception as exc:
                if not _is_corruption(exc):
                    raise self._to_storage_error("read", exc) from exc
            low, high = (start, edge) if reverse else (edge, end)
            self._note_gap(self._skip_damage(family, rows, low, high, reverse=reverse))

    def _skip_damage(
        self, family: str, rows: rocksdict.RdictIter, low: bytes, high: bytes, *, reverse: bool
    ) -> Gap:
        """Move to the nearest readable row after a damaged block."""

        def can_seek(key: bytes) -> bool:
            # A new iterator each time: near a damaged block it repeats its last error.
            probe = self._family(family).iter(rocksdict.ReadOptions())
            return _can_seek(probe, key, reverse=reverse)

        near, far = (high, low) if reverse else (low, high)
        edge = _find_nearest(near, far, can_seek)
        if not _can_seek(rows, edge, reverse=reverse):  # nothing after it is readable either
            edge = far
            _can_seek(rows, edge, reverse=reverse)
        if rows.valid():
            edge = rows.key()  # the key of a real row instead of the one we searched for
        return Gap(family, edge, high) if reverse else Gap(family, low, edge)

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        try:
            rows = self._family(family).iter(rocksdict.ReadOptions())
            return [self._read_neighbors(family, rows, key, reach) for key in keys]
        except Exception as exc:
            raise self._to_storage_error("read", exc) from exc

    def _read_neighbors(
        self, family: str, rows: rocksdict.RdictIter, key: bytes, reach: int
    ) -> list[Row]:
        try:
            neighbors = _seek_neighbors(rows, key, reach)
            rows.status()
            return neighbors
        except Exception as exc:
            if not _is_corruption(exc):
                raise
            self._note_gap(Gap(family, key, key))
            return []

    def count(self, family: str, /) -> int:
        """Count the rows of a family by reading all of them, and so check every block.

        Raises StorageFailed if one is damaged.
        """
        rows = sum(1 for _ in self.scan_all(family))
        if any(gap.family == family for gap in self._gaps):
            raise StorageFailed(f"a table of {family} in the store at {self._path} is damaged")
        return rows

    def scan_all(self, family: str, /) -> Iterator[Row]:
        """Iterate over every row of a family, from a stable view."""
        return self.scan(family, b"", keys.LAST, limit=_ALL_ROWS, reverse=False)

    @property
    def families(self) -> list[str]:
        """The families that exist: an older store may lack some if it is opened read-only."""
        return [name for name in families.ALL if name in self._families]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The ranges of keys that could not be read so far because their tables are damaged."""
        return tuple(self._gaps)

    def _note_gap(self, gap: Gap) -> None:
        if len(self._gaps) < MAX_GAPS:
            self._gaps[gap] = None

    def write(self, operations: Sequence[Put | Delete | DeleteRange], /) -> None:
        try:
            self._require_db().write(self._batch(operations), self._no_stall)
        except Exception as exc:
            if str(exc).startswith(_STALLED):
                raise Stalled(str(exc)) from exc
            raise self._to_storage_error("write", exc) from exc

    def _batch(self, operations: Sequence[Put | Delete | DeleteRange]) -> rocksdict.WriteBatch:
        """Build the batch in a frame of its own.

        The traceback of a failed write would keep the handles of the caller's frame, and with them
        the lock, so that the store could not be reopened.
        """
        batch = rocksdict.WriteBatch(raw_mode=True)
        handles = self._handles
        for operation in operations:
            handle = handles[operation.family]
            if isinstance(operation, Put):
                batch.put(operation.key, operation.value, handle)
            elif isinstance(operation, Delete):
                batch.delete(operation.key, handle)
            elif operation.start < operation.end:
                batch.delete_range(operation.start, operation.end, handle)
        for operation in reversed(operations):  # the counters come last
            if operation.family != families.META or not isinstance(operation, Put):
                break
            if operation.key == _RECORDS:
                self._records = int(operation.value)
        return batch

    def flush(self) -> None:
        try:
            database = self._require_db()
            database.flush_wal(True)
        except Exception as exc:
            raise self._to_storage_error("flush", exc) from exc
        if self._acknowledged is not None:
            self._acknowledged.note(database.latest_sequence_number(), self._records)

    def stats(self) -> StoreStats:
        try:
            return self._stats()
        except Exception as exc:
            raise self._to_storage_error("read", exc) from exc

    def _stats(self) -> StoreStats:
        database = self._require_db()
        sizes = [
            FamilyStats(
                name=name,
                entries=_property(self._families[name], "rocksdb.estimate-num-keys"),
                size_bytes=_property(self._families[name], "rocksdb.total-sst-files-size")
                + _property(self._families[name], "rocksdb.cur-size-all-mem-tables"),
            )
            for name in families.ALL
        ]
        # A compaction may remove a file after it is listed.
        files = [(path, _file_size(path)) for path in self._path.iterdir() if _is_data(path)]
        return StoreStats(
            path=str(self._path),
            size_bytes=sum(size for _, size in files),
            families=tuple(sizes),
            pending_compactions=sum(
                _property(family, "rocksdb.compaction-pending")
                for family in self._families.values()
            )
            + _property(database, "rocksdb.num-running-compactions"),
            wal_bytes=sum(size for path, size in files if path.suffix == ".log"),
        )

    def compact(self, family: str, /) -> None:
        """Compact a family. Raises StorageClosed if it is interrupted."""
        with self._interrupting:
            self._compactions += 1
        try:
            self._compact(family)
        finally:
            with self._interrupting:
                self._compactions -= 1

    def _compact(self, family: str) -> None:
        try:
            self._check_interrupted()
            self._family(family).flush(True)
            options = rocksdict.CompactOptions()
            # Rewrite also the files at the bottom: deleted rows must leave them.
            options.set_bottommost_level_compaction(rocksdict.BottommostLevelCompaction.force())
            # No variable for the family: the traceback of an error would keep it and the lock.
            self._family(family).compact_range(None, None, options)
        except Exception as exc:
            self._check_interrupted()
            raise self._to_storage_error("compact", exc) from exc
        self._check_interrupted()

    def copy_to(self, path: Path, /) -> None:
        """Copy the database to a path that does not exist.

        Tables are hard links if the file system supports them.
        """
        try:
            for name in families.ALL:
                self._family(name).flush(True)
            # No variable for the checkpoint: it would keep the lock.
            rocksdict.Checkpoint(self._require_db()).create_checkpoint(str(path))
        except Exception as exc:
            raise self._to_storage_error("copy", exc) from exc

    def _check_interrupted(self) -> None:
        if self._interrupted:
            raise StorageClosed("the store is closing: the compaction was cancelled")

    def interrupt(self) -> None:
        with self._interrupting:
            if self._interrupted or self._db is None:
                return
            self._interrupted = True
            try:
                if self._compactions:
                    self._db.cancel_all_background(False)
            except Exception as exc:
                raise self._to_storage_error("interrupt", exc) from exc

    def close(self) -> None:
        if self._db is None:
            return
        database, self._db = self._db, None
        if self._acknowledged is not None:
            self._acknowledged.close()
        try:
            self._families.clear()
            self._handles.clear()
            database.close()
        except Exception as exc:
            # It is closed; only its tables could not be written, and the log has their rows.
            if not (self._interrupted and str(exc).startswith(_CANCELLED)):
                raise self._to_storage_error("close", exc) from exc

    def _require_db(self) -> rocksdict.Rdict:
        if self._db is None:
            raise StorageClosed("the store is closed")
        return self._db

    def _family(self, name: str) -> rocksdict.Rdict:
        self._require_db()
        return self._families[name]

    def _to_storage_error(self, what: str, exc: Exception) -> StorageFailed:
        if isinstance(exc, StorageFailed):
            return exc
        if isinstance(exc, KeyError):
            return UnknownFamily(f"no family {exc}")
        return StorageFailed(f"cannot {what} the store at {self._path}: {exc}")

    def _options(self, family: str) -> rocksdict.Options:
        options = rocksdict.Options(raw_mode=True)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_block_size(16 << 10)
        # Fast compression in upper levels, strong compression at the bottom, where data stays.
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_bottommost_compression_type(rocksdict.DBCompressionType.zstd())
        options.set_write_buffer_size(MEMTABLE_BYTES // 4)
        match family:
            case families.EVENTS:
                options.set_compaction_style(rocksdict.DBCompactionStyle.universal())
                options.set_write_buffer_size(MEMTABLE_BYTES // 2)
                options.set_bottommost_compression_options(-14, 3, 0, DICTIONARY_BYTES, True)
                options.set_bottommost_zstd_max_train_bytes(100 * DICTIONARY_BYTES, True)
            case families.EVENT_IDS | families.GRAPH_CHECKPOINTS:
                # Every ingest looks for an id that does not exist, and every checkpoint for its
                # head: the filter answers from memory.
                table.set_bloom_filter(10, False)
            case families.TERM_VECTORS:
                # Hashes do not compress, and a question reads many rows that lie apart.
                no_compression = rocksdict.DBCompressionType.none()
                options.set_compression_type(no_compression)
                options.set_bottommost_compression_type(no_compression)
                table.set_block_size(4 << 10)
        options.set_block_based_table_factory(table)
        return options


def _seek_neighbors(rows: rocksdict.RdictIter, key: bytes, reach: int) -> list[Row]:
    """Read the rows around a key with two seeks: many keys share one iterator."""
    neighbors: list[Row] = []
    rows.seek_for_prev(key)
    own = rows.valid() and rows.key() == key
    for _ in range(reach + own):
        if not rows.valid():
            break
        neighbors.append((rows.key(), rows.value()))
        rows.prev()
    neighbors.reverse()
    rows.seek(key)
    if own:
        rows.next()
    for _ in range(reach):
        if not rows.valid():
            break
        neighbors.append((rows.key(), rows.value()))
        rows.next()
    return neighbors


def _find_nearest(near: bytes, far: bytes, can_seek: Callable[[bytes], bool]) -> bytes:
    """Find the key nearest to `near`, in the direction of `far`, that can be sought.

    If the key has a number, a time or a sequence, the last one grows in doubling steps, and the
    last step is bisected. Otherwise the bytes are bisected.
    """
    sign = 1 if near < far else -1
    match = _LAST_NUMBER.match(near)
    if match:
        head, digits = match.groups()
        number, width, step = int(digits), len(digits), 1
        last = number
        while 0 <= (tried := number + sign * step) < 10**width:
            if can_seek(b"%s%0*d" % (head, width, tried)):
                good = _bisect(last, tried, lambda n: can_seek(b"%s%0*d" % (head, width, n)))
                return b"%s%0*d" % (head, width, good)
            last, step = tried, 2 * step
    width = max(len(near), len(far)) + 1
    nearest = _bisect(
        int.from_bytes(near.ljust(width, b"\0"), "big"),
        int.from_bytes(far.ljust(width, b"\0"), "big"),
        lambda n: can_seek(n.to_bytes(width, "big")),
    )
    return nearest.to_bytes(width, "big")


def _bisect(bad: int, good: int, is_good: Callable[[int], bool]) -> int:
    """Return the good number next to the bad ones."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        bad, good = (bad, middle) if is_good(middle) else (middle, good)
    return good


def _can_seek(rows: rocksdict.RdictIter, key: bytes, *, reverse: bool) -> bool:
    try:
        (rows.seek_for_prev if reverse else rows.seek)(key)
        rows.status()
    except Exception as exc:
        if not _is_corruption(exc):
            raise
        return False
    return True


def _is_corruption(exc: BaseException | None) -> bool:
    return exc is not None and str(exc).startswith(_CORRUPTED)


def _property(database: rocksdict.Rdict, name: str) -> int:
    return database.property_int_value(name) or 0


def _is_data(path: Path) -> bool:
    """Return whether a file has data: RocksDB's own log and its options have none."""
    return path.suffix in (".sst", ".log") or path.name.startswith("MANIFEST")


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _database_options() -> rocksdict.Options:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_db_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_total_wal_size(WAL_BYTES)
    options.set_max_background_jobs(2)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(MIB)
    options.set_bytes_per_sync(MIB)
    # A manifest has the first and last key of every file since it was started. A new one is
    # started with each change of files, so that deleted keys soon disappear: 1.5 ms per flush.
    options.set_max_manifest_file_size(1)
    return options


def rebuild_manifest(path: Path) -> None:
    """Rebuild a closed store that cannot be opened from its sound tables.

    Damaged tables are moved to a folder `lost` inside it.
    """
    try:
        rocksdict.Rdict.repair(str(path), _database_options())
    except Exception as exc:
        raise StorageFailed(f"cannot repair the store at {path}: {exc}") from exc


def read_family_numbers(path: Path) -> dict[int, str]:
    """Return the families by their numbers in the logs.

    The number is the order in which RocksDB created them, and in which it lists their options.
    """
    newest = max(path.glob("OPTIONS-*"), key=lambda options: options.name, default=None)
    if newest is None:
        return {}
    return dict(
        enumerate(re.findall(r'^\[CFOptions "([^"]*)"\]', newest.read_text(), re.MULTILINE))
    )


def _list_families(path: Path) -> list[str]:
    """Return the families on disk, including those of a newer version, which we must open too."""
    try:
        if not (path / "CURRENT").exists():
            if any(path.glob("*.sst")):  # RocksDB would start a new store beside them
                raise StorageDamaged(f"{_CORRUPTED} the file CURRENT is missing")
            return []
        return [name for name in rocksdict.Rdict.list_cf(str(path)) if name != "default"]
    except Exception as exc:
        raise _to_open_error(path, exc) from exc


def _to_open_error(path: Path, exc: Exception) -> StorageFailed:
    if not _is_corruption(exc):
        return StorageFailed(f"cannot open the store at {path}: {exc}")
    return StorageDamaged(
        f"cannot open the store at {path}: {exc}; run `memory-daemon stop`, then `memory-daemon"
        " admin verify --repair`, which saves everything that can be read"
    )
