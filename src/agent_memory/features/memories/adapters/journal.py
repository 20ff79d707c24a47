"""The journal of consolidations on an ordered store."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import msgspec

from agent_memory.features.memories.model.consolidations import ConsolidationRun, Undo
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Batch, Delete, DeleteRange, Put

_RUN = b"run:"
_LOOKED = b"looked:"
_KEPT = 20  # runs
_MOST = 100_000  # domains


class _UndoRecord(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    status: str
    superseded_by: str
    changed_ms: int


class _RunRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    changes: list[_UndoRecord]
    made: list[bytes]


class _ReviewRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int


class StoredJournal:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def add(self, run: ConsolidationRun, /) -> None:
        number = self._store.get_sequence(families.JOURNAL, _RUN) + 1
        old = DeleteRange(families.JOURNAL, _RUN, _key(max(0, number - _KEPT)))
        append = Append(families.JOURNAL, _RUN, _encode_run(run))
        self._store.submit([Batch((old, append))]).result()

    def get_last(self) -> ConsolidationRun | None:
        rows = self._store.scan(families.JOURNAL, _RUN, keys.end_of(_RUN), limit=1, reverse=True)
        return _decode_run(*rows[0]) if rows else None

    def remove(self, run: ConsolidationRun, /) -> None:
        gone = Delete(families.JOURNAL, _key(run.number))
        self._store.submit([Batch((gone,))]).result()

    def get_review_times(self) -> dict[Domain, Millis]:
        rows = self._store.scan(families.JOURNAL, _LOOKED, keys.end_of(_LOOKED), limit=_MOST)
        return {
            Domain(key[len(_LOOKED) :].decode()): Millis(codec.unpack(value, _ReviewRecord).at_ms)
            for key, value in rows
        }

    def set_review_time(self, domains: Sequence[Domain], at: Millis, /) -> None:
        seen = codec.pack(_ReviewRecord(at_ms=at))
        puts = tuple(Put(families.JOURNAL, _LOOKED + each.encode(), seen) for each in domains)
        if puts:
            self._store.submit([Batch(puts)]).result()

    def forget(self, forgotten: AbstractSet[MemoryKey], /) -> None:
        rows = self._store.scan(families.JOURNAL, _RUN, keys.end_of(_RUN), limit=2 * _KEPT)
        puts = []
        for key, value in rows:
            run = _decode_run(key, value)
            left = replace(
                run,
                changes=tuple(each for each in run.changes if each.key not in forgotten),
                made=tuple(each for each in run.made if each not in forgotten),
            )
            if left != run:
                puts.append(Put(families.JOURNAL, key, _encode_run(left)))
        if puts:
            self._store.submit([Batch(tuple(puts))]).result()


def _key(number: int) -> bytes:
    return _RUN + b"%020d" % number


def _encode_run(run: ConsolidationRun) -> bytes:
    return codec.pack(
        _RunRecord(
            at_ms=run.at_ms,
            changes=[
                _UndoRecord(
                    key=keys.memory(each.key),
                    status=each.status.value,
                    superseded_by=each.superseded_by,
                    changed_ms=each.changed_ms,
                )
                for each in run.changes
            ],
            made=[keys.memory(key) for key in run.made],
        )
    )


def _decode_run(key: bytes, value: bytes) -> ConsolidationRun:
    record = codec.unpack(value, _RunRecord)
    return ConsolidationRun(
        at_ms=Millis(record.at_ms),
        changes=tuple(
            Undo(
                key=keys.parse_memory(each.key),
                status=MemoryStatus(each.status),
                superseded_by=each.superseded_by,
                changed_ms=Millis(each.changed_ms),
            )
            for each in record.changes
        ),
        made=tuple(keys.parse_memory(each) for each in record.made),
        number=int(key[len(_RUN) :]),
    )
