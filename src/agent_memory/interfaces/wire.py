"""Values to and from the wire, and the one table of what an error becomes on each."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from agent_memory.domain import errors
from agent_memory.domain.errors import AgentMemoryError, InvalidInput
from agent_memory.domain.events import (
    Event,
    EventId,
    EventRole,
    EventType,
    Millis,
    Page,
    Position,
    SessionId,
    check_millis,
)
from agent_memory.domain.jobs import JobStatus
from agent_memory.domain.status import DaemonStatus, StoreStats
from agent_memory.domain.toc import Grip, TocNode
from agent_memory.proto import memory_pb2 as pb
from agent_memory.services.contents import Branch, Expansion


class Codes(NamedTuple):
    """What one kind of error is called on each wire. `grpc` is the status's name."""

    exit: int
    grpc: str
    http: int


ERRORS: Mapping[type[AgentMemoryError], Codes] = {
    errors.InvalidInput: Codes(exit=11, grpc="INVALID_ARGUMENT", http=422),
    errors.NotFound: Codes(exit=10, grpc="NOT_FOUND", http=404),
    errors.Unauthorized: Codes(exit=1, grpc="UNAUTHENTICATED", http=401),
    errors.ContentBlocked: Codes(exit=12, grpc="FAILED_PRECONDITION", http=422),
    errors.FeatureUnavailable: Codes(exit=3, grpc="FAILED_PRECONDITION", http=409),
    errors.ConfigError: Codes(exit=3, grpc="FAILED_PRECONDITION", http=500),
    errors.Overloaded: Codes(exit=1, grpc="RESOURCE_EXHAUSTED", http=503),
    errors.RemoteUnavailable: Codes(exit=5, grpc="UNAVAILABLE", http=502),
    errors.ListenFailed: Codes(exit=1, grpc="UNAVAILABLE", http=503),
    errors.Cancelled: Codes(exit=130, grpc="CANCELLED", http=499),
    errors.StorageClosed: Codes(exit=4, grpc="UNAVAILABLE", http=503),
    errors.StorageFailed: Codes(exit=4, grpc="INTERNAL", http=500),
    AgentMemoryError: Codes(exit=1, grpc="INTERNAL", http=500),
}


def codes(error: AgentMemoryError) -> Codes:
    """The codes of the nearest listed class of this error."""
    return next(ERRORS[kind] for kind in type(error).__mro__ if kind in ERRORS)


_TYPES = {int(kind): kind for kind in EventType}
_ROLES = {0: EventRole.USER, **{int(role): role for role in EventRole}}


def event_in(message: pb.Event) -> Event:
    kind = _TYPES.get(message.event_type)
    if kind is None:
        raise InvalidInput(
            f"event_type is {message.event_type}; it must be one of "
            + ", ".join(f"{known.value} ({known.name})" for known in EventType)
        )
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidInput(
            f"role is {message.role}; it must be one of "
            + ", ".join(f"{known.value} ({known.name})" for known in EventRole)
        )
    return Event(
        event_id=EventId(message.event_id),
        session_id=SessionId(message.session_id),
        at_ms=Millis(message.timestamp_ms),
        type=kind,
        role=role,
        text=message.text,
        metadata=dict(message.metadata),
    )


def event_out(event: Event) -> pb.Event:
    return pb.Event(
        event_id=event.event_id,
        session_id=event.session_id,
        timestamp_ms=event.at_ms,
        event_type=int(event.type),  # type: ignore[arg-type]  # enums are plain numbers on the wire
        role=int(event.role),  # type: ignore[arg-type]
        text=event.text,
        metadata=event.metadata,
    )


def page_out(page: Page) -> pb.GetEventsResponse:
    return pb.GetEventsResponse(
        events=[event_out(event) for event in page.events],
        has_more=page.next is not None,
        continuation_token=None if page.next is None else token_out(page.next),
    )


def outcomes_out(outcomes: Sequence[tuple[str, bool | str]]) -> pb.IngestEventsResponse:
    """Per event its id and whether it is new, or why it was refused."""
    return pb.IngestEventsResponse(
        outcomes=[
            pb.IngestOutcome(event_id=name, error=outcome)
            if isinstance(outcome, str)
            else pb.IngestOutcome(event_id=name, created=outcome)
            for name, outcome in outcomes
        ]
    )


def token_out(position: Position) -> str:
    return base64.urlsafe_b64encode(f"{position.at_ms}:{position.event_id}".encode()).decode()


