"""Server-sent events, as model servers write them: read piece by piece, forgiving what it can."""

from collections.abc import Iterable, Iterator

MAX_EVENT_BYTES = 4 << 20


class EventTooLong(ValueError):
    """There is no end of it."""


def events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each, as soon as its last byte is there; also of one that its end cuts short."""
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
    """Each ends with LF, CRLF or CR; a CR at the end of a piece may have its LF in the next."""
    begun = bytearray()
    skip_lf = False
    for piece in pieces:
        if skip_lf and piece:
            piece = piece.removeprefix(b"\n")  # noqa: PLW2901
            skip_lf = False
        if not piece:
            continue
        skip_lf = piece.endswith(b"\r")
        begun += piece
        if len(begun) > MAX_EVENT_BYTES + len(piece):
            raise EventTooLong
        if b"\n" not in piece and b"\r" not in piece:
            continue
        *whole, rest = bytes(begun).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        begun = bytearray(rest)
        yield from whole
    if begun:
        yield bytes(begun)
