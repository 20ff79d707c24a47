"""The journal of consolidations on an ordered store."""

import msgspec

from agent_memory.adapters.storage import codec, families, keys
from agent_memory.domain.batches import Append, Batch, DeleteRange, Put, Row
from agent_memory.domain.consolidations import Run, Undo
from agent_memory.domain.events import Millis
from agent_memory.domain.memories import Status
from agent_memory.domain.ports import OrderedStore

_RUN = b"run:"
_KEPT = 20  # runs


class _Undo(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    status: str
    superseded_by: str
    tags: list[str]
    changed_ms: int


class _Run(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    changes: list[_Undo]
    made: list[bytes]
    undone: bool


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
                    tags=list(each.tags),
                    changed_ms=each.changed_ms,
                )
                for each in run.changes
            ],
            made=[keys.memory(key) for key in run.made],
            undone=run.undone,
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
                tags=tuple(each.tags),
                changed_ms=Millis(each.changed_ms),
            )
            for each in record.changes
        ),
        made=tuple(keys.memory_of(each) for each in record.made),
        undone=record.undone,
    )
