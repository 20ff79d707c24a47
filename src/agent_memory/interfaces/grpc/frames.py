"""What a client sends, cut into whole frames and counted before the library does any work on it.

Any frame, even one of nine bytes, costs the library some 20 µs. So frames that carry no call have a
budget. The others are not limited by number: a connection that sends many of them is served by
turns with other connections.
"""

import struct
import time

from jh2.exceptions import DenialOfServiceError, FrameTooLargeError

FRAME_BYTES = 128 << 10
HEADER_BYTES = 64 << 10  # of a block of headers, in all its frames
FRAMES_AT_ONCE = 128  # then others have their turn; long headers count as several
BLOCK_SECONDS = 20.0  # for a block of headers to be whole

# Cancelled calls, pings, settings, windows, priorities, unknown frames, small parts of messages: so
# many at once, and so many a second. A client that sends more is disconnected.
MAX_CONTROL_FRAMES = 2_000
CONTROL_FRAMES_PER_SECOND = 500
# So many more are allowed for each frame of an answer: it makes clients send a window update for
# the stream and one for the connection, and measure the connection with a ping.
CONTROL_FRAMES_PER_ANSWER = 3
# And for each message of a request: it may come in small frames.
CONTROL_FRAMES_PER_MESSAGE = 2

_PREFACE_BYTES = 24
_HEAD = struct.Struct(">HBBBL")  # length in two parts, type, flags, stream
_HEAD_BYTES = _HEAD.size
_DATA, _CONTINUATION = 0, 9
_BLOCK = frozenset([1, 5, _CONTINUATION])  # HEADERS and PUSH_PROMISE begin a block of headers
_END_HEADERS = 4
_USUAL_HEADER_BYTES = 128
_FULL_DATA_BYTES = 1 << 10
_MAX_BLOCK_FRAMES = 16


class FrameReader:
    """Returns whole frames, some at a time, and refuses what is too long or too much."""

    __slots__ = (
        "_block_began", "_block_bytes", "_block_frames", "_preface", "_refilled", "_rest", "_room",
        "count",
    )  # fmt: skip

    def __init__(self) -> None:
        self._preface = _PREFACE_BYTES  # bytes of it that are still to come
        self._rest = bytearray()
        self._room = float(MAX_CONTROL_FRAMES)
        self._refilled = time.monotonic()
        self._block_began: float | None = None  # if one is under way
        self._block_bytes = 0
        self._block_frames = 0
        self.count = 0  # of the frames that were whole

    def allow(self, control_frames: int) -> None:
        """Allow the client more frames that carry no call."""
        self._room += control_frames

    def charge(self, control_frames: int = 1) -> None:
        """Count frames that carry no call. Raises DenialOfServiceError if they are too many."""
        now = time.monotonic()
        room = self._room + (now - self._refilled) * CONTROL_FRAMES_PER_SECOND
        self._room, self._refilled = min(room, MAX_CONTROL_FRAMES) - control_frames, now
        if self._room < 0:
            raise DenialOfServiceError("too many frames that carry no call")

    def has_late_block(self) -> bool:
        """Tell whether a block of headers takes too long."""
        began = self._block_began
        return began is not None and time.monotonic() - began > BLOCK_SECONDS

    def read(self, data: bytes) -> tuple[bytes, bool]:
        """Return frames that are whole now, and whether there are more of them.

        To have those, call it again with no data. Raises ProtocolError.
        """
        opening = b""
        if self._preface and data:
            # The library checks it, byte by byte.
            opening, data = data[: self._preface], data[self._preface :]
            self._preface -= len(opening)
        buffer: bytes | bytearray = data
        if self._rest:
            self._rest += data
            buffer = self._rest
        end, has_more = self._find_end(buffer)
        if buffer is data:
            if end == len(data):
                return opening + data if opening else data, False
            self._rest = bytearray(memoryview(data)[end:])
            return opening + data[:end], has_more
        frames = bytes(memoryview(buffer)[:end])
        del self._rest[:end]
        return frames, has_more

    def _find_end(self, buffer: bytes | bytearray) -> tuple[int, bool]:
        """Return where the last of the next whole frames ends, and whether there may be more."""
        start, stop = 0, len(buffer)
        number = weight = control = 0
        while (body := start + _HEAD_BYTES) <= stop:
            if weight >= FRAMES_AT_ONCE:
                break
            high, low, kind, flags, _ = _HEAD.unpack_from(buffer, start)
            length = high << 8 | low
            if length > FRAME_BYTES:
                raise FrameTooLargeError("a frame is too large")
            if kind in _BLOCK and length + self._block_bytes > HEADER_BYTES:
                raise DenialOfServiceError("a block of headers is too large")
            if body + length > stop:
                break
            number += 1
            weight += 1
            start = body + length
            if kind in _BLOCK:
                weight += length // _USUAL_HEADER_BYTES
                control += kind == _CONTINUATION
                self._enter_block(length, is_whole=flags & _END_HEADERS != 0)
            elif kind != _DATA or length < _FULL_DATA_BYTES:
                control += 1
        self.count += number
        if control:
            self.charge(control)
        return start, weight >= FRAMES_AT_ONCE

    def _enter_block(self, length: int, *, is_whole: bool) -> None:
        if is_whole:
            self._block_began, self._block_bytes, self._block_frames = None, 0, 0
            return
        if self._block_began is None:
            self._block_began = time.monotonic()
        self._block_bytes += length
        self._block_frames += 1
        if self._block_frames > _MAX_BLOCK_FRAMES:
            raise DenialOfServiceError("a block of headers is in too many frames")
