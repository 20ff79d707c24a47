"""The log of what persons changed, on an ordered store."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import msgspec

from agent_memory.features.memories.model.changes import (
    ChangeAction,
    ChangeEntry,
    MadeChange,
    MemoryState,
)
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.kernel.ids import MemoryKey, Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Batch, Committed, Delete, DeleteRange, Put

_ENTRY = b"change:"
_KEPT = 100  # entries


class _StateRecord(msgspec.Struct, array_like=True, frozen=True):
    status: str
    superseded_by: str
    tags: list[str]
    relates_to: list[str]


class _MadeRecord(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    before: _StateRecord | None
    changed_ms: int
    before_ms: int = 0


class _ChangeRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    action: str
    changes: list[_MadeRecord]
    count: int


class StoredChangeLog:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def add(self, entry: ChangeEntry, /) -> ChangeEntry:
        number = self._store.get_sequence(families.JOURNAL, _ENTRY) + 1
        trim = DeleteRange(families.JOURNAL, _ENTRY, _key(max(0, number - _KEPT)))
        append = Append(families.JOURNAL, _ENTRY, _encode(entry))
        outcomes = self._store.submit([Batch((trim, append))]).result()
        (assigned,) = (each.sequences[-1] for each in outcomes if isinstance(each, Committed))
        return replace(entry, number=assigned)

    def get_last(self, *, before: ChangeEntry | None = None) -> ChangeEntry | None:
        end = keys.end_of(_ENTRY) if before is None else _key(before.number)
        rows = self._store.scan(families.JOURNAL, _ENTRY, end, limit=1, reverse=True)
        return _decode(*rows[0]) if rows else None

    def remove(self, entry: ChangeEntry, /) -> None:
        removal = Delete(families.JOURNAL, _key(entry.number))
        self._store.submit([Batch((removal,))]).result()

    def forget(self, memory_keys: AbstractSet[MemoryKey], /) -> None:
        self._rewrite(lambda change: None if change.key in memory_keys else change)

    def retime(self, undone: Mapping[tuple[MemoryKey, Millis], Millis], /) -> None:
        def retime(change: MadeChange) -> MadeChange:
            at = undone.get((change.key, change.changed_ms))
            return change if at is None else replace(change, changed_ms=at)

        self._rewrite(retime)

    def _rewrite(self, rewrite: Callable[[MadeChange], MadeChange | None]) -> None:
        rows = self._store.scan(families.JOURNAL, _ENTRY, keys.end_of(_ENTRY), limit=2 * _KEPT)
        puts = []
        for row, value in rows:
            entry = _decode(row, value)
            left = tuple(filter(None, map(rewrite, entry.changes)))
            if left != entry.changes:
                puts.append(Put(families.JOURNAL, row, _encode(replace(entry, changes=left))))
        if puts:
            self._store.submit([Batch(tuple(puts))]).result()


def _key(number: int) -> bytes:
    return _ENTRY + b"%020d" % number


def _encode(entry: ChangeEntry) -> bytes:
    changes = [
        _MadeRecord(
            key=keys.memory(change.key),
            before=None if change.before is None else _encode_state(change.before),
            changed_ms=change.changed_ms,
            before_ms=change.before_ms,
        )
        for change in entry.changes
    ]
    return codec.pack(
        _ChangeRecord(
            at_ms=entry.at_ms, action=entry.action.value, changes=changes, count=entry.count
        )
    )


def _encode_state(state: MemoryState) -> _StateRecord:
    return _StateRecord(
        status=state.status.value,
        superseded_by=state.superseded_by,
        tags=sorted(state.tags),
        relates_to=list(state.relates_to),
    )


def _decode(key: bytes, value: bytes) -> ChangeEntry:
    record = codec.unpack(value, _ChangeRecord)
    return ChangeEntry(
        at_ms=Millis(record.at_ms),
        action=ChangeAction(record.action),
        changes=tuple(
            MadeChange(
                key=keys.parse_memory(change.key),
                before=None if change.before is None else _decode_state(change.before),
                changed_ms=Millis(change.changed_ms),
                before_ms=Millis(change.before_ms),
            )
            for change in record.changes
        ),
        count=record.count,
        number=int(key[len(_ENTRY) :]),
    )


def _decode_state(record: _StateRecord) -> MemoryState:
    return MemoryState(
        status=MemoryStatus(record.status),
        superseded_by=record.superseded_by,
        tags=frozenset(record.tags),
        relates_to=tuple(record.relates_to),
    )
