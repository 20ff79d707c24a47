"""Memories on an ordered store. One batch writes the record, its outbox entry and its place in the
note queue."""

import threading
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice

import msgspec

from agent_memory.features.log.adapters.outbox_entries import encode_entry
from agent_memory.features.log.model.outbox import MemoryChanged
from agent_memory.features.memories.model.memories import (
    HEX_CHARS,
    NAMESPACES,
    Home,
    Memory,
    MemoryOutline,
    MemoryStatus,
)
from agent_memory.features.memories.model.name_changes import NameChange
from agent_memory.features.memories.model.tiers import MemoryUse, Tier
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.kernel.errors import InvalidInput, Overloaded, StorageFailed
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.ports import OrderedStore, Ticket
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import (
    Append,
    Batch,
    CommitOutcome,
    Committed,
    Delete,
    Operation,
    Put,
    Row,
)
from agent_memory.platform.store.rows import expect, iter_pages, write

_NAMED = 100
_HOMES = 10_000
_PAGE = 5_000
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


class _TracedMemoryRecord(_MemoryRecord, frozen=True, array_like=True):
    """A record with the fields that were added later."""

    author: str = ""
    agent: str = ""
    interface: str = ""
    tag_changes: tuple[NameChange, ...] = ()
    relation_changes: tuple[NameChange, ...] = ()


class _UseRecord(msgspec.Struct, array_like=True, frozen=True):
    count: int
    last_ms: int
    tier: str


class MemoryOutlines:
    """The outlines of all memories: read from the store once, then kept up by what writes."""

    def __init__(self, store: OrderedStore) -> None:
        self._store = store
        self._changing = threading.Lock()
        self._known: dict[MemoryKey, MemoryOutline] | None = None
        self._newest: list[tuple[int, MemoryKey]] = []  # newest first
        self._groups: Counter[MemoryOutline] = Counter()

    def count_groups(self) -> Counter[MemoryOutline]:
        with self._changing:
            self._load()
            return self._groups.copy()

    def find_newest(
        self, admits: Callable[[MemoryOutline], bool], /, *, limit: int
    ) -> list[MemoryKey]:
        with self._changing:
            known = self._load()
            found = (key for _, key in self._newest if admits(known[key]))
            return list(islice(found, limit))

    def find_superseded(self, domain: Domain, /) -> dict[str, list[MemoryKey]]:
        found: dict[str, list[MemoryKey]] = {}
        with self._changing:
            for key, outline in self._load().items():
                is_there = outline.status is not MemoryStatus.TOMBSTONE
                if outline.superseded and is_there and key.domain == domain:
                    found.setdefault(outline.superseded_by, []).append(key)
        return found

    def note_written(self, written: Sequence[MemoryKey]) -> None:
        """Read these memories again. Reading under the lock keeps the last of two writes."""
        with self._changing:
            if self._known is None:
                return
            rows = self._store.get_many(families.MEMORIES, list(map(keys.memory, written)))
            for key, row in zip(written, rows, strict=True):
                if row is not None:
                    old = self._known.get(key)
                    self._put(_outline(key, row, 0 if old is None else old.uses))

    def forget_all(self) -> None:
        """Read everything again: others may have changed any memory."""
        with self._changing:
            self._known = None

    def note_uses(self, uses: Mapping[MemoryKey, int]) -> None:
        with self._changing:
            for key, count in uses.items():
                if self._known is not None and key in self._known:
                    self._put(self._known[key]._replace(uses=count))

    def _load(self) -> dict[MemoryKey, MemoryOutline]:
        if self._known is None:
            uses = {
                key: codec.unpack(value, _UseRecord).count
                for key, value in self._scan(families.MEMORY_USES)
            }
            found = (
                _outline(keys.parse_memory(key), value, uses.get(key, 0))
                for key, value in self._scan(families.MEMORIES)
            )
            self._known = {each.key: each for each in found}
            self._newest = sorted((-each.created_ms, each.key) for each in self._known.values())
            self._groups = Counter(each.group for each in self._known.values())
        return self._known

    def _put(self, outline: MemoryOutline) -> None:
        known = self._load()
        old = known.get(outline.key)
        known[outline.key] = outline
        self._groups[outline.group] += 1
        if old is not None:
            self._groups[old.group] -= 1
            if not self._groups[old.group]:  # else each use of a memory would leave a group behind
                del self._groups[old.group]
        if old is None or old.created_ms != outline.created_ms:
            if old is not None:
                self._newest.remove((-old.created_ms, old.key))
            insort(self._newest, (-outline.created_ms, outline.key))

    def _scan(self, family: str) -> Iterator[Row]:
        start, end = keys.MEMORY_PREFIX, keys.end_of(keys.MEMORY_PREFIX)
        return chain.from_iterable(iter_pages(self._store, family, start, end, limit=_PAGE))


