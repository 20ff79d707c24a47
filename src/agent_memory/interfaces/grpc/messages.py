"""The messages in the body of a gRPC call: five bytes of prefix, then protobuf."""

import struct
import zlib
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from agent_memory.interfaces.grpc.statuses import Status, StatusError
from agent_memory.kernel.errors import InvalidInput

MAX_MESSAGE_BYTES = 16 << 20  # above our own limits, so that our error messages apply
IDENTITY = b"identity"
ENCODINGS = {b"gzip": 31, b"deflate": 15}  # by name, the window bits of zlib

_PREFIX = struct.Struct(">BI")  # whether it is compressed, and its length
PREFIX_BYTES = _PREFIX.size


P = TypeVar("P", bound=Message)


def parse_request(kind: type[P], content: bytes) -> P:
    """Raise InvalidInput if the content is not such a request."""
    try:
        return kind.FromString(content)
    except DecodeError as exc:
        raise InvalidInput(
            f"the request is not a {kind.DESCRIPTOR.full_name}: it is damaged, or a string"
            " of it is not valid UTF-8"
        ) from exc


def add_prefix(message: bytes) -> bytes:
    return _PREFIX.pack(0, len(message)) + message


class RawMessage(NamedTuple):
    """A message as it came."""

    is_compressed: bool
    content: bytes


class MessageReader:
    """Cuts the body of a request into messages. Each is decompressed when it is needed."""

    __slots__ = ("_buffer", "_encoding")

    def __init__(self, encoding: bytes = IDENTITY) -> None:
        self._encoding = encoding
        self._buffer = bytearray()

    @property
    def is_inside_message(self) -> bool:
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[RawMessage]:
        """Return the messages that are complete now. Raises StatusError."""
        buffer = self._buffer
        if not buffer and len(data) >= PREFIX_BYTES:
            compressed, length = _PREFIX.unpack_from(data)
            if length == len(data) - PREFIX_BYTES:  # as of almost every unary call
                return [RawMessage(compressed != 0, data[PREFIX_BYTES:])]
        buffer += data
        messages: list[RawMessage] = []
        start = 0
        while len(buffer) - start >= PREFIX_BYTES:
            compressed, length = _PREFIX.unpack_from(buffer, start)
            if length > MAX_MESSAGE_BYTES:
                raise _refuse_size(f"{length:,} bytes")
            end = start + PREFIX_BYTES + length
            if end > len(buffer):
                break
            content = bytes(memoryview(buffer)[start + PREFIX_BYTES : end])
            messages.append(RawMessage(compressed != 0, content))
            start = end
        del buffer[:start]
        return messages

    def decode(self, message: RawMessage) -> bytes:
        """Return the content of a message. Raises StatusError."""
        if not message.is_compressed:
            return message.content
        bits = ENCODINGS.get(self._encoding)
        if bits is None:
            raise StatusError(
                Status.INTERNAL, "a message is compressed, but `grpc-encoding` does not say how"
            )
        inflating = zlib.decompressobj(wbits=bits)
        try:
            content = inflating.decompress(message.content, MAX_MESSAGE_BYTES + 1)
        except zlib.error as exc:
            raise StatusError(Status.INTERNAL, f"a message cannot be decompressed: {exc}") from exc
        if len(content) > MAX_MESSAGE_BYTES:
            raise _refuse_size("more after decompression")
        if not inflating.eof:
            raise StatusError(Status.INTERNAL, "a compressed message ends too early")
        return content


def _refuse_size(size: str) -> StatusError:
    return StatusError(
        Status.RESOURCE_EXHAUSTED,
        f"a message has {size}; the limit is {MAX_MESSAGE_BYTES:,} bytes",
    )
