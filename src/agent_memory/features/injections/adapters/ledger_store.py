"""The ledger on an ordered store: `given:` with a number, in the order of delivery."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain, takewhile

import msgspec

from agent_memory.features.injections.model.injections import LedgerEntry
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import (
    Append,
    Batch,
    CommitOutcome,
    Delete,
    DeleteRange,
    Operation,
    Put,
)

_GIVEN = b"given:"
_END = keys.end_of(_GIVEN)
_PAGE = 200


class _EntryRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    session_id: str
    event_id: str
    agent: str
    project: str
    hook: str
    items: tuple[str, ...]
    tokens: int


class StoredLedger:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store
        self._changing = threading.Lock()
        self._pending: Future[list[CommitOutcome]] | None = None

    def add(self, entry: LedgerEntry, /) -> None:
        append = Append(families.INJECTIONS, _GIVEN, _encode_entry(entry))
        self._pending = self._store.submit([Batch((append,))])

    def list_before(self, number: int | None, /, *, limit: int) -> list[LedgerEntry]:
        self._await_added()
        end = _END if number is None else _key(number)
        rows = self._store.scan(families.INJECTIONS, _GIVEN, end, limit=limit, reverse=True)
        return [_decode_entry(*row) for row in rows]

    def revise(self, change: Callable[[LedgerEntry], LedgerEntry | None], /) -> int:
        with self._changing:  # else one revision could bring back what another removes
            self._await_added()
            count = 0
            for page in self._read_pages():
                operations = [
                    _replace(entry.number, changed)
                    for entry in page
                    if (changed := change(entry)) != entry
                ]
                if operations:
                    self._store.submit([Batch(tuple(operations))]).result()
                count += len(operations)
            return count

    def trim(self, *, keep: int, since: Millis) -> None:
        """Remove from the oldest on, up to the first entry to keep. Only where the clock was set
        back does that leave an older one behind it."""
        with self._changing:
            self._await_added()
            last = self._store.get_sequence(families.INJECTIONS, _GIVEN) - keep
            entries = chain.from_iterable(self._read_pages())
            outdated = takewhile(lambda each: each.number <= last or each.at_ms < since, entries)
            end = max((entry.number for entry in outdated), default=0)
            if end:
                removal = DeleteRange(families.INJECTIONS, _GIVEN, _key(end + 1))
                self._store.submit([Batch((removal,))]).result()

    def _await_added(self) -> None:
        """Wait until what was added can be read; ignore what could not be written."""
        pending = self._pending
        if pending is not None:
            with suppress(StorageFailed):
                pending.result()

    def _read_pages(self) -> Iterator[list[LedgerEntry]]:
        """Read all entries, oldest first."""
        start = _GIVEN
        while rows := self._store.scan(families.INJECTIONS, start, _END, limit=_PAGE):
            yield [_decode_entry(*row) for row in rows]
            start = keys.after(rows[-1][0])


def _key(number: int) -> bytes:
    return _GIVEN + b"%020d" % number


def _replace(number: int, entry: LedgerEntry | None) -> Operation:
    key = _key(number)
    if entry is None:
        return Delete(families.INJECTIONS, key)
    return Put(families.INJECTIONS, key, _encode_entry(entry))


def _encode_entry(entry: LedgerEntry) -> bytes:
    return codec.pack(msgspec.convert(entry, _EntryRecord, from_attributes=True))


def _decode_entry(key: bytes, value: bytes) -> LedgerEntry:
    record = codec.unpack(value, _EntryRecord)
    return LedgerEntry(
        at_ms=Millis(record.at_ms),
        session_id=SessionId(record.session_id),
        event_id=EventId(record.event_id),
        agent=record.agent,
        project=record.project,
        hook=record.hook,
        items=record.items,
        tokens=record.tokens,
        number=int(key[len(_GIVEN) :]),
    )