class StoredMemories:
    def __init__(
        self, store: OrderedStore, outlines: MemoryOutlines | None = None, *, daemon: str = ""
    ) -> None:
        """`daemon` writes the notes of what is changed here, if several share the store."""
        self._store = store
        self._outlines = outlines
        self._daemon = daemon

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
        outcomes = self._store.submit([_batch(change, self._daemon) for change in changes]).result()
        if self._outlines is not None:
            self._outlines.note_written([change.after.key for change in changes])
        return [isinstance(outcome, Committed) for outcome in outcomes]


class StoredUses:
    def __init__(self, store: OrderedStore, outlines: MemoryOutlines | None = None) -> None:
        self._store = store
        self._outlines = outlines
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
        written = list(uses)
        puts = [
            Put(
                families.MEMORY_USES,
                keys.memory(key),
                codec.pack(_UseRecord(count=use.count, last_ms=use.last_ms, tier=use.tier.value)),
            )
            for key, use in written
        ]
        if puts:  # counts do not wait: losing one in a crash does no harm
            self._pending = self._store.submit([Batch(tuple(puts))])
            if wait:
                self._pending.result()
            if self._outlines is not None:
                self._outlines.note_uses({key: use.count for key, use in written})

    def _await_counts(self) -> None:
        """Wait until earlier counts can be read; ignore those that could not be written."""
        pending, self._pending = self._pending, None
        if pending is not None:
            with suppress(StorageFailed):
                pending.result()

    def forget(self, key: MemoryKey, /) -> None:
        write(self._store, Delete(families.MEMORY_USES, keys.memory(key)))
        if self._outlines is not None:
            self._outlines.note_uses({key: 0})


class StoredNoteQueue:
    """The notes that a daemon has yet to write: a repository is a folder of its machine."""

    def __init__(self, store: OrderedStore, *, daemon: str = "") -> None:
        self._store = store
        self._daemon = daemon

    def list_homes(self) -> list[Home]:
        homes: list[Home] = []
        start = _home_prefix(Home(""), self._daemon)[:-1]
        end = keys.end_of(start)
        while len(homes) < _HOMES and (
            rows := self._store.scan(families.NOTE_QUEUE, start, end, limit=1)
        ):
            name = keys.unescape(rows[0][0].split(b":")[1])
            home = Home(name.removeprefix(_owner(self._daemon)))
            homes.append(home)
            start = keys.end_of(_home_prefix(home, self._daemon))
        return homes

    def list_pending(self, home: Home, /, *, limit: int) -> list[tuple[Ticket, MemoryKey]]:
        prefix = _home_prefix(home, self._daemon)
        rows = self._store.scan(families.NOTE_QUEUE, prefix, keys.end_of(prefix), limit=limit)
        return [(Ticket(key), keys.parse_memory(codec.decode_key(value))) for key, value in rows]

    def mark_done(self, tickets: Sequence[Ticket], /) -> None:
        write(self._store, *(Delete(families.NOTE_QUEUE, ticket) for ticket in tickets))


def _home_prefix(home: Home, daemon: str) -> bytes:
    return b"%s%s:" % (_NOTE, keys.escape(_owner(daemon) + home))


def _owner(daemon: str) -> str:
    return f"{daemon} " if daemon else ""


def _batch(change: MemoryChange, daemon: str) -> Batch:
    before, after, _ = change
    key = keys.memory(after.key)
    entry = encode_entry(MemoryChanged(key=after.key))
    operations: list[Operation] = [
        Put(families.MEMORIES, key, _encode_memory(after)),
        Append(families.OUTBOX, keys.OUTBOX_PREFIX, entry),
    ]
    if change.note_home is not None:
        operations.append(
            Append(families.NOTE_QUEUE, _home_prefix(change.note_home, daemon), entry)
        )
    stored = None if before is None else _encode_memory(before)
    return Batch(tuple(operations), (expect(families.MEMORIES, key, stored),))


def _outline(key: MemoryKey, value: bytes, uses: int) -> MemoryOutline:
    record = codec.unpack(value, _MemoryRecord)
    by = record.superseded_by
    return MemoryOutline(key, record.status, bool(by), Millis(record.created_ms), uses, by)


def _encode_memory(memory: Memory) -> bytes:
    """Encode a memory without later fields as before they existed: a write compares bytes."""
    later = (memory.author, memory.agent, memory.interface, memory.tag_changes)
    traced = any(later) or memory.relation_changes
    kind = _TracedMemoryRecord if traced else _MemoryRecord
    record = msgspec.convert(memory, kind, from_attributes=True)
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
    fields = msgspec.structs.asdict(codec.unpack(value, _TracedMemoryRecord))
    fields["tags"] = frozenset(fields["tags"])
    try:
        return Memory(**key._asdict(), **fields)
    except (ValueError, InvalidInput) as exc:
        raise StorageFailed(
            f"the stored memory {key.namespace}:{key.digest[:HEX_CHARS]} is damaged"
        ) from exc


def _decode_use(record: _UseRecord) -> MemoryUse:
    return MemoryUse(count=record.count, last_ms=Millis(record.last_ms), tier=Tier(record.tier))
