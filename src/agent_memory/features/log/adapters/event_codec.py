"""Stored layout of an event. What its key holds is not repeated in the value."""

import msgspec

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.kernel.ids import Position, SessionId
from agent_memory.platform.store.codec import body, pack


class _Event(msgspec.Struct, array_like=True, frozen=True):
    session_id: str
    type: EventType
    role: EventRole
    text: str
    metadata: dict[str, str]


_decode_event = msgspec.msgpack.Decoder(_Event).decode


def encode_event(event: Event) -> bytes:
    return pack(_Event(event.session_id, event.type, event.role, event.text, dict(event.metadata)))


def decode_event(at: Position, value: bytes) -> Event:
    try:
        record = _decode_event(body(value))
        return Event(
            event_id=at.event_id,
            session_id=SessionId(record.session_id),
            at_ms=at.at_ms,
            type=record.type,
            role=record.role,
            text=record.text,
            metadata=record.metadata,
        )
    except (msgspec.MsgspecError, ValueError, InvalidInput) as exc:
        raise StorageFailed(f"the stored event {at.event_id!r} is damaged") from exc
