"""The daemon's status, its background jobs and damage to its store, on the wire and as text."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from agent_memory.features.access.model.audit import AuditEntry
from agent_memory.kernel.access import AccessKey
from agent_memory.kernel.jobs import JobStatus
from agent_memory.kernel.status import DaemonStatus, Damage, StoreStats


def job_json(job: JobStatus) -> dict[str, Any]:
    state = job.state
    return {
        "job_name": job.name,
        "cron_expr": job.cron,
        "last_run_ms": state.last_run_ms,
        "last_duration_ms": state.last_duration_ms,
        "last_result": state.last_result.name.lower() if state.last_result else "unspecified",
        "last_error": state.last_error,
        "next_run_ms": job.next_run_ms,
        "run_count": state.run_count,
        "error_count": state.error_count,
        "is_running": job.running,
        "is_paused": state.paused,
    }


def status_json(status: DaemonStatus) -> dict[str, Any]:
    return {"running": True, **asdict(status)}


def stats_json(stats: StoreStats) -> dict[str, Any]:
    return asdict(stats)


def damage_text(damage: Damage) -> str:
    """Describe what is damaged and the time, in UTC, of the events that are lost."""
    text = damage.what
    if damage.noticed_ms is not None:
        text += f", noticed {_utc(damage.noticed_ms)}"
    if damage.first_ms is not None and damage.last_ms is not None:
        count = "" if damage.events is None else f"{damage.events:,} "
        text += (
            f"; {count}events from {_utc(damage.first_ms)} to {_utc(damage.last_ms)} cannot be read"
        )
    elif damage.events == 0:
        text += "; no lost events are known"
    if damage.kept:
        text += f"; the damaged files are in {damage.kept} (remove it to dismiss this)"
    return text


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


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
