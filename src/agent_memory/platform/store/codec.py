"""Value layout: one byte of schema version, then MessagePack. Values do not repeat their key."""

from typing import TypeVar

import msgspec

from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import Millis

VERSION = 1
_HEAD = bytes([VERSION])
EMPTY = _HEAD  # an index entry, whose key is all its content

_encode = msgspec.msgpack.Encoder().encode


def encode_millis(at_ms: Millis) -> bytes:
    return _HEAD + at_ms.to_bytes(6, "big")


def decode_millis(value: bytes) -> Millis:
    content = body(value)
    if len(content) != 6:
        raise StorageFailed(f"a stored time has {len(content)} bytes, not 6")
    return Millis(int.from_bytes(content, "big"))


S = TypeVar("S", bound=msgspec.Struct)


def pack(record: msgspec.Struct) -> bytes:
    """Encode a record as a value."""
    return _HEAD + _encode(record)


def unpack(value: bytes, kind: type[S]) -> S:
    """Decode a value as a record. Raises StorageFailed if it is not one."""
    try:
        return msgspec.msgpack.decode(body(value), type=kind)
    except msgspec.MsgspecError as exc:
        raise StorageFailed(f"a stored record is not a {kind.__name__.lstrip('_')}") from exc


def encode_key(key: bytes) -> bytes:
    """Encode the key of another record as a value."""
    return _HEAD + key


def decode_key(value: bytes) -> bytes:
    return bytes(body(value))


def body(value: bytes) -> memoryview:
    """Return a value without its version. Raises StorageFailed if that is not ours."""
    if not value or value[0] != VERSION:
        raise StorageFailed(f"a stored value has schema {value[:1].hex() or 'none'}, not {VERSION}")
    return memoryview(value)[1:]
