"""The journal of consolidation runs on an ordered store."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import msgspec

from agent_memory.features.memories.model.consolidations import ConsolidationRun, Undo
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.memories.model.tiers import Tier
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Batch, Committed, Delete, DeleteRange, Put

_RUN = b"run:"
_LOOKED = b"looked:"
_KEPT = 20  # runs
_MOST = 100_000  # domains


class _UndoRecord(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    status: str
    superseded_by: str
    changed_ms: int
    tags: list[str] | None = None
    before_ms: int = 0


class _RunRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    changes: list[_UndoRecord]
    made: list[bytes]
    tiers: list[tuple[bytes, str]] = []
    reviewed: list[tuple[str, int]] = []


class _ReviewRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int


class StoredJournal:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def add(self, run: ConsolidationRun, /) -> ConsolidationRun:
        number = self._store.get_sequence(families.JOURNAL, _RUN) + 1
        trim = DeleteRange(families.JOURNAL, _RUN, _key(max(0, number - _KEPT)))
        append = Append(families.JOURNAL, _RUN, _encode_run(run))
        outcomes = self._store.submit([Batch((trim, append))]).result()
        (assigned,) = (each.sequences[-1] for each in outcomes if isinstance(each, Committed))
        return replace(run, number=assigned)

    def get_last(self, *, before: ConsolidationRun | None = None) -> ConsolidationRun | None:
        end = keys.end_of(_RUN) if before is None else _key(before.number)
        rows = self._store.scan(families.JOURNAL, _RUN, end, limit=1, reverse=True)
        return _decode_run(*rows[0]) if rows else None

    def remove(self, run: ConsolidationRun, /) -> None:
        removal = Delete(families.JOURNAL, _key(run.number))
        self._store.submit([Batch((removal,))]).result()

    def get_review_times(self) -> dict[Domain, Millis]:
        rows = self._store.scan(families.JOURNAL, _LOOKED, keys.end_of(_LOOKED), limit=_MOST)
        return {
            Domain(key[len(_LOOKED) :].decode()): Millis(codec.unpack(value, _ReviewRecord).at_ms)
            for key, value in rows
        }

    def set_review_time(self, domains: Sequence[Domain], at: Millis, /) -> None:
        record = codec.pack(_ReviewRecord(at_ms=at))
        puts = tuple(Put(families.JOURNAL, _LOOKED + domain.encode(), record) for domain in domains)
        if puts:
            self._store.submit([Batch(puts)]).result()

    def forget(self, memory_keys: AbstractSet[MemoryKey], /) -> None:
        self._rewrite(
            lambda run: replace(
                run,
                changes=tuple(undo for undo in run.changes if undo.key not in memory_keys),
                made=tuple(key for key in run.made if key not in memory_keys),
                tiers=tuple(entry for entry in run.tiers if entry[0] not in memory_keys),
            )
        )

    def retime(self, undone: Mapping[tuple[MemoryKey, Millis], Millis], /) -> None:
        def retime(undo: Undo) -> Undo:
            at = undone.get((undo.key, undo.changed_ms))
            return undo if at is None else replace(undo, changed_ms=at)

        self._rewrite(lambda run: replace(run, changes=tuple(map(retime, run.changes))))

    def _rewrite(self, rewrite: Callable[[ConsolidationRun], ConsolidationRun]) -> None:
        rows = self._store.scan(families.JOURNAL, _RUN, keys.end_of(_RUN), limit=2 * _KEPT)
        puts = []
        for row, value in rows:
            run = _decode_run(row, value)
            left = rewrite(run)
            if left != run:
                puts.append(Put(families.JOURNAL, row, _encode_run(left)))
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
                    key=keys.memory(undo.key),
                    status=undo.status.value,
                    superseded_by=undo.superseded_by,
                    changed_ms=undo.changed_ms,
                    tags=None if undo.tags is None else sorted(undo.tags),
                    before_ms=undo.before_ms,
                )
                for undo in run.changes
            ],
            made=[keys.memory(key) for key in run.made],
            tiers=[(keys.memory(key), tier.value) for key, tier in run.tiers],
            reviewed=[(domain, at) for domain, at in run.reviewed],
        )
    )


def _decode_run(key: bytes, value: bytes) -> ConsolidationRun:
    record = codec.unpack(value, _RunRecord)
    return ConsolidationRun(
        at_ms=Millis(record.at_ms),
        changes=tuple(
            Undo(
                key=keys.parse_memory(undo.key),
                status=MemoryStatus(undo.status),
                superseded_by=undo.superseded_by,
                changed_ms=Millis(undo.changed_ms),
                tags=None if undo.tags is None else frozenset(undo.tags),
                before_ms=Millis(undo.before_ms),
            )
            for undo in record.changes
        ),
        made=tuple(map(keys.parse_memory, record.made)),
        tiers=tuple((keys.parse_memory(key), Tier(tier)) for key, tier in record.tiers),
        reviewed=tuple((Domain(domain), Millis(at)) for domain, at in record.reviewed),
        number=int(key[len(_RUN) :]),
    )
