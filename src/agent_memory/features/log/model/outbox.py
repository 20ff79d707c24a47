"""Outbox entries: which record changed. Whoever reads one looks at what is there now, or no more.

So an entry says the same of a record that was written, rewritten or removed, and reading it twice
does no harm.
"""

from dataclasses import dataclass

from agent_memory.kernel.ids import KnowledgeId, MemoryKey, Position, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChanged:
    at: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentChanged:
    """The segment of this session that began, or begins, with this event."""

    session_id: SessionId
    first: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChanged:
    key: MemoryKey


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChanged:
    id: KnowledgeId


OutboxEntry = EventChanged | SegmentChanged | MemoryChanged | FactChanged
