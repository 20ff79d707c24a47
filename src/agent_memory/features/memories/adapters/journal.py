"""The journal of consolidation runs and the log of what persons changed, on an ordered store."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace
from typing import ClassVar, TypeVar

import msgspec
from msgspec import structs

from agent_memory.features.memories.model.changes import (
    ChangeAction,
    ChangeEntry,
    MadeChange,
    MemoryState,
)
from agent_memory.features.memories.model.consolidations import ConsolidationRun, Undo
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.memories.model.tiers import Tier
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Committed, Put
from agent_memory.platform.store.rows import NumberedEntries, write

_LOOKED = b"looked:"
_MOST = 100_000  # domains

E = TypeVar("E", ChangeEntry, ConsolidationRun)
C = TypeVar("C", MadeChange, Undo)

_Undone = Mapping[tuple[MemoryKey, Millis], Millis]


class _StateRecord(msgspec.Struct, array_like=True, frozen=True):
    status: MemoryStatus
    superseded_by: str
    tags: list[str]
    relates_to: tuple[str, ...]


class _MadeRecord(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    before: _StateRecord | None
    changed_ms: Millis
    before_ms: Millis = Millis(0)


class _ChangeRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: Millis
    action: ChangeAction
    changes: list[_MadeRecord]
    count: int


class _UndoRecord(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    status: MemoryStatus
    superseded_by: str
    changed_ms: Millis
    tags: list[str] | None = None
    before_ms: Millis = Millis(0)


class _RunRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: Millis
    changes: list[_UndoRecord]
    made: list[bytes]
    tiers: list[tuple[bytes, Tier]] = []
    reviewed: tuple[tuple[Domain, Millis], ...] = ()


class _ReviewRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: Millis


class _UndoEntries(NumberedEntries[E]):
    kept: ClassVar[int]  # entries: older ones are dropped

    def add(self, entry: E, /) -> E:
        outcomes = self.append(entry, keep=self.kept).result()
        (assigned,) = (done.sequences[-1] for done in outcomes if isinstance(done, Committed))
        return replace(entry, number=assigned)

    def get_last(self, *, before: E | None = None) -> E | None:
        number = None if before is None else before.number
        return next(iter(self.list_before(number, limit=1)), None)


class StoredChangeLog(_UndoEntries[ChangeEntry]):
    kept = 100

    def __init__(self, store: OrderedStore) -> None:
        super().__init__(store, families.JOURNAL, b"change:", _encode_change, _decode_change)

    def forget(self, memory_keys: AbstractSet[MemoryKey], /) -> None:
        def leave_out(entry: ChangeEntry) -> ChangeEntry:
            left = (change for change in entry.changes if change.key not in memory_keys)
            return replace(entry, changes=tuple(left))

        self.revise(leave_out)

    def retime(self, undone: _Undone, /) -> None:
        self.revise(lambda entry: replace(entry, changes=_retime(entry.changes, undone)))


class StoredJournal(_UndoEntries[ConsolidationRun]):
    kept = 20

    def __init__(self, store: OrderedStore) -> None:
        super().__init__(store, families.JOURNAL, b"run:", _encode_run, _decode_run)

    def get_review_times(self) -> dict[Domain, Millis]:
        rows = self._store.scan(families.JOURNAL, _LOOKED, keys.end_of(_LOOKED), limit=_MOST)
        return {
            Domain(key[len(_LOOKED) :].decode()): codec.unpack(value, _ReviewRecord).at_ms
            for key, value in rows
        }

    def set_review_time(self, domains: Sequence[Domain], at: Millis, /) -> None:
        record = codec.pack(_ReviewRecord(at_ms=at))
        puts = (Put(families.JOURNAL, _LOOKED + domain.encode(), record) for domain in domains)
        write(self._store, *puts)

    def forget(self, memory_keys: AbstractSet[MemoryKey], /) -> None:
        self.revise(
            lambda run: replace(
                run,
                changes=tuple(undo for undo in run.changes if undo.key not in memory_keys),
                made=tuple(key for key in run.made if key not in memory_keys),
                tiers=tuple(entry for entry in run.tiers if entry[0] not in memory_keys),
            )
        )

    def retime(self, undone: _Undone, /) -> None:
        self.revise(lambda run: replace(run, changes=_retime(run.changes, undone)))


def _retime(changes: tuple[C, ...], undone: _Undone) -> tuple[C, ...]:
    """Give changes that were undone their new times."""
    return tuple(
        replace(change, changed_ms=undone.get((change.key, change.changed_ms), change.changed_ms))
        for change in changes
    )


def _encode_run(run: ConsolidationRun) -> bytes:
    return codec.pack(
        _RunRecord(
            at_ms=run.at_ms,
            changes=[
                _UndoRecord(
                    **asdict(undo) | {"key": keys.memory(undo.key), "tags": _sort(undo.tags)}
                )
                for undo in run.changes
            ],
            made=[keys.memory(key) for key in run.made],
            tiers=[(keys.memory(key), tier) for key, tier in run.tiers],
            reviewed=run.reviewed,
        )
    )


def _sort(tags: frozenset[str] | None) -> list[str] | None:
    return None if tags is None else sorted(tags)


def _decode_run(value: bytes, number: int) -> ConsolidationRun:
    record = codec.unpack(value, _RunRecord)
    return ConsolidationRun(
        at_ms=record.at_ms,
        changes=tuple(map(_decode_undo, record.changes)),
        made=tuple(map(keys.parse_memory, record.made)),
        tiers=tuple((keys.parse_memory(key), tier) for key, tier in record.tiers),
        reviewed=record.reviewed,
        number=number,
    )


def _decode_undo(record: _UndoRecord) -> Undo:
    tags = None if record.tags is None else frozenset(record.tags)
    return Undo(**structs.asdict(record) | {"key": keys.parse_memory(record.key), "tags": tags})


def _encode_change(entry: ChangeEntry) -> bytes:
    changes = [
        _MadeRecord(
            key=keys.memory(change.key),
            before=None if change.before is None else _encode_state(change.before),
            changed_ms=change.changed_ms,
            before_ms=change.before_ms,
        )
        for change in entry.changes
    ]
    return codec.pack(_ChangeRecord(entry.at_ms, entry.action, changes, entry.count))


def _encode_state(state: MemoryState) -> _StateRecord:
    return _StateRecord(**asdict(state) | {"tags": sorted(state.tags)})


def _decode_change(value: bytes, number: int) -> ChangeEntry:
    record = codec.unpack(value, _ChangeRecord)
    changes = (
        MadeChange(
            key=keys.parse_memory(change.key),
            before=None if change.before is None else _decode_state(change.before),
            changed_ms=change.changed_ms,
            before_ms=change.before_ms,
        )
        for change in record.changes
    )
    return ChangeEntry(
        at_ms=record.at_ms,
        action=record.action,
        changes=tuple(changes),
        count=record.count,
        number=number,
    )


def _decode_state(record: _StateRecord) -> MemoryState:
    return MemoryState(**structs.asdict(record) | {"tags": frozenset(record.tags)})
