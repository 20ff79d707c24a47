"""Memories on an ordered store. One batch writes the record, its outbox entry and its place in the
note queue."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace

import msgspec

from agent_memory.features.log.adapters.outbox_entries import encode_entry
from agent_memory.features.log.model.outbox import MemoryChanged
from agent_memory.features.memories.model.memories import (
    HEX_CHARS,
    NAMESPACES,
    Home,
    Memory,
    MemoryStatus,
)
from agent_memory.features.memories.model.tiers import MemoryUse, Tier
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.kernel.errors import InvalidInput, Overloaded, StorageFailed
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.ports import OrderedStore, Ticket
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import (
    Absent,
    Append,
    Batch,
    CommitOutcome,
    Committed,
    Delete,
    Equals,
    Operation,
    Put,
    Row,
)

_NAMED = 100
_HOMES = 10_000
_NOTE = b"note:"


class _MemoryRecord(msgspec.Struct, array_like=True, frozen=True):
    summary: str
    content: str
    created_ms: int
    updated_ms: int
    spec: str
    tags: list[str]
    relates_to: tuple[str, ...]
    status: MemoryStatus
    commit: str
    superseded_by: str
    event_id: str
    session_id: str


class _UseRecord(msgspec.Struct, array_like=True, frozen=True):
    count: int
    last_ms: int
    tier: str


class StoredMemories:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def get(self, key: MemoryKey, /) -> Memory | None:
        alike = self.find_by_digest(key.domain, key.namespace, key.digest[:HEX_CHARS])
        return next((memory for memory in alike if memory.digest == key.digest), None)

    def find_by_digest(self, domain: Domain, namespace: str, start: str, /) -> list[Memory]:
        if namespace not in NAMESPACES:
            return []
        # Read all that share an id prefix: their order gives each its index.
        wide = start[:HEX_CHARS]
        prefix = keys.domain(domain) + f"{namespace}:{wide}".encode()
        rows = self._store.scan(families.MEMORIES, prefix, keys.end_of(prefix), limit=_NAMED)
        return [memory for memory in _decode_rows(rows) if memory.digest.startswith(start)]

    def list_domain(
        self, domain: Domain, /, *, after: MemoryKey | None, limit: int
    ) -> list[Memory]:
        prefix = keys.domain(domain)
        start = prefix if after is None else keys.after(keys.memory(after))
        rows = self._store.scan(families.MEMORIES, start, keys.end_of(prefix), limit=limit)
        page = list(_decode_rows(rows))
        if after is None or not page or page[0].digest[:HEX_CHARS] != after.digest[:HEX_CHARS]:
            return page
        # The page begins between two that share an id prefix: their indexes continue.
        return [self.get(memory.key) or memory for memory in page]

    def list_domains(self) -> list[Domain]:
        domains: list[Domain] = []
        start, end = keys.MEMORY_PREFIX, keys.end_of(keys.MEMORY_PREFIX)
        while rows := self._store.scan(families.MEMORIES, start, end, limit=1):
            domains.append(keys.parse_memory(rows[0][0]).domain)
            start = keys.end_of(keys.domain(domains[-1]))
        return domains

    def write(self, changes: Sequence[MemoryChange], /) -> list[bool]:
        outcomes = self._store.submit([_batch(change) for change in changes]).result()
        return [isinstance(outcome, Committed) for outcome in outcomes]


class StoredUses:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store
        self._counting = threading.Lock()
        self._pending: Future[list[CommitOutcome]] | None = None

    def add(self, memory_keys: Sequence[MemoryKey], at: Millis, /) -> None:
        with self._counting, suppress(StorageFailed, Overloaded):  # counting must not fail a recall
            self._await_counts()
            uses = zip(memory_keys, self.get_many(memory_keys), strict=True)
            self._put(
                (key, replace(use, count=use.count + 1, last_ms=max(at, use.last_ms)))
                for key, use in uses
            )

    def get_many(self, memory_keys: Sequence[MemoryKey], /) -> list[MemoryUse]:
        rows = self._store.get_many(families.MEMORY_USES, list(map(keys.memory, memory_keys)))
        return [
            MemoryUse() if row is None else _decode_use(codec.unpack(row, _UseRecord))
            for row in rows
        ]

    def set_tiers(self, tiers: Mapping[MemoryKey, Tier], /) -> None:
        with self._counting:
            self._await_counts()
            uses = zip(tiers.items(), self.get_many(list(tiers)), strict=True)
            self._put(((key, replace(use, tier=tier)) for (key, tier), use in uses), wait=True)

    def put(self, uses: Sequence[tuple[MemoryKey, MemoryUse]], /) -> None:
        with self._counting:
            self._await_counts()
            self._put(uses, wait=True)

    def _put(self, uses: Iterable[tuple[MemoryKey, MemoryUse]], *, wait: bool = False) -> None:
        puts = [
            Put(
                families.MEMORY_USES,
                keys.memory(key),
                codec.pack(_UseRecord(count=use.count, last_ms=use.last_ms, tier=use.tier.value)),
            )
            for key, use in uses
        ]
        if puts:  # counts do not wait: losing one in a crash does no harm
            self._pending = self._store.submit([Batch(tuple(puts))])
            if wait:
                self._pending.result()

    def _await_counts(self) -> None:
        """Wait until earlier counts can be read; ignore those that could not be written."""
        pending, self._pending = self._pending, None
        if pending is not None:
            with suppress(StorageFailed):
                pending.result()

    def forget(self, key: MemoryKey, /) -> None:
        self._store.submit([Batch((Delete(families.MEMORY_USES, keys.memory(key)),))]).result()


class StoredNoteQueue:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def list_homes(self) -> list[Home]:
        homes: list[Home] = []
        start, end = _NOTE, keys.end_of(_NOTE)
        while len(homes) < _HOMES and (
            rows := self._store.scan(families.NOTE_QUEUE, start, end, limit=1)
        ):
            home = Home(keys.unescape(rows[0][0].split(b":")[1]))
            homes.append(home)
            start = keys.end_of(_home_prefix(home))
        return homes

    def list_pending(self, home: Home, /, *, limit: int) -> list[tuple[Ticket, MemoryKey]]:
        prefix = _home_prefix(home)
        rows = self._store.scan(families.NOTE_QUEUE, prefix, keys.end_of(prefix), limit=limit)
        return [(Ticket(key), keys.parse_memory(codec.decode_key(value))) for key, value in rows]

    def mark_done(self, tickets: Sequence[Ticket], /) -> None:
        if tickets:
            removals = tuple(Delete(families.NOTE_QUEUE, ticket) for ticket in tickets)
            self._store.submit([Batch(removals)]).result()


def _home_prefix(home: Home) -> bytes:
    return b"%s%s:" % (_NOTE, keys.escape(home))


def _batch(change: MemoryChange) -> Batch:
    before, after, home = change
    key = keys.memory(after.key)
    entry = encode_entry(MemoryChanged(key=after.key))
    operations: list[Operation] = [
        Put(families.MEMORIES, key, _encode_memory(after)),
        Append(families.OUTBOX, keys.OUTBOX_PREFIX, entry),
    ]
    if home is not None:
        operations.append(Append(families.NOTE_QUEUE, _home_prefix(home), entry))
    expected = (
        Absent(families.MEMORIES, key)
        if before is None
        else Equals(families.MEMORIES, key, _encode_memory(before))
    )
    return Batch(tuple(operations), (expected,))


def _encode_memory(memory: Memory) -> bytes:
    record = msgspec.convert(memory, _MemoryRecord, from_attributes=True)
    record.tags.sort()
    return codec.pack(record)


def _decode_rows(rows: Iterable[Row]) -> Iterator[Memory]:
    """Yield the memories of ordered rows, and number those that share an id prefix."""
    last: Memory | None = None
    for key, value in rows:
        memory = _decode_memory(keys.parse_memory(key), value)
        if (
            last is not None
            and last.namespace == memory.namespace
            and last.digest[:HEX_CHARS] == memory.digest[:HEX_CHARS]
        ):
            memory = replace(memory, index=last.index + 1)
        yield memory
        last = memory


def _decode_memory(key: MemoryKey, value: bytes) -> Memory:
    fields = msgspec.structs.asdict(codec.unpack(value, _MemoryRecord))
    fields["tags"] = frozenset(fields["tags"])
    try:
        return Memory(**key._asdict(), **fields)
    except (ValueError, InvalidInput) as exc:
        raise StorageFailed(
            f"the stored memory {key.namespace}:{key.digest[:HEX_CHARS]} is damaged"
        ) from exc


def _decode_use(record: _UseRecord) -> MemoryUse:
    return MemoryUse(count=record.count, last_ms=Millis(record.last_ms), tier=Tier(record.tier))
