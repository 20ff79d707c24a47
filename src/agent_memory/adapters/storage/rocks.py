"""The RocksDB engine. The only module that knows the binding, and where its traps are kept shut:

- `set_iterate_lower_bound` sets the upper bound: ranges use a start key and an upper bound;
- iterating a snapshot sees later writes: a view is a plain iterator, which is stable;
- a write stall would block inside `write` with the GIL held: `no_slowdown`, retried outside;
- `write` holds the GIL even while it syncs, `flush_wal` does not: hence no sync in `write`;
- the LOCK is held while any handle or iterator lives: `close` drops them all.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import rocksdict

from agent_memory.adapters.storage import families
from agent_memory.adapters.storage.committer import Stalled
from agent_memory.domain.batches import Delete, DeleteRange, Put, Row
from agent_memory.domain.errors import StorageClosed, StorageFailed, StorageLocked

MIB = 1 << 20
CACHE_BYTES = 32 * MIB
MEMTABLE_BYTES = 64 * MIB
WAL_BYTES = 128 * MIB
DICTIONARY_BYTES = 32 << 10


class RocksEngine:
    """One RocksDB database, opened for writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
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
            if "lock" in str(exc).lower():
                raise StorageLocked(f"another process has {path} open") from exc
            raise StorageFailed(f"cannot open the store at {path}: {exc}") from exc
        self._families = {name: self._db.get_column_family(name) for name in names}
        self._handles = {name: self._db.get_column_family_handle(name) for name in names}
        self._no_stall = rocksdict.WriteOptions()
        self._no_stall.no_slowdown = True

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
        try:
            opened = self._family(family)
            if start >= end:
                return iter(())
            if reverse:
                rows: Any = opened.items(backwards=True, from_key=end)
                inside = (row for row in rows if row[0] < end)
                return islice(takewhile(lambda row: row[0] >= start, inside), limit)
            bound = rocksdict.ReadOptions()
            bound.set_iterate_upper_bound(end)
            forward: Any = opened.items(from_key=start, read_opt=bound)
            return islice(forward, limit)
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
                else:
                    batch.delete_range(operation.start, operation.end, handle)
            self._opened().write(batch, self._no_stall)
        except Exception as exc:
            if "incomplete" in str(exc).lower():
                raise Stalled(str(exc)) from exc
            raise self._failed("write", exc) from exc

    def flush(self) -> None:
        try:
            self._opened().flush_wal(True)
        except Exception as exc:
            raise self._failed("flush", exc) from exc

    def close(self) -> None:
        if self._db is None:
            return
        # Memtables are left to the WAL: closing stays quick, opening replays.
        self._families.clear()
        self._handles.clear()
        self._db.close()
        self._db = None

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
        options.set_compression_type(rocksdict.DBCompressionType.zstd())
        options.set_write_buffer_size(MEMTABLE_BYTES // 4)
        match family:
            case families.EVENTS:
                options.set_compaction_style(rocksdict.DBCompactionStyle.universal())
                options.set_compression_options(-14, 3, 0, DICTIONARY_BYTES)
                options.set_zstd_max_train_bytes(100 * DICTIONARY_BYTES)
            case families.EVENT_IDS:
                # Every ingest asks for an id that is not there: the filter answers from memory.
                table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        return options


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
    return options


def _existing(path: Path) -> list[str]:
    """The families on disk; a newer version may have added some that we must open too."""
    if not (path / "CURRENT").exists():
        return []
    try:
        return [name for name in rocksdict.Rdict.list_cf(str(path)) if name != "default"]
    except Exception as exc:
        raise StorageFailed(f"cannot read the store at {path}: {exc}") from exc
