"""A tolerant parser for the server-sent events of model servers."""

from collections.abc import Iterable, Iterator

MAX_EVENT_BYTES = 4 << 20


class EventTooLong(ValueError):
    """An event exceeds MAX_EVENT_BYTES."""


def events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of each event as soon as it is complete, and of a last incomplete one."""
    data: list[bytes] = []
    size = 0
    for line in _lines(pieces):
        if not line:
            if data:
                yield b"\n".join(data)
            data, size = [], 0
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            value = value.removeprefix(b" ")
            data.append(value)
            size += len(value) + 1
            if size > MAX_EVENT_BYTES:
                raise EventTooLong
    if data:
        yield b"\n".join(data)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines. They end with LF, CRLF or CR; a CRLF may be split between two pieces."""
    buffer = bytearray()
    skip_lf = False
    for piece in pieces:
        if skip_lf and piece:
            piece = piece.removeprefix(b"\n")  # noqa: PLW2901
            skip_lf = False
        if not piece:
            continue
        skip_lf = piece.endswith(b"\r")
        buffer += piece
        if len(buffer) > MAX_EVENT_BYTES + len(piece):
            raise EventTooLong
        if b"\n" not in piece and b"\r" not in piece:
            continue
        *whole, rest = bytes(buffer).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        buffer = bytearray(rest)
        yield from whole
    if buffer:
        yield bytes(buffer)
