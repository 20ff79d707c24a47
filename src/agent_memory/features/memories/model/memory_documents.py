"""Memories as documents of the search index."""

from agent_memory.features.index.model.documents import Document, DocumentKind, memory_owner
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.kernel.ids import PROJECT


def from_memory(memory: Memory) -> list[Document]:
    """Return one document, named by its URN (ids are per domain), or none for a tombstone."""
    if memory.status is MemoryStatus.TOMBSTONE:
        return []
    family, _, name = memory.domain.partition(":")
    return [
        Document(
            kind=DocumentKind.MEMORY,
            id=memory.urn,
            owner=memory_owner(memory.key),
            at_ms=memory.created_ms,
            title=memory.summary,
            text=memory.content,
            session=memory.session_id,
            project=name if family == PROJECT else "",
            namespace=memory.namespace,
            domain=memory.domain,
            spec=memory.spec,
            status=memory.status.value,
            tags=memory.tags,
            relates_to=memory.relates_to,
        )
    ]
