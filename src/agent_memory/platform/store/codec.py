"""Value layout: one byte of schema version, then MessagePack. What the key says is not repeated."""

from typing import TypeVar

import msgspec

from agent_memory.features.log.model.events import (
    Event,
    EventRole,
    EventType,
    Millis,
    Position,
    SessionId,
)
from agent_memory.kernel.access import AccessKey
from agent_memory.kernel.errors import InvalidInput, StorageFailed

VERSION = 1
_HEAD = bytes([VERSION])
EMPTY = _HEAD  # an index entry whose key says it all


class _Event(msgspec.Struct, array_like=True, frozen=True):
    session_id: str
    type: EventType
    role: EventRole
    text: str
    metadata: dict[str, str]


_encode = msgspec.msgpack.Encoder().encode
_decode_event = msgspec.msgpack.Decoder(_Event).decode


def encode_event(event: Event) -> bytes:
    return _HEAD + _encode(
        (event.session_id, event.type, event.role, event.text, dict(event.metadata))
    )


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


def encode_millis(at_ms: Millis) -> bytes:
    return _HEAD + at_ms.to_bytes(6, "big")


def decode_millis(value: bytes) -> Millis:
    found = body(value)
    if len(found) != 6:
        raise StorageFailed(f"a stored time has {len(found)} bytes, not 6")
    return Millis(int.from_bytes(found, "big"))


class _AccessKey(msgspec.Struct, array_like=True, frozen=True):
    digest: bytes
    created_ms: int


_decode_access_key = msgspec.msgpack.Decoder(_AccessKey).decode


def encode_access_key(key: AccessKey) -> bytes:
    return _HEAD + _encode((key.digest, key.created_ms))


def decode_access_key(name: str, value: bytes) -> AccessKey:
    try:
        record = _decode_access_key(body(value))
    except msgspec.MsgspecError as exc:
        raise StorageFailed(f"the stored key {name!r} is damaged") from exc
    return AccessKey(name=name, digest=record.digest, created_ms=Millis(record.created_ms))


S = TypeVar("S", bound=msgspec.Struct)


def pack(record: msgspec.Struct) -> bytes:
    return _HEAD + _encode(record)


def unpack(value: bytes, kind: type[S]) -> S:
    try:
        return msgspec.msgpack.decode(body(value), type=kind)
    except msgspec.MsgspecError as exc:
        raise StorageFailed(f"a stored record is no {kind.__name__.lstrip('_')}") from exc


def encode_key(key: bytes) -> bytes:
    """A value that is the key of another record."""
    return _HEAD + key


def decode_key(value: bytes) -> bytes:
    return bytes(body(value))


def body(value: bytes) -> memoryview:
    """What follows the version, which must be ours."""
    if not value or value[0] != VERSION:
        raise StorageFailed(f"a stored value has schema {value[:1].hex() or 'none'}, not {VERSION}")
    return memoryview(value)[1:]
