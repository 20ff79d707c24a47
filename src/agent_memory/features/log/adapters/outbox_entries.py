"""The stored layout of outbox entries. An adapter adds an entry in the batch of its record."""

from agent_memory.features.log.model.outbox import (
    EventChanged,
    FactChanged,
    MemoryChanged,
    OutboxEntry,
    SegmentChanged,
)
from agent_memory.kernel.ids import KnowledgeId
from agent_memory.platform.store import codec, keys


def encode_entry(entry: OutboxEntry) -> bytes:
    """Encode an entry as a value: the key of the changed record."""
    match entry:
        case EventChanged(at=at):
            return codec.encode_key(keys.event(at.at_ms, at.event_id))
        case SegmentChanged(session_id=session_id, first=at):
            return codec.encode_key(keys.session_event(session_id, at.at_ms, at.event_id))
        case MemoryChanged(key=key):
            return codec.encode_key(keys.memory(key))
        case FactChanged(id=name):
            return codec.encode_key(keys.FACT_PREFIX + name.encode())


def decode_entry(key: bytes) -> OutboxEntry:
    """Return the entry for the key of a changed record."""
    if key.startswith(keys.SESSION_PREFIX):
        return SegmentChanged(session_id=keys.parse_session(key), first=keys.parse_position(key))
    if key.startswith(keys.MEMORY_PREFIX):
        return MemoryChanged(key=keys.parse_memory(key))
    if key.startswith(keys.FACT_PREFIX):
        return FactChanged(id=KnowledgeId(key[len(keys.FACT_PREFIX) :].decode()))
    return EventChanged(at=keys.parse_position(key))
