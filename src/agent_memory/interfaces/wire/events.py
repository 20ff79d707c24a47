"""Events on the wire: protobuf, and JSON with the same names."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agent_memory.features.log.model import events
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.operations import LoggedEvent
from agent_memory.features.log.services.ingest import Refusal
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.proto import memory_pb2 as pb

_TYPES = {int(kind): kind for kind in EventType}
_ROLES = {0: EventRole.USER, **{int(role): role for role in EventRole}}


def parse_event(message: pb.Event) -> Event:
    kind = _TYPES.get(message.event_type)
    if kind is None:
        raise _unknown_number("event_type", message.event_type, EventType)
    role = _ROLES.get(message.role)
    if role is None:
        raise _unknown_number("role", message.role, EventRole)
    return Event(
        event_id=EventId(message.event_id),
        session_id=SessionId(message.session_id),
        at_ms=Millis(message.timestamp_ms),
        type=kind,
        role=role,
        text=message.text,
        metadata=dict(message.metadata),
    )


def _unknown_number(
    field: str, number: int, known: type[EventType] | type[EventRole]
) -> InvalidInput:
    numbers = ", ".join(f"{item.value} ({item.name})" for item in known)
    return InvalidInput(f"{field} is {number}; it must be one of {numbers}")


def event_to_proto(event: Event) -> pb.Event:
    # Enums are plain numbers on the wire.
    numbers = {"event_type": int(event.type), "role": int(event.role)}
    return pb.Event(**events.to_fields(event) | numbers)


def outcomes_to_proto(
    names: Sequence[str], results: Sequence[bool | Refusal]
) -> pb.IngestEventsResponse:
    """Convert the ids of events, and whether each is new or why it was refused."""
    return pb.IngestEventsResponse(
        outcomes=[
            pb.IngestOutcome(event_id=name, error=str(result))
            if isinstance(result, Refusal)
            else pb.IngestOutcome(event_id=name, created=result)
            for name, result in zip(names, results, strict=True)
        ]
    )


def event_json(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(LoggedEvent.from_event(event))
    return found
