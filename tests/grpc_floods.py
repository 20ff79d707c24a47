"""Floods of HTTP/2 frames that carry no call, and a client for them that knows no HTTP/2, for tests
and for `tools/interop-grpc`."""

import socket
import struct
from collections.abc import Mapping
from typing import NamedTuple, Self

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 2, 3, 4, 6, 7, 8, 9,
)  # fmt: skip
UNKNOWN = 0xEE
ACK, END_STREAM, END_HEADERS, PADDED = 1, 1, 4, 8

WATCH = "/grpc.health.v1.Health/Watch"  # a call that nobody needs a key for, and that does not end
OPENING = PREFACE + bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])


def encode_frame(kind: int, stream: int = 0, body: bytes = b"", flags: int = 0) -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def encode_headers(fields: Mapping[str, str]) -> bytes:
    """Encode headers as literals that no table keeps."""
    encoded = b""
    for name, value in fields.items():
        encoded += b"\0" + _encode_text(name.encode()) + _encode_text(value.encode("latin-1"))
    return encoded


def _encode_text(text: bytes) -> bytes:
    length = len(text)
    if length < 127:
        return bytes([length]) + text
    prefix, length = b"\x7f", length - 127
    while length >= 128:
        prefix, length = prefix + bytes([length % 128 + 128]), length // 128
    return prefix + bytes([length]) + text


def encode_call(stream: int, path: str = WATCH, flags: int = END_HEADERS) -> bytes:
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
    block = encode_headers(fields | {"te": "trailers", "content-type": "application/grpc"})
    return encode_frame(HEADERS, stream, block, flags)


# What opens the flood, and the frame that it repeats.
FLOODS: dict[str, tuple[bytes, bytes]] = {
    "pings": (b"", encode_frame(PING, body=bytes(8))),
    "answers to pings": (b"", encode_frame(PING, body=b"draining", flags=ACK)),
    "settings": (b"", encode_frame(SETTINGS, body=struct.pack(">HI", 4, 70_000))),
    "answers to settings": (b"", encode_frame(SETTINGS, flags=ACK)),
    "windows": (b"", encode_frame(WINDOW_UPDATE, body=struct.pack(">I", 1))),
    "windows of a call": (
        encode_call(1),
        encode_frame(WINDOW_UPDATE, 1, struct.pack(">I", 1)),
    ),
    "priorities": (b"", encode_frame(PRIORITY, 1, struct.pack(">IB", 0, 1))),
    "unknown frames": (b"", encode_frame(UNKNOWN)),
    "goodbyes": (encode_call(1), encode_frame(GOAWAY, body=bytes(8))),
    "empty data": (encode_call(1), encode_frame(DATA, 1)),
    "tiny data": (
        # A message of a mebibyte, a byte at a time.
        encode_call(1) + encode_frame(DATA, 1, b"\0" + struct.pack(">I", 1 << 20)),
        encode_frame(DATA, 1, b"x"),
    ),
    "padded data": (encode_call(1), encode_frame(DATA, 1, b"\xff" + bytes(255), PADDED)),
    "data of a closed call": (
        encode_call(1) + encode_frame(RST_STREAM, 1, bytes(4)),
        encode_frame(DATA, 1, b"x"),
    ),
    "resets of a closed call": (encode_call(1), encode_frame(RST_STREAM, 1, bytes(4))),
    "windows of a closed call": (
        encode_call(1) + encode_frame(RST_STREAM, 1, bytes(4)),
        encode_frame(WINDOW_UPDATE, 1, struct.pack(">I", 1)),
    ),
    "parts of headers": (encode_call(1, flags=0), encode_frame(CONTINUATION, 1)),
}


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    body: bytes


class RawClient:
    """Sends bytes, and reads frames."""

    def __init__(self, port: int, seconds: float = 30.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), seconds)
        self.socket.sendall(OPENING)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def read_frame(self) -> Frame | None:
        """Return the next frame of the server, or None if it has closed the connection."""
        while len(self._buffer) < 9 or len(self._buffer) < self._get_end():
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._buffer += data
        kind, flags, stream = struct.unpack_from(">BBI", self._buffer, 3)
        end = self._get_end()
        body, self._buffer = self._buffer[9:end], self._buffer[end:]
        return Frame(kind, flags, stream, body)

    def read_until(self, kind: int, stream: int = 0) -> Frame:
        while (frame := self.read_frame()) is not None:
            if (frame.kind, frame.stream) == (kind, stream):
                return frame
        raise AssertionError(f"closed without a frame {kind} on stream {stream}")

    def read_farewell(self) -> int | None:
        """Read until the server closes. Return the error of its last farewell."""
        error: int | None = None
        while (frame := self.read_frame()) is not None:
            if frame.kind == GOAWAY:
                error = int.from_bytes(frame.body[4:8])
        return error

    def _get_end(self) -> int:
        return 9 + int.from_bytes(self._buffer[:3])
