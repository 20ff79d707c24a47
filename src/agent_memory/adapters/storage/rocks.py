"""The RocksDB engine. The only module that knows the binding, and where its traps are kept shut:

- `set_iterate_lower_bound` sets the upper bound: ranges use a start key and an upper bound;
- iterating a snapshot sees later writes: a view is a plain iterator, which is stable;
- a write stall would block inside `write` with the GIL held: `no_slowdown`, retried outside;
- `write` holds the GIL even while it syncs, `flush_wal` does not: hence no sync in `write`;
- the LOCK is held while any handle or iterator lives: `close` drops them all;
- `cancel_all_background` makes `compact_range` return as if done, and `close` complain: both told;
- `items()` ends at a damaged block without an error: rows come from `iter()`, asked for its status;
- `create_checkpoint` holds the GIL, `flush` does not: families are flushed before a checkpoint.
"""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import rocksdict

from agent_memory.adapters.storage import families
from agent_memory.adapters.storage.committer import Stalled
from agent_memory.domain.batches import Delete, DeleteRange, Put, Row
from agent_memory.domain.errors import StorageClosed, StorageFailed, StorageLocked
from agent_memory.domain.status import FamilyStats, StoreStats

MIB = 1 << 20
CACHE_BYTES = 32 * MIB
MEMTABLE_BYTES = 64 * MIB
WAL_BYTES = 128 * MIB
DICTIONARY_BYTES = 32 << 10
# "lock" alone would also be found in "block checksum mismatch", and in a path.
_LOCKED = ("While lock file:", "lock hold by current process")
# How a message begins: any of these words may also be found in a path.
_STALLED = "Result incomplete:"
_CANCELLED = "Shutdown in progress:"


