"""The outbox on an ordered store."""

from agent_memory.features.log.model.outbox import (
    Entry,
    EventChanged,
    FactChanged,
    MemoryChanged,
    SegmentChanged,
)
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import KnowledgeId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Batch, DeleteRange


class StoredOutbox:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def read(self, after: int, /, *, limit: int) -> list[tuple[int, Entry]]:
        rows = self._store.scan(
            families.OUTBOX, _place(after + 1), keys.end_of(keys.OUTBOX_PREFIX), limit=limit
        )
        try:
            return [
                (int(key[len(keys.OUTBOX_PREFIX) :]), decode_entry(codec.decode_key(value)))
                for key, value in rows
            ]
        except ValueError as exc:
            raise StorageFailed("an entry of the outbox is damaged") from exc

    def trim(self, up_to: int, /) -> None:
        removal = DeleteRange(families.OUTBOX, _place(0), _place(up_to + 1))
        self._store.submit([Batch((removal,))]).result()


def _place(sequence: int) -> bytes:
    return keys.OUTBOX_PREFIX + b"%020d" % sequence


def encode_entry(entry: Entry) -> bytes:
    """The key of the record that the entry is about, as a value."""
    match entry:
        case EventChanged(at=at):
            return codec.encode_key(keys.event(at.at_ms, at.event_id))
        case SegmentChanged(session_id=session_id, first=at):
            return codec.encode_key(keys.session_event(session_id, at.at_ms, at.event_id))
        case MemoryChanged(key=key):
            return codec.encode_key(keys.memory(key))
        case FactChanged(id=name):
            return codec.encode_key(keys.FACT_PREFIX + name.encode())


def decode_entry(key: bytes) -> Entry:
    if key.startswith(keys.SESSION_PREFIX):
        return SegmentChanged(session_id=keys.session_of(key), first=keys.position(key))
    if key.startswith(keys.MEMORY_PREFIX):
        return MemoryChanged(key=keys.memory_of(key))
    if key.startswith(keys.FACT_PREFIX):
        return FactChanged(id=KnowledgeId(key[len(keys.FACT_PREFIX) :].decode()))
    return EventChanged(at=keys.position(key))
