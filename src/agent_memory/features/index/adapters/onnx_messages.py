"""The messages of ONNX files, in the wire format of protobuf: as many as a small graph needs.

Its own package would be one more dependency for five kinds of messages.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7  # types of elements

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # wire types
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE = 1, 2
_EXTERNAL = 1

Attribute = int | float


class ByteRange(NamedTuple):
    """Where the bytes of a field are."""

    start: int
    end: int


class WireField(NamedTuple):
    number: int
    value: int | ByteRange


def read_fields(data: memoryview, span: ByteRange) -> Iterator[WireField]:
    """Yield the fields of a message. Raises ValueError if the message is damaged."""
    at, end = span
    while at < end:
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: int | ByteRange
        if wire == _VARINT:
            value, at = _read_varint(data, at)
        else:
            size = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(wire)
            if wire == _BYTES:
                size, at = _read_varint(data, at)
            if size is None or at + size > end:
                raise ValueError(f"field {number} of an ONNX message is damaged")
            value = ByteRange(at, at + size)
            at += size
        yield WireField(number, value)


def read_varints(data: memoryview, span: ByteRange) -> list[int]:
    """Return packed numbers."""
    found, at = [], span.start
    while at < span.end:
        value, at = _read_varint(data, at)
        found.append(value)
    return found


def encode_model(
    nodes: Iterable[bytes],
    weights: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    *,
    ir: int,
    opsets: Mapping[str, int],
) -> bytes:
    parts = ((1, nodes), (5, weights), (11, inputs), (12, outputs))
    graph = b"".join(_field(number, each) for number, part in parts for each in part)
    imports = b"".join(
        _field(8, _field(1, domain.encode()) + _field(2, version))
        for domain, version in opsets.items()
    )
    return _field(1, ir) + _field(7, graph + _field(2, b"g")) + imports


def encode_node(
    operator: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    domain: str = "",
    attributes: Mapping[str, Attribute] | None = None,
) -> bytes:
    """Return a node. An input that is left out has an empty name."""
    return (
        b"".join(_field(1, name.encode()) for name in inputs)
        + b"".join(_field(2, name.encode()) for name in outputs)
        + _field(4, operator.encode())
        + b"".join(_field(5, _attribute(*each)) for each in (attributes or {}).items())
        + _field(7, domain.encode())
    )


def encode_tensor(name: str, kind: int, array: Any) -> bytes:
    """Return a constant with the values of a numpy array."""
    return _describe_tensor(name, kind, array.shape) + _field(9, array.tobytes())


def encode_stored_tensor(
    name: str, kind: int, shape: Sequence[int], file: str, span: ByteRange
) -> bytes:
    """Return a constant whose values are in another file."""
    place = {"location": file, "offset": str(span.start), "length": str(span.end - span.start)}
    entries = b"".join(
        _field(13, _field(1, key.encode()) + _field(2, value.encode()))
        for key, value in place.items()
    )
    return _describe_tensor(name, kind, shape) + entries + _field(14, _EXTERNAL)


def encode_value(name: str, kind: int, dimensions: int) -> bytes:
    """Return an input or output; its dimensions may be of any size."""
    shape = b"".join(_field(1, b"") for _ in range(dimensions))
    tensor = _field(1, kind) + _field(2, shape)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _describe_tensor(name: str, kind: int, shape: Sequence[int]) -> bytes:
    sizes = b"".join(_field(1, size) for size in shape)
    return sizes + _field(2, kind) + _field(8, name.encode())


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        encoded, kind = _field(3, value), _INT_ATTRIBUTE
    else:
        encoded, kind = _varint(2 << 3 | _FOUR_BYTES) + struct.pack("<f", value), _FLOAT_ATTRIBUTE
    return _field(1, name.encode()) + encoded + _field(20, kind)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number and the place after it."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("an ONNX message ends early")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
