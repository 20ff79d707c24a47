"""The stored layout of an event. The value does not repeat the time and id of its key."""

import msgspec

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.kernel.ids import Position
from agent_memory.platform.store.codec import body, pack


class _Event(msgspec.Struct, array_like=True, frozen=True):
    session_id: str
    type: EventType
    role: EventRole
    text: str
    metadata: dict[str, str]


_decode_record = msgspec.msgpack.Decoder(_Event).decode


def encode_event(event: Event) -> bytes:
    """Encode an event as a value."""
    return pack(_Event(event.session_id, event.type, event.role, event.text, dict(event.metadata)))


def decode_event(at: Position, value: bytes) -> Event:
    """Decode the event at a position. Raises StorageFailed if the value is damaged."""
    try:
        record = _decode_record(body(value))
        return Event(event_id=at.event_id, at_ms=at.at_ms, **msgspec.structs.asdict(record))
    except (msgspec.MsgspecError, ValueError, InvalidInput) as exc:
        raise StorageFailed(f"the stored event {at.event_id!r} is damaged") from exc
