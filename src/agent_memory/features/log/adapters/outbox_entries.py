"""Stored layout of outbox entries. Adapters that write a record add its entry in the same batch."""

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


def decode_entry(key: bytes) -> OutboxEntry:
    if key.startswith(keys.SESSION_PREFIX):
        return SegmentChanged(session_id=keys.parse_session(key), first=keys.parse_position(key))
    if key.startswith(keys.MEMORY_PREFIX):
        return MemoryChanged(key=keys.parse_memory(key))
    if key.startswith(keys.FACT_PREFIX):
        return FactChanged(id=KnowledgeId(key[len(keys.FACT_PREFIX) :].decode()))
    return EventChanged(at=keys.parse_position(key))
