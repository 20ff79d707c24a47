"""Knowledge as the JSON of REST. Times are UTC, without an offset."""

from datetime import UTC, datetime
from typing import Any

from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.facts import Fact, Former
from agent_memory.features.knowledge.model.procedures import Procedure
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.model.users import User
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, Millis


def format_time(at_ms: Millis | None) -> str | None:
    if at_ms is None:
        return None
    seconds, millis = divmod(at_ms, 1000)
    at = datetime.fromtimestamp(seconds, UTC).replace(microsecond=millis * 1000, tzinfo=None)
    return at.isoformat(timespec="milliseconds" if millis else "seconds")


def parse_millis(name: str, at: datetime) -> Millis:
    """Convert a time to milliseconds. A time without an offset is UTC."""
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    millis = round(aware.timestamp() * 1000)
    if not 0 <= millis <= MAX_MILLIS:
        raise InvalidInput(f"{name} is {at.isoformat()}; it must be from 1970 to 2286")
    return Millis(millis)


def fact_json(fact: Fact) -> dict[str, Any]:
    return {
        "id": fact.id,
        "scope": fact.scope,
        "agent_id": fact.agent_id,
        "user_id": fact.user_id,
        "key": fact.key,
        "value": fact.value,
        "fact_type": fact.fact_type,
        "confidence": round(fact.confidence, 4),
        "times_confirmed": fact.times_confirmed,
        "access_count": fact.access_count,
        "created_at": format_time(fact.created_ms),
        "updated_at": format_time(fact.updated_ms),
        "session_id": fact.session_id,
        "event_id": fact.event_id,
    }


def former_json(former: Former) -> dict[str, Any]:
    return {
        "value": former.value,
        "fact_type": former.fact_type,
        "confidence": round(former.confidence, 4),
        "times_confirmed": former.times_confirmed,
        "held_from": format_time(former.since_ms),
        "held_until": format_time(former.until_ms),
        "session_id": former.session_id,
        "event_id": former.event_id,
    }


def episode_json(episode: Episode) -> dict[str, Any]:
    return {
        "id": episode.id,
        "agent_id": episode.agent_id or None,
        "user_id": episode.user_id,
        "trigger_type": episode.trigger_type,
        "success": episode.success,
        "error_code": episode.error_code,
        "summary": episode.summary,
        "started_at": format_time(episode.started_ms),
        "ended_at": format_time(episode.ended_ms),
        "duration_ms": episode.duration_ms,
        "created_at": format_time(episode.created_ms),
        "session_id": episode.session_id,
    }


def procedure_json(procedure: Procedure) -> dict[str, Any]:
    return {
        "id": procedure.id,
        "agent_id": procedure.agent_id or None,
        "name": procedure.name,
        "description": procedure.description,
        "procedure_type": procedure.procedure_type,
        "times_used": procedure.times_used,
        "times_succeeded": procedure.times_succeeded,
        "times_failed": procedure.times_failed,
        "success_rate": round(procedure.success_rate, 3),
        "is_active": procedure.is_active,
        "created_at": format_time(procedure.created_ms),
        "steps": list(procedure.steps),
    }


def user_json(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "canonical_id": user.canonical_id,
        "display_name": user.display_name,
        "telegram_id": user.telegram_id,
        "email": user.email,
        "total_conversations": user.total_conversations,
        "last_seen_at": format_time(user.last_seen_ms),
        "created_at": format_time(user.created_ms),
    }


def session_json(session: Session, now: Millis) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "episode_id": session.episode_id,
        "agent": session.agent or None,
        "user": session.user or None,
        "project": session.project or None,
        "summary": session.summary,
        "events": session.events,
        "started_at": format_time(session.started_ms),
        "last_event_at": format_time(session.last_ms),
        "ended": session.ended,
        "running": session.is_running(now),
    }