def token_in(token: str) -> Position:
    try:
        at_ms, _, event_id = base64.b64decode(token, b"-_", validate=True).decode().partition(":")
        if not event_id:
            raise ValueError("no event id")
        check_millis("time", int(at_ms))
        return Position(at_ms=Millis(int(at_ms)), event_id=EventId(event_id))
    except (ValueError, binascii.Error, InvalidInput) as exc:
        raise InvalidInput(
            "continuation_token is not one that this server gave: pass it on unchanged,"
            " or leave it out to start over"
        ) from exc


def node_out(node: TocNode) -> pb.TocNode:
    return pb.TocNode(
        node_id=node.node_id,
        level=int(node.level),  # type: ignore[arg-type]
        title=node.title,
        summary=node.summary,
        bullets=[
            pb.TocBullet(text=bullet.text, grip_ids=bullet.grip_ids) for bullet in node.bullets
        ],
        keywords=node.keywords,
        child_node_ids=node.child_ids,
        start_time_ms=node.start_ms,
        end_time_ms=node.end_ms,
        version=node.version,
    )


def expansion_out(found: Expansion) -> pb.ExpandGripResponse:
    return pb.ExpandGripResponse(
        grip=None if found.grip is None else grip_out(found.grip),
        events_before=[event_out(event) for event in found.before],
        excerpt_events=[event_out(event) for event in found.excerpt],
        events_after=[event_out(event) for event in found.after],
    )


def grip_out(grip: Grip) -> pb.Grip:
    return pb.Grip(
        grip_id=grip.grip_id,
        excerpt=grip.excerpt,
        event_id_start=grip.event_id_start,
        event_id_end=grip.event_id_end,
        timestamp_ms=grip.at_ms,
        source=grip.source,
        toc_node_id=grip.node_id,
    )


def job_out(job: JobStatus) -> pb.JobStatusProto:
    state = job.state
    return pb.JobStatusProto(
        job_name=job.name,
        cron_expr=job.cron,
        last_run_ms=state.last_run_ms,
        last_duration_ms=state.last_duration_ms,
        last_result=int(state.last_result),  # type: ignore[arg-type]
        last_error=state.last_error,
        next_run_ms=job.next_run_ms,
        run_count=state.run_count,
        error_count=state.error_count,
        is_running=job.running,
        is_paused=state.paused,
    )


def offset_in(token: str) -> int:
    """The token of a page of children: an offset."""
    if not token.isdecimal() or len(token) > 9:
        raise InvalidInput(
            "continuation_token is not one that this server gave: pass it on unchanged,"
            " or leave it out to start over"
        )
    return int(token)


# JSON of ours: the protobuf's names, enums as lower-case names, numbers as numbers.


def event_json(event: Event) -> dict[str, Any]:
    return {
        "event_id": event.event_id,
        "session_id": event.session_id,
        "timestamp_ms": event.at_ms,
        "event_type": event.type.name.lower(),
        "role": event.role.name.lower(),
        "text": event.text,
        "metadata": dict(event.metadata),
    }


def page_json(page: Page) -> dict[str, Any]:
    return {
        "events": [event_json(event) for event in page.events],
        "has_more": page.next is not None,
        "continuation_token": None if page.next is None else token_out(page.next),
    }


def stats_json(stats: StoreStats) -> dict[str, Any]:
    return asdict(stats)


def status_json(status: DaemonStatus) -> dict[str, Any]:
    return {"running": True, **asdict(status)}


def node_json(node: TocNode) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "level": node.level.name.lower(),
        "title": node.title,
        "summary": node.summary,
        "bullets": [
            {"text": bullet.text, "grip_ids": list(bullet.grip_ids)} for bullet in node.bullets
        ],
        "keywords": list(node.keywords),
        "child_node_ids": list(node.child_ids),
        "start_time_ms": node.start_ms,
        "end_time_ms": node.end_ms,
        "version": node.version,
    }


def version_json(node: TocNode) -> dict[str, Any]:
    """A node as it was, and when it was written: the wire does not have that."""
    return {**node_json(node), "created_at_ms": node.created_ms}


def branch_json(branch: Branch) -> dict[str, Any]:
    return {**node_json(branch.node), "children": [branch_json(each) for each in branch.branches]}


def expansion_json(found: Expansion) -> dict[str, Any]:
    grip = found.grip
    return {
        "grip": None
        if grip is None
        else {
            "grip_id": grip.grip_id,
            "excerpt": grip.excerpt,
            "event_id_start": grip.event_id_start,
            "event_id_end": grip.event_id_end,
            "timestamp_ms": grip.at_ms,
            "source": grip.source,
            "toc_node_id": grip.node_id,
        },
        "events_before": [event_json(event) for event in found.before],
        "excerpt_events": [event_json(event) for event in found.excerpt],
        "events_after": [event_json(event) for event in found.after],
    }


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
