"""The journal of consolidations on an ordered store."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import msgspec

from agent_memory.features.memories.model.consolidations import Run, Undo
from agent_memory.features.memories.model.memories import Status
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Batch, Delete, DeleteRange, Put

_RUN = b"run:"
_LOOKED = b"looked:"
_KEPT = 20  # runs
_MOST = 100_000  # domains


class _Undo(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    status: str
    superseded_by: str
    changed_ms: int


class _Run(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    changes: list[_Undo]
    made: list[bytes]


class _Looked(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int


class StoredJournal:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def add(self, run: Run, /) -> None:
        number = self._store.sequence(families.JOURNAL, _RUN) + 1
        old = DeleteRange(families.JOURNAL, _RUN, _key(max(0, number - _KEPT)))
        append = Append(families.JOURNAL, _RUN, _encoded(run))
        self._store.submit([Batch((old, append))]).result()

    def last(self) -> Run | None:
        rows = self._store.scan(families.JOURNAL, _RUN, keys.end_of(_RUN), limit=1, reverse=True)
        return _decoded(*rows[0]) if rows else None

    def remove(self, run: Run, /) -> None:
        gone = Delete(families.JOURNAL, _key(run.number))
        self._store.submit([Batch((gone,))]).result()

    def looked(self) -> dict[Domain, Millis]:
        rows = self._store.scan(families.JOURNAL, _LOOKED, keys.end_of(_LOOKED), limit=_MOST)
        return {
            Domain(key[len(_LOOKED) :].decode()): Millis(codec.unpack(value, _Looked).at_ms)
            for key, value in rows
        }

    def look(self, domains: Sequence[Domain], at: Millis, /) -> None:
        seen = codec.pack(_Looked(at_ms=at))
        puts = tuple(Put(families.JOURNAL, _LOOKED + each.encode(), seen) for each in domains)
        if puts:
            self._store.submit([Batch(puts)]).result()

    def forget(self, forgotten: AbstractSet[MemoryKey], /) -> None:
        rows = self._store.scan(families.JOURNAL, _RUN, keys.end_of(_RUN), limit=2 * _KEPT)
        puts = []
        for key, value in rows:
            run = _decoded(key, value)
            left = replace(
                run,
                changes=tuple(each for each in run.changes if each.key not in forgotten),
                made=tuple(each for each in run.made if each not in forgotten),
            )
            if left != run:
                puts.append(Put(families.JOURNAL, key, _encoded(left)))
        if puts:
            self._store.submit([Batch(tuple(puts))]).result()


def _key(number: int) -> bytes:
    return _RUN + b"%020d" % number


def _encoded(run: Run) -> bytes:
    return codec.pack(
        _Run(
            at_ms=run.at_ms,
            changes=[
                _Undo(
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


def _decoded(key: bytes, value: bytes) -> Run:
    record = codec.unpack(value, _Run)
    return Run(
        at_ms=Millis(record.at_ms),
        changes=tuple(
            Undo(
                key=keys.memory_of(each.key),
                status=Status(each.status),
                superseded_by=each.superseded_by,
                changed_ms=Millis(each.changed_ms),
            )
            for each in record.changes
        ),
        made=tuple(keys.memory_of(each) for each in record.made),
        number=int(key[len(_RUN) :]),
    )
