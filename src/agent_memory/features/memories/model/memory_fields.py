"""The fields of a memory as text: the one list that notes, files and answers are written from.

A new field also has a place in `Memory`, in `Draft` if a caller may state it, and at the end of the
stored record in `memory_store`. Notes and files read it by `NAME_LIMITS`, or by a line of theirs.
"""

from collections.abc import Callable
from typing import Any

from agent_memory.features.memories.model import name_changes, record_times
from agent_memory.features.memories.model.memories import Memory
from agent_memory.kernel.ids import Millis


def to_fields(
    memory: Memory, format_time: Callable[[Millis], str] = record_times.format_time
) -> dict[str, Any]:
    """Return the fields in the order of every form. A form leaves out what it does not have."""
    return {
        "id": memory.id,
        "uri": memory.urn,
        "namespace": memory.namespace,
        "domain": memory.domain,
        "summary": memory.summary,
        "content": memory.content,
        "timestamp": format_time(memory.created_ms),
        "timestamp_ms": memory.created_ms,
        "updated_at": format_time(memory.updated_ms),
        "spec": memory.spec,
        "tags": sorted(memory.tags),
        "relates_to": list(memory.relates_to),
        "status": memory.status.value,
        "commit": memory.commit,
        "superseded_by": memory.superseded_by,
        "event_id": memory.event_id,
        "session_id": memory.session_id,
        "author": memory.author,
        "agent": memory.agent,
        "interface": memory.interface,
        "tag_changes": name_changes.format_changes(memory.tag_changes),
        "relation_changes": name_changes.format_changes(memory.relation_changes),
    }
