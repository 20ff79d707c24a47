"""The ledger on an ordered store: `given:` with a number, in the order of delivery."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

import msgspec
from msgspec.structs import asdict

from agent_memory.features.injections.model.injections import LedgerEntry
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.batches import CommitOutcome
from agent_memory.platform.store.rows import NumberedEntries


class _EntryRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: Millis
    session_id: SessionId
    event_id: EventId
    agent: str
    project: str
    hook: str
    items: tuple[str, ...]
    tokens: int


class StoredLedger:
    def __init__(self, store: OrderedStore) -> None:
        self._entries = NumberedEntries(store, families.INJECTIONS, b"given:", _encode, _decode)
        self._changing = threading.Lock()
        self._pending: Future[list[CommitOutcome]] | None = None

    def add(self, entry: LedgerEntry, /) -> None:
        self._pending = self._entries.append(entry)

    def list_before(self, number: int | None, /, *, limit: int) -> list[LedgerEntry]:
        self._await_added()
        return self._entries.list_before(number, limit=limit)

    def revise(self, change: Callable[[LedgerEntry], LedgerEntry | None], /) -> int:
        with self._changing:  # else one revision could bring back what another removes
            self._await_added()
            return self._entries.revise(change)

    def trim(self, *, keep: int, since: Millis) -> None:
        with self._changing:
            self._await_added()
            self._entries.trim(keep=keep, since=since)

    def _await_added(self) -> None:
        """Wait until what was added can be read; ignore what could not be written."""
        pending = self._pending
        if pending is not None:
            with suppress(StorageFailed):
                pending.result()


def _encode(entry: LedgerEntry) -> bytes:
    return codec.pack(msgspec.convert(entry, _EntryRecord, from_attributes=True))


def _decode(value: bytes, number: int) -> LedgerEntry:
    return LedgerEntry(**asdict(codec.unpack(value, _EntryRecord)), number=number)
