"""Outbox entries: which record changed. A consumer reads the record as it is now.

An entry is the same for a record that was written, rewritten or removed, so reading it twice does
no harm.
"""

from dataclasses import dataclass

from agent_memory.kernel.ids import KnowledgeId, MemoryKey, Position, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChanged:
    at: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentChanged:
    """A change of the segment that begins, or began, with this event."""

    session_id: SessionId
    first: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChanged:
    key: MemoryKey


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChanged:
    id: KnowledgeId


OutboxEntry = EventChanged | SegmentChanged | MemoryChanged | FactChanged
