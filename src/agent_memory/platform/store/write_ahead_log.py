"""The format of RocksDB's write-ahead log, to tell sound records from damaged ones.

A log is a run of 32 KiB blocks. A block holds pieces, each with a checksum (of its kind and bytes,
masked), a length and a kind: a record is one full piece, or a first, middle ones and a last. What
is left of a block, if too short for a piece, is zeros. A record is one batch of the store.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_memory.platform.store import crc32c
from agent_memory.platform.store.batches import Delete, DeleteRange, Put

BLOCK = 32 << 10
_HEAD = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_KINDS = (_FULL, _FIRST, _MIDDLE, _LAST)
_BATCH_HEAD = 12  # of a record: the number of its first operation, and how many they are
_DELETE, _PUT, _DELETE_RANGE = 0x0, 0x1, 0xF
_OF_FAMILY = {0x4: _DELETE, 0x5: _PUT, 0xE: _DELETE_RANGE}  # with the number of a family
HOLE = bytes(64)  # in a record of which some sectors never reached the disk

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContents:
    """What a log holds: its sound records, where each ends, and the ranges of bytes in which it is
    damaged. A last write that was cut off is no damage: it was never acknowledged."""

    records: tuple[bytes, ...]
    ends: tuple[int, ...]
    damaged: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class _Fragment:
    start: int
    end: int
    kind: int
    body: bytes
    checksum: int


def read(log: bytes) -> LogContents:
    """Read everything that is sound, also behind damage."""
    pieces = _find_fragments(log)
    gaps = _gaps(log, pieces)
    records: list[bytes] = []
    lost: list[Range] = []
    open_record: list[_Fragment] = []
    ends: list[int] = []
    for piece in pieces:
        starts = piece.kind in (_FULL, _FIRST)
        if open_record and (starts or any(gap[1] == piece.start for gap in gaps)):
            lost += [(part.start, part.end) for part in open_record]
            open_record = []
        if not starts and not open_record:  # of a record whose beginning is damaged
            lost.append((piece.start, piece.end))
            continue
        open_record.append(piece)
        if piece.kind in (_FULL, _LAST):
            records.append(b"".join(part.body for part in open_record))
            ends.append(piece.end)
            open_record = []
    lost += [(part.start, part.end) for part in open_record]
    damaged = _join([*gaps, *lost])
    last_end = ends[-1] if ends else 0
    if _is_cut_off(log, last_end):
        damaged = tuple(each for each in damaged if each[0] < last_end)
    return LogContents(records=tuple(records), ends=tuple(ends), damaged=damaged)


def write(records: Sequence[bytes]) -> bytes:
    """Write a log of these records."""
    pieces: list[tuple[int, bytes]] = []
    written = 0
    for record in records:
        rest, first = record, True
        while first or rest:
            room = BLOCK - written % BLOCK
            if room < _HEAD.size:
                pieces.append((0, bytes(room)))
                written += room
                room = BLOCK
            body, rest = rest[: room - _HEAD.size], rest[room - _HEAD.size :]
            kind = (_FIRST if first else _MIDDLE) if rest else (_FULL if first else _LAST)
            pieces.append((kind, body))
            written += _HEAD.size + len(body)
            first = False
    sums = iter(crc32c.compute([bytes([kind]) + body for kind, body in pieces if kind]))
    return b"".join(
        _HEAD.pack(crc32c.mask(next(sums)), len(body), kind) + body if kind else body
        for kind, body in pieces
    )


def operations(record: bytes, names: Mapping[int, str]) -> list[Put | Delete | DeleteRange]:
    """Read a record as what it writes. `names` are those of the families, by their numbers."""
    found: list[Put | Delete | DeleteRange] = []
    at = _BATCH_HEAD
    while at < len(record):
        tag, at = record[at], at + 1
        family, at = _read_varint(record, at) if tag in _OF_FAMILY else (0, at)
        kind = _OF_FAMILY.get(tag, tag)
        if kind not in (_DELETE, _PUT, _DELETE_RANGE):
            raise ValueError(f"a batch has an operation of kind {tag}")
        key, at = _read_slice(record, at)
        value, at = (b"", at) if kind == _DELETE else _read_slice(record, at)
        name = names.get(family, "")
        if kind == _PUT:
            found.append(Put(name, key, value))
        elif kind == _DELETE:
            found.append(Delete(name, key))
        else:
            found.append(DeleteRange(name, key, value))
    return found


def _read_varint(record: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    number = shift = 0
    while True:
        byte, at = record[at], at + 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def _read_slice(record: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_varint(record, at)
    if at + length > len(record):
        raise ValueError("a batch ends in the middle of a text")
    return record[at : at + length], at + length


def _find_fragments(log: bytes) -> list[_Fragment]:
    """All pieces with a right checksum, in order: where lengths lead to them, and in a block where
    they lead astray, wherever one begins."""
    blocks = [list(_follow(log, start)) for start in range(0, len(log), BLOCK)]
    sound = _check([piece for block in blocks for piece in block])
    pieces: list[_Fragment] = []
    for number, block in enumerate(blocks):
        start = number * BLOCK
        end = min(start + BLOCK, len(log))
        at = block[-1].end if block else start
        if all(piece in sound for piece in block) and not log[at:end].strip(b"\0"):
            pieces += block
            continue
        for piece in sorted(_check(list(_candidates(log, start, end))), key=lambda e: e.start):
            if piece.start >= start:
                pieces.append(piece)
                start = piece.end
    return pieces


def _follow(log: bytes, at: int) -> Iterator[_Fragment]:
    """The pieces of a block as one length leads to the next."""
    end = min(at - at % BLOCK + BLOCK, len(log))
    while (piece := _parse_fragment(log, at, end)) is not None:
        yield piece
        at = piece.end


def _candidates(log: bytes, start: int, end: int) -> Iterator[_Fragment]:
    """Whatever could be a piece, at every byte of a block."""
    for at in range(start, end - _HEAD.size + 1):
        if log[at + _HEAD.size - 1] not in _KINDS:
            continue
        piece = _parse_fragment(log, at, end)
        if piece is not None:
            yield piece
        elif end == len(log):  # the last one, if only its length is damaged
            checksum, _, kind = _HEAD.unpack_from(log, at)
            yield _Fragment(at, end, kind, log[at + _HEAD.size : end], checksum)


def _parse_fragment(log: bytes, at: int, end: int) -> _Fragment | None:
    if at + _HEAD.size > end:
        return None
    checksum, length, kind = _HEAD.unpack_from(log, at)
    body = at + _HEAD.size
    if kind not in _KINDS or body + length > end:
        return None
    return _Fragment(at, body + length, kind, log[body : body + length], checksum)


def _check(pieces: Sequence[_Fragment]) -> set[_Fragment]:
    sums = crc32c.compute([bytes([piece.kind]) + piece.body for piece in pieces])
    return {
        piece
        for piece, value in zip(pieces, sums, strict=True)
        if crc32c.mask(value) == piece.checksum
    }


def _gaps(log: bytes, pieces: Sequence[_Fragment]) -> list[Range]:
    """The ranges between sound pieces that should have held some."""
    found: list[Range] = []
    at = 0
    for piece in pieces:
        if not _is_padding(log, at, piece.start):
            found.append((at, piece.start))
        at = piece.end
    if log[at:].strip(b"\0"):
        found.append((at, len(log)))
    return found


def _is_padding(log: bytes, start: int, end: int) -> bool:
    """Whether this is the rest of a block that is too short for a piece."""
    return end - start < _HEAD.size and not log[start:end].strip(b"\0")


def _is_cut_off(log: bytes, at: int) -> bool:
    """Whether the log ends in a record that was not written whole: too short, or with a hole where
    a part of it never reached the disk. Records of ours end in a digit."""
    if log.endswith(b"\0") or HOLE in log[at:]:
        return True
    kind = _MIDDLE
    while at < len(log):
        end = at - at % BLOCK + BLOCK
        if at + _HEAD.size > len(log):
            return True
        piece = _parse_fragment(log, at, end) if at + _HEAD.size <= end else None
        if piece is None:
            return False
        if piece.end > len(log):
            return True
        at = piece.end if end - piece.end >= _HEAD.size else end
        kind = piece.kind
    return kind in (_FIRST, _MIDDLE)


def _join(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Ranges that touch, as one."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
