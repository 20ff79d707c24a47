"""The RocksDB engine. The only module that knows the binding, and where its traps are kept shut:

- `set_iterate_lower_bound` sets the upper bound: ranges use a start key and an upper bound;
- iterating a snapshot sees later writes: a view is a plain iterator, which is stable;
- a write stall would block inside `write` with the GIL held: `no_slowdown`, retried outside;
- `write` holds the GIL even while it syncs, `flush_wal` does not: hence no sync in `write`;
- the LOCK is held while any handle or iterator lives: `close` drops them all;
- `cancel_all_background` makes `compact_range` return as if done, and `close` complain: both told;
- `items()` ends at a damaged block without an error: rows come from `iter()`, asked for its status;
- `create_checkpoint` holds the GIL, `flush` does not: families are flushed before a checkpoint;
- by default a log is read up to its first damaged record, and the rest is dropped without a word:
  a log that is not perfect is refused, and mended by `damage`, which keeps all the rest.
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
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Delete, DeleteRange, Put, Row
from agent_memory.platform.store.committer import Stalled, UnknownFamily

MIB = 1 << 20
CACHE_BYTES = 32 * MIB
MEMTABLE_BYTES = 64 * MIB
WAL_BYTES = 128 * MIB
DICTIONARY_BYTES = 32 << 10
MAX_GAPS = 1_000
_LAST_KEY = b"\xff" * 512
_ALL_ROWS = 1 << 60
# "lock" alone would also be found in "block checksum mismatch", and in a path.
_LOCKED = ("While lock file:", "lock hold by current process")
# How a message begins: any of these words may also be found in a path.
_STALLED = "Result incomplete:"
_CANCELLED = "Shutdown in progress:"
_CORRUPTED = "Corruption:"
_LAST_NUMBER = re.compile(rb"(.*?)(\d{6,20})(?:\D.*)?$", re.DOTALL)  # a time or a sequence


Get = Callable[[str, Sequence[bytes]], Sequence[bytes | None]]
Mend = Callable[[Path], Callable[[Get], object] | None]


class Gap(NamedTuple):
    """A range of keys, ends included, that a damaged table hides."""

    family: str
    low: bytes
    high: bytes


class RocksEngine:
    """One RocksDB database, opened for writing."""

    def __init__(
        self,
        path: Path,
        mend: Mend | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        """`mend` takes damaged records out of the logs of the closed store, and may give what is to
        be called once it is open. One that is only read shows what was there when it was opened."""
        self._path = path
        self._mend = mend
        self._interrupting = threading.Lock()
        self._compactions = 0
        self._gaps: dict[Gap, None] = {}
        self._no_stall = rocksdict.WriteOptions()
        self._no_stall.no_slowdown = True
        # One cache object for all families: it must outlive the database.
        self._cache = rocksdict.Cache(CACHE_BYTES)
        if not read_only:
            try:
                durable.make_folder(path)  # RocksDB syncs what is in it, not its own name
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
        mended: Callable[[Get], object] | None = None
        if read_only:
            self._db = self._open_for_reading(names)
        else:
            self._db, mended = self._open_for_writing(names)
        self._families = {name: self._db.get_column_family(name) for name in names}
        self._handles = {name: self._db.get_column_family_handle(name) for name in names}
        if mended is not None:
            mended(self.get_many)

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
            raise StorageFailed(f"cannot mend the log of {self._path}: {exc}") from exc
        # What is left is a last write that was cut off, and never acknowledged.
        return self._database(names, modes.skip_any_corrupted_record()), mended

    def _open_for_reading(self, names: AbstractSet[str]) -> rocksdict.Rdict:
        """Beside files that cannot be written: as far as the log can be read."""
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
        with suppress(StorageFailed):  # it may complain again of what it failed in
            self.close()
        gc.collect()  # what an error of the past still refers to keeps the lock
        self._open(read_only=read_only)

    def get(self, family: str, key: bytes, /) -> bytes | None:
        try:
            return self._family(family).get(key)
        except Exception as exc:
            raise self._to_storage_error("read", exc) from exc

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        try:
            found: Any = self._family(family).get(list(keys))
            return list(found)
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
        """Go on behind blocks that are damaged, and note what could not be read."""
        advance = rows.prev if reverse else rows.next
        edge, left = end if reverse else start, limit
        while left > 0:
            try:
                while left > 0 and rows.valid() and not (reverse and rows.key() < start):
                    edge = rows.key()
                    yield edge, rows.value()
                    left -= 1
                    advance()
                rows.status()  # a damaged block ends an iteration as if no more data came
                return
            except Exception as exc:
                if not _is_corruption(exc):
                    raise self._to_storage_error("read", exc) from exc
            low, high = (start, edge) if reverse else (edge, end)
            self._note_gap(self._skip_damage(family, rows, low, high, reverse=reverse))

    def _skip_damage(
        self, family: str, rows: rocksdict.RdictIter, low: bytes, high: bytes, *, reverse: bool
    ) -> Gap:
        """Move to the nearest row that can be read behind a damaged block."""

        def can_seek(key: bytes) -> bool:
            # A new one each time: near a damaged block an iterator repeats its last error.
            probe = self._family(family).iter(rocksdict.ReadOptions())
            return _can_seek(probe, key, reverse=reverse)

        near, far = (high, low) if reverse else (low, high)
        edge = _nearest(near, far, can_seek)
        if not _can_seek(rows, edge, reverse=reverse):  # nothing behind it can be read either
            edge = far
            _can_seek(rows, edge, reverse=reverse)
        if rows.valid():
            edge = rows.key()  # a row says more than the key by which it was found
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
            found = _seek_neighbors(rows, key, reach)
            rows.status()
            return found
        except Exception as exc:
            if not _is_corruption(exc):
                raise
            self._note_gap(Gap(family, key, key))
            return []

    def count(self, family: str, /) -> int:
        """Read every row, and so the checksum of every block. Raises StorageFailed where one is
        damaged."""
        rows = sum(1 for _ in self.scan(family, b"", _LAST_KEY, limit=_ALL_ROWS, reverse=False))
        if any(gap.family == family for gap in self._gaps):
            raise StorageFailed(f"a table of {family} in the store at {self._path} is damaged")
        return rows

    @property
    def names(self) -> frozenset[str]:
        """The families there are: an older store may lack some, while it is only read."""
        return frozenset(self._families)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The ranges of keys that could not be read so far, because their tables are damaged."""
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
        """A frame of its own: the traceback of a failed write would keep the handles in this one,
        and with them the lock, so that the store could not be opened anew."""
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
        return batch

    def flush(self) -> None:
        try:
            self._require_db().flush_wal(True)
        except Exception as exc:
            raise self._to_storage_error("flush", exc) from exc

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
        # A compaction may remove a file between listing and looking.
        files = [(path, _file_size(path)) for path in self._path.iterdir() if _is_data(path)]
        return StoreStats(
            path=str(self._path),
            size_bytes=sum(size for _, size in files),
            families=tuple(sizes),
            pending_compactions=sum(
                _property(each, "rocksdb.compaction-pending") for each in self._families.values()
            )
            + _property(database, "rocksdb.num-running-compactions"),
            wal_bytes=sum(size for path, size in files if path.suffix == ".log"),
        )

    def compact(self, family: str, /) -> None:
        """Raises StorageClosed where it was interrupted."""
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
            # Files that are at the bottom already are rewritten too: deletions must leave them.
            options.set_bottommost_level_compaction(rocksdict.BottommostLevelCompaction.force())
            # No variable for the family: the traceback of an error would keep it, and the lock.
            self._family(family).compact_range(None, None, options)
        except Exception as exc:
            self._check_interrupted()
            raise self._to_storage_error("compact", exc) from exc
        self._check_interrupted()

    def checkpoint(self, path: Path, /) -> None:
        """Make a copy of the database as it is now at a path that does not exist. Its tables are
        hard links where the file system has them."""
        try:
            for name in families.ALL:
                self._family(name).flush(True)
            # No variable for the checkpoint: it would keep the lock.
            rocksdict.Checkpoint(self._require_db()).create_checkpoint(str(path))
        except Exception as exc:
            raise self._to_storage_error("copy", exc) from exc

    def _check_interrupted(self) -> None:
        if self._interrupted:
            raise StorageClosed("the store is closing: the compaction was given up")

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
        try:
            self._families.clear()
            self._handles.clear()
            database.close()
        except Exception as exc:
            # Closed it is; only its tables could not be written, which are in the log.
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
        # Quick on the way down, small at the bottom, where data stays.
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
                # Every ingest asks for an id that is not there, and every checkpoint for its head:
                # the filter answers from memory.
                table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        return options


