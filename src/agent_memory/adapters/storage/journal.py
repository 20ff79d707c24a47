"""The journal of consolidations on an ordered store."""

from collections.abc import Set as AbstractSet
from dataclasses import replace

import msgspec

from agent_memory.adapters.storage import codec, families, keys
from agent_memory.domain.batches import Append, Batch, DeleteRange, Put, Row
from agent_memory.domain.consolidations import Run, Undo
from agent_memory.domain.events import Millis
from agent_memory.domain.memories import Domain, MemoryKey, Status
from agent_memory.domain.ports import OrderedStore

_RUN = b"run:"
_KEPT = 20  # runs


class _Undo(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    status: str
    superseded_by: str
    changed_ms: int


class _Run(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    changes: list[_Undo]
    made: list[bytes]
    undone: bool
    looked: dict[str, int] = {}


class StoredJournal:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def add(self, run: Run, /) -> None:
        number = self._store.sequence(families.JOURNAL, _RUN) + 1
        old = DeleteRange(families.JOURNAL, _RUN, _RUN + b"%020d" % max(0, number - _KEPT))
        append = Append(families.JOURNAL, _RUN, _encoded(run))
        self._store.submit([Batch((old, append))]).result()

    def last(self) -> Run | None:
        row = self._last()
        return None if row is None else _decoded(row[1])

    def replace_last(self, run: Run, /) -> None:
        row = self._last()
        if row is not None:
            self._store.submit([Batch((Put(families.JOURNAL, row[0], _encoded(run)),))]).result()

    def forget(self, forgotten: AbstractSet[MemoryKey], /) -> None:
        rows = self._store.scan(families.JOURNAL, _RUN, keys.end_of(_RUN), limit=2 * _KEPT)
        puts = []
        for key, value in rows:
            run = _decoded(value)
            left = replace(
                run,
                changes=tuple(each for each in run.changes if each.key not in forgotten),
                made=tuple(each for each in run.made if each not in forgotten),
            )
            if left != run:
                puts.append(Put(families.JOURNAL, key, _encoded(left)))
        if puts:
            self._store.submit([Batch(tuple(puts))]).result()

    def _last(self) -> Row | None:
        rows = self._store.scan(families.JOURNAL, _RUN, keys.end_of(_RUN), limit=1, reverse=True)
        return rows[0] if rows else None


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
            undone=run.undone,
            looked={str(domain): int(at) for domain, at in run.looked.items()},
        )
    )


def _decoded(value: bytes) -> Run:
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
        undone=record.undone,
        looked={Domain(name): Millis(at) for name, at in record.looked.items()},
    )
