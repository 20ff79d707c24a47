"""The audit log on an ordered store: `at:` with a number, in the order of commit."""

from collections.abc import Iterator, Sequence
from itertools import chain, takewhile

import msgspec

from agent_memory.features.access.model.audit import AuditEntry
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Batch, DeleteRange

_AT = b"at:"
_END = keys.end_of(_AT)
_PAGE = 500


class _AuditRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    person: str
    key: str
    interface: str
    method: str
    target: str
    status: int
    count: int


class StoredAudit:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def add(self, entries: Sequence[AuditEntry], /) -> None:
        appends = tuple(Append(families.AUDIT, _AT, _encode(entry)) for entry in entries)
        self._store.submit([Batch(appends)]).result()

    def list_before(self, number: int | None, /, *, limit: int) -> list[AuditEntry]:
        end = _END if number is None else _key(number)
        rows = self._store.scan(families.AUDIT, _AT, end, limit=limit, reverse=True)
        return [_decode(*row) for row in rows]

    def trim(self, *, keep: int, since: Millis) -> None:
        """Remove from the oldest on, up to the first entry to keep."""
        last = self._store.get_sequence(families.AUDIT, _AT) - keep
        entries = chain.from_iterable(self._read_pages())
        outdated = takewhile(lambda each: each.number <= last or each.at_ms < since, entries)
        end = max((entry.number for entry in outdated), default=0)
        if end:
            removal = DeleteRange(families.AUDIT, _AT, _key(end + 1))
            self._store.submit([Batch((removal,))]).result()

    def _read_pages(self) -> Iterator[list[AuditEntry]]:
        start = _AT
        while rows := self._store.scan(families.AUDIT, start, _END, limit=_PAGE):
            yield [_decode(*row) for row in rows]
            start = keys.after(rows[-1][0])


def _key(number: int) -> bytes:
    return _AT + b"%020d" % number


def _encode(entry: AuditEntry) -> bytes:
    return codec.pack(msgspec.convert(entry, _AuditRecord, from_attributes=True))


def _decode(key: bytes, value: bytes) -> AuditEntry:
    record = codec.unpack(value, _AuditRecord)
    fields = {**msgspec.structs.asdict(record), "at_ms": Millis(record.at_ms)}
    return AuditEntry(**fields, number=int(key[len(_AT) :]))