def _seek_neighbors(rows: rocksdict.RdictIter, key: bytes, reach: int) -> list[Row]:
    """One seek, then steps to either side: many keys share one iterator."""
    found: list[Row] = []
    rows.seek_for_prev(key)
    own = rows.valid() and rows.key() == key
    for _ in range(reach + own):
        if not rows.valid():
            break
        found.append((rows.key(), rows.value()))
        rows.prev()
    found.reverse()
    rows.seek(key)
    if own:
        rows.next()
    for _ in range(reach):
        if not rows.valid():
            break
        found.append((rows.key(), rows.value()))
        rows.next()
    return found


def _nearest(near: bytes, far: bytes, can_seek: Callable[[bytes], bool]) -> bytes:
    """The key nearest to `near`, on the way to `far`, that can be sought. It is looked for at
    growing distances in the last number of the key, a time or a sequence, and then by halving the
    last step; where the key has none, by halving the way in bytes."""
    sign = 1 if near < far else -1
    match = _LAST_NUMBER.match(near)
    if match:
        head, digits = match.groups()
        number, width, step = int(digits), len(digits), 1
        last = number
        while 0 <= (tried := number + sign * step) < 10**width:
            if can_seek(b"%s%0*d" % (head, width, tried)):
                good = _halve(last, tried, lambda each: can_seek(b"%s%0*d" % (head, width, each)))
                return b"%s%0*d" % (head, width, good)
            last, step = tried, 2 * step
    width = max(len(near), len(far)) + 1
    found = _halve(
        int.from_bytes(near.ljust(width, b"\0"), "big"),
        int.from_bytes(far.ljust(width, b"\0"), "big"),
        lambda each: can_seek(each.to_bytes(width, "big")),
    )
    return found.to_bytes(width, "big")


