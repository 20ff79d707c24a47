"""Keys and entries of the audit log, on the wire and as JSON of commands."""

from typing import Any

from agent_memory.features.access.model.audit import AuditEntry
from agent_memory.kernel.access import AccessKey


def audit_json(entry: AuditEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "timestamp_ms": entry.at_ms,
        "person": entry.person or None,
        "key": entry.key or None,
        "interface": entry.interface,
        "method": entry.method,
        "target": entry.target,
        "status": entry.status,
        "count": entry.count,
    }


def key_json(key: AccessKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "created_ms": key.created_ms,
        "person": key.person or None,
        "role": key.role.value if key.person else None,
        "projects": None if key.projects is None else sorted(key.projects),
        "created_by": key.created_by or None,
    }
