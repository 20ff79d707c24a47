"""Knowledge on an ordered store: records by id, and rows that order them, in all and by filter.

    {kind}:{id}                                          -> the record
    by:{kind}:{which filters}:{their values}:{ms:013}:{id}

A record is stored under the names of its fields: renaming a field is a migration.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

import msgspec

from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.facts import Fact, Former
from agent_memory.features.knowledge.model.procedures import Chain, Procedure
from agent_memory.features.knowledge.model.run_sessions import Run, RunSession
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.ports import KnowledgeChange, KnowledgeRecord
from agent_memory.features.log.adapters.outbox_entries import encode_entry
from agent_memory.features.log.model.outbox import FactChanged
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys, rows
from agent_memory.platform.store.batches import (
    Append,
    Batch,
    Committed,
    Delete,
    Expectation,
    Operation,
    Put,
)

R = TypeVar("R", bound=KnowledgeRecord)

_CURSOR = b"checkpoint:knowledge"
_COUNTED = 10_000  # rows at a time
_TOTALS = 1_000  # cached


@dataclass(frozen=True, slots=True)
class _Layout:
    family: str
    name: bytes
    filters: tuple[str, ...] = ()
    order: str = "created_ms"  # the field that lists are sorted by

    def key(self, name: str) -> bytes:
        return b"%s:%s" % (self.name, name.encode())

    @property
    def prefix(self) -> bytes:
        return b"%s:" % self.name

    def prefix_of(self, values: Sequence[str | None]) -> bytes:
        """Return the prefix of the rows whose records have these values; None matches any."""
        which = "".join("1" if value is not None else "0" for value in values)
        escaped = b"".join(b"%s:" % keys.escape(value) for value in values if value is not None)
        return b"by:%s:%s:%s" % (self.name, which.encode(), escaped)

    def rows(self, record: KnowledgeRecord | None) -> Iterator[bytes]:
        if record is None:
            return
        values = [getattr(record, name) or "" for name in self.filters]
        end = b"%013d:%s" % (getattr(record, self.order), record.id.encode())
        for choices in product(*((None, value) for value in values)):
            yield self.prefix_of(choices) + end


_LAYOUTS: Mapping[type[Any], _Layout] = {
    Fact: _Layout(families.FACTS, b"fact", ("scope", "fact_type")),
    Former: _Layout(families.FACTS, b"former", ("fact_id",), order="number"),
    Episode: _Layout(families.KNOWLEDGE, b"episode", ("agent_id",), order="started_ms"),
    Procedure: _Layout(families.KNOWLEDGE, b"procedure", ("agent_id",)),
    Chain: _Layout(families.KNOWLEDGE, b"chain"),
    User: _Layout(families.KNOWLEDGE, b"user"),
    Session: _Layout(families.KNOWLEDGE, b"session", order="started_ms"),
    Run: _Layout(families.KNOWLEDGE, b"run", ("session_id",), order="started_ms"),
    RunSession: _Layout(families.KNOWLEDGE, b"run-session", order="last_ms"),
}


class StoredKnowledge:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store
        self._counting = threading.Lock()
        self._made = dict.fromkeys(_LAYOUTS, 0)  # records added, removed or moved
        self._versions = dict.fromkeys(_LAYOUTS, 0)
        self._totals: dict[bytes, tuple[int, int]] = {}

    def get(self, kind: type[R], names: Sequence[str], /) -> list[R | None]:
        layout = _LAYOUTS[kind]
        values = self._store.get_many(layout.family, [layout.key(name) for name in names])
        return [self._read(kind, value) for value in values]

    def list_page(
        self, kind: type[R], /, *, limit: int, offset: int, **filters: str | None
    ) -> tuple[list[R], int]:
        layout = _LAYOUTS[kind]
        prefix = layout.prefix_of([filters.get(name) for name in layout.filters])
        total = self._total(kind, prefix)
        if offset >= total:
            return [], total
        end = keys.end_of(prefix)
        while offset:
            skipped = self._store.scan(
                layout.family, prefix, end, limit=min(offset, _COUNTED), reverse=True
            )
            if not skipped:
                return [], total
            end = skipped[-1][0]
            offset -= len(skipped)
        rows = self._store.scan(layout.family, prefix, end, limit=limit, reverse=True)
        names = [key.rpartition(b":")[2].decode() for key, _ in rows]
        return [record for record in self.get(kind, names) if record is not None], total

    def list_after(self, kind: type[R], name: str, /, *, limit: int) -> list[R]:
        layout = _LAYOUTS[kind]
        start = keys.after(layout.key(name)) if name else layout.prefix
        rows = self._store.scan(layout.family, start, keys.end_of(layout.prefix), limit=limit)
        records = (self._read(kind, value) for _, value in rows)
        return [record for record in records if record is not None]

    def commit(
        self, changes: Sequence[KnowledgeChange], /, *, cursor: int | None = None, wait: bool = True
    ) -> bool:
        operations: list[Operation] = []
        expected: list[Expectation] = []
        moved: set[type[Any]] = set()
        for before, after in changes:
            present = after if before is None else before
            if present is None or before == after:
                continue
            layout = _LAYOUTS[type(present)]
            key = layout.key(present.id)
            # Expect the stored bytes, not a new encoding: an earlier version may have written
            # the same record in other bytes.
            stored = self._store.get(layout.family, key)
            if self._read(type(present), stored) != before:
                return False
            expected.append(rows.expect(layout.family, key, stored))
            old, new = set(layout.rows(before)), set(layout.rows(after))
            if old != new:
                moved.add(type(present))
            operations += [Delete(layout.family, row) for row in sorted(old - new)]
            operations += [Put(layout.family, row, codec.EMPTY) for row in sorted(new - old)]
            operations.append(
                Delete(layout.family, key)
                if after is None
                else Put(layout.family, key, codec.EMPTY + _encode(after))
            )
            if isinstance(present, Fact) and not _is_indexed_alike(before, after):
                entry = encode_entry(FactChanged(id=present.id))
                operations.append(Append(families.OUTBOX, keys.OUTBOX_PREFIX, entry))
        if cursor is not None:
            value = codec.encode_key(b"%d" % cursor)
            operations.append(Put(families.PROGRESS, _CURSOR, value))
        if not operations:
            return True
        kinds = {type(record) for change in changes for record in change if record is not None}

        def on_commit(_: object) -> None:
            with self._counting:
                for kind in moved:
                    self._made[kind] += 1
                for kind in kinds:
                    self._versions[kind] += 1

        submitted = self._store.submit([Batch(tuple(operations), tuple(expected))])
        if not wait:
            submitted.add_done_callback(on_commit)
            return True
        (outcome,) = submitted.result()
        on_commit(outcome)  # a callback might run after the caller resumes
        return isinstance(outcome, Committed)

    def note_foreign_changes(self) -> None:
        """Count again what others may have changed."""
        with self._counting:
            for counts in (self._made, self._versions):
                for kind in counts:
                    counts[kind] += 1

    def version(self, kind: type[KnowledgeRecord], /) -> int:
        return self._versions[kind]

    def cursor(self) -> int | None:
        value = self._store.get(families.PROGRESS, _CURSOR)
        return None if value is None else int(codec.decode_key(value))

    def _read(self, kind: type[R], value: bytes | None) -> R | None:
        """Decode a record. A damaged one that was learned counts as missing, as it is learned
        again. A damaged fact raises StorageFailed."""
        if value is None:
            return None
        try:
            return _decode_record(kind, value)
        except StorageFailed:
            if _LAYOUTS[kind].family == families.FACTS:
                raise
            return None

    def _total(self, kind: type[Any], prefix: bytes) -> int:
        """Count the rows once, until a record of this kind is added or removed."""
        family = _LAYOUTS[kind].family
        with self._counting:
            made = self._made[kind]
            known = self._totals.get(prefix)
        if known is not None and known[0] == made:
            return known[1]
        total = rows.count(self._store, family, prefix, limit=_COUNTED)
        with self._counting:
            if len(self._totals) >= _TOTALS:
                self._totals.clear()
            self._totals[prefix] = (made, total)
        return total


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decoders: dict[type[Any], Callable[[memoryview], Any]] = {
    kind: msgspec.msgpack.Decoder(kind).decode for kind in _LAYOUTS
}


def _decode_record(kind: type[R], value: bytes) -> R:
    try:
        record: R = _decoders[kind](codec.body(value))
    except (msgspec.MsgspecError, InvalidInput) as exc:
        raise StorageFailed(f"a stored {kind.__name__.lower()} is damaged") from exc
    return record


def _is_indexed_alike(before: KnowledgeRecord | None, after: KnowledgeRecord | None) -> bool:
    """Return whether the search index would treat both alike."""
    if not isinstance(before, Fact) or not isinstance(after, Fact):
        return False
    return (
        replace(
            before,
            access_count=after.access_count,
            confidence=after.confidence,
            times_confirmed=after.times_confirmed,
            updated_ms=after.updated_ms,
        )
        == after
    )