def _halve(bad: int, good: int, is_good: Callable[[int], bool]) -> int:
    """The end of the good side, next to the bad one."""
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
    """RocksDB's own log and copies of its options are none."""
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
    # A manifest tells the first and last key of every file there ever was since it was begun. With
    # each change of files a new one is begun: a removed key is soon in none. Costs 1.5 ms a flush.
    options.set_max_manifest_file_size(1)
    return options


def rebuild_manifest(path: Path) -> None:
    """Make a closed store that cannot be opened one that can, from the tables that are sound. What
    is not, is left in a folder `lost` inside it."""
    try:
        rocksdict.Rdict.repair(str(path), _database_options())
    except Exception as exc:
        raise StorageFailed(f"cannot repair the store at {path}: {exc}") from exc


def family_numbers(path: Path) -> dict[int, str]:
    """The families by the numbers that logs know them by: the order in which RocksDB made them, and
    in which it lists their options."""
    newest = max(path.glob("OPTIONS-*"), key=lambda each: each.name, default=None)
    if newest is None:
        return {}
    return dict(
        enumerate(re.findall(r'^\[CFOptions "([^"]*)"\]', newest.read_text(), re.MULTILINE))
    )


def _list_families(path: Path) -> list[str]:
    """The families on disk; a newer version may have added some that we must open too."""
    try:
        if not (path / "CURRENT").exists():
            if any(path.glob("*.sst")):  # RocksDB would begin a new store beside them
                raise StorageDamaged(f"{_CORRUPTED} the file CURRENT is missing")
            return []
        return [name for name in rocksdict.Rdict.list_cf(str(path)) if name != "default"]
    except Exception as exc:
        raise _to_open_error(path, exc) from exc


def _to_open_error(path: Path, exc: Exception) -> StorageFailed:
    if not _is_corruption(exc):
        return StorageFailed(f"cannot open the store at {path}: {exc}")
    return StorageDamaged(
        f"cannot open the store at {path}: {exc}; `memory-daemon stop`, then `memory-daemon admin"
        " verify --repair`, saves what can be read"
    )