class RocksEngine:
    """One RocksDB database, opened for writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise StorageFailed(f"cannot open the store at {path}: {exc}") from exc
        # One cache object for all families: it must outlive the database.
        self._cache = rocksdict.Cache(CACHE_BYTES)
        names = {*families.ALL, *_existing(path)}
        try:
            self._db: rocksdict.Rdict | None = rocksdict.Rdict(
                str(path),
                options=_database_options(),
                column_families={name: self._options(name) for name in names},
            )
        except Exception as exc:  # the binding raises plain Exception throughout
            if any(reason in str(exc) for reason in _LOCKED):
                raise StorageLocked(f"another process has {path} open") from exc
            raise StorageFailed(f"cannot open the store at {path}: {exc}") from exc
        self._families = {name: self._db.get_column_family(name) for name in names}
        self._handles = {name: self._db.get_column_family_handle(name) for name in names}
        self._no_stall = rocksdict.WriteOptions()
        self._no_stall.no_slowdown = True
        self._interrupting = threading.Lock()
        self._compactions = 0
        self._interrupted = False

    def get(self, family: str, key: bytes, /) -> bytes | None:
        try:
            return self._family(family).get(key)
        except Exception as exc:
            raise self._failed("read", exc) from exc

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        try:
            found: Any = self._family(family).get(list(keys))
            return list(found)
        except Exception as exc:
            raise self._failed("read", exc) from exc

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
            raise self._failed("read", exc) from exc
        return self._rows(rows, start, limit=limit, reverse=reverse)

    def _rows(
        self, rows: rocksdict.RdictIter, start: bytes, *, limit: int, reverse: bool
    ) -> Iterator[Row]:
        advance = rows.prev if reverse else rows.next
        try:
            for _ in range(limit):
                if not rows.valid() or (reverse and rows.key() < start):
                    break
                yield rows.key(), rows.value()
                advance()
            rows.status()  # a damaged block ends an iteration as if it were the end of the data
        except Exception as exc:
            raise self._failed("read", exc) from exc

    def around(self, family: str, keys: Sequence[bytes], /, *, reach: int) -> list[list[Row]]:
        try:
            rows = self._family(family).iter(rocksdict.ReadOptions())
            found = [_beside(rows, key, reach) for key in keys]
            rows.status()
            return found
        except Exception as exc:
            raise self._failed("read", exc) from exc

    def write(self, operations: Sequence[Put | Delete | DeleteRange], /) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        handles = self._handles
        try:
            for operation in operations:
                handle = handles[operation.family]
                if isinstance(operation, Put):
                    batch.put(operation.key, operation.value, handle)
                elif isinstance(operation, Delete):
                    batch.delete(operation.key, handle)
                elif operation.start < operation.end:
                    batch.delete_range(operation.start, operation.end, handle)
            self._opened().write(batch, self._no_stall)
        except Exception as exc:
            if str(exc).startswith(_STALLED):
                raise Stalled(str(exc)) from exc
            raise self._failed("write", exc) from exc

    def flush(self) -> None:
        try:
            self._opened().flush_wal(True)
        except Exception as exc:
            raise self._failed("flush", exc) from exc

    def stats(self) -> StoreStats:
        try:
            return self._stats()
        except Exception as exc:
            raise self._failed("read", exc) from exc

    def _stats(self) -> StoreStats:
        database = self._opened()
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
            raise self._failed("compact", exc) from exc
        self._check_interrupted()

    def checkpoint(self, path: Path, /) -> None:
        """Make a copy of the database as it is now at a path that does not exist. Its tables are
        hard links where the file system has them."""
        try:
            for name in families.ALL:
                self._family(name).flush(True)
            # No variable for the checkpoint: it would keep the lock.
            rocksdict.Checkpoint(self._opened()).create_checkpoint(str(path))
        except Exception as exc:
            raise self._failed("copy", exc) from exc

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
                raise self._failed("interrupt", exc) from exc

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
                raise self._failed("close", exc) from exc

    def _opened(self) -> rocksdict.Rdict:
        if self._db is None:
            raise StorageClosed("the store is closed")
        return self._db

    def _family(self, name: str) -> rocksdict.Rdict:
        self._opened()
        return self._families[name]

    def _failed(self, what: str, exc: Exception) -> StorageFailed:
        if isinstance(exc, StorageFailed):
            return exc
        if isinstance(exc, KeyError):
            return StorageFailed(f"no family {exc}")
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


class RocksReader:
    """A database that is only looked at: no other process may write to it meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            names = [name for name in rocksdict.Rdict.list_cf(str(path)) if name != "default"]
            self._db = rocksdict.Rdict(
                str(path),
                options=rocksdict.Options(raw_mode=True),
                column_families={name: rocksdict.Options(raw_mode=True) for name in names},
                access_type=rocksdict.AccessType.read_only(),
            )
        except Exception as exc:
            raise StorageFailed(f"cannot open the store at {path}: {exc}") from exc

    def get(self, family: str, key: bytes, /) -> bytes | None:
        try:
            return self._db.get_column_family(family).get(key)
        except Exception as exc:
            raise StorageFailed(f"cannot read the store at {self._path}: {exc}") from exc

    def count(self, family: str, /) -> int:
        """Read every row, and so the checksum of every block."""
        try:
            rows = self._db.get_column_family(family).iter(rocksdict.ReadOptions())
            rows.seek_to_first()
            found = 0
            while rows.valid():
                found += 1
                rows.next()
            rows.status()
        except Exception as exc:
            raise StorageFailed(f"cannot read the store at {self._path}: {exc}") from exc
        return found

    def close(self) -> None:
        self._db.close()


def _beside(rows: rocksdict.RdictIter, key: bytes, reach: int) -> list[Row]:
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


def _existing(path: Path) -> list[str]:
    """The families on disk; a newer version may have added some that we must open too."""
    if not (path / "CURRENT").exists():
        return []
    try:
        return [name for name in rocksdict.Rdict.list_cf(str(path)) if name != "default"]
    except Exception as exc:
        raise StorageFailed(f"cannot read the store at {path}: {exc}") from exc
