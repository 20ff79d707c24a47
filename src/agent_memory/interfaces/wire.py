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
from agent_memory.domain.status import DaemonStatus, StoreStats
from agent_memory.proto import memory_pb2 as pb


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
