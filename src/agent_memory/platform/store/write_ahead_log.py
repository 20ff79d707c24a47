"""A reader and writer of RocksDB's write-ahead log, to tell sound records from damaged ones.

A log is a sequence of 32 KiB blocks. A block contains fragments, each with a masked checksum (of
its kind and bytes), a length and a kind: a record is one full fragment, or a first, middle ones
and a last. The rest of a block is zeros if it is too short for a fragment. A record is one batch
of the store.
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
_BATCH_HEAD = 12  # of a record: the number of its first operation, and their count
_DELETE, _PUT, _DELETE_RANGE = 0x0, 0x1, 0xF
_OF_FAMILY = {0x4: _DELETE, 0x5: _PUT, 0xE: _DELETE_RANGE}  # followed by a family number
HOLE = bytes(64)  # a sign that some sectors of a record never reached the disk

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContents:
    """The sound records of a log, where each ends, and the damaged ranges of bytes.

    An incomplete last write is not damage: it was never acknowledged.
    """

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
    """Read every sound record, also those after damage."""
    fragments = _find_fragments(log)
    gaps = _gaps(log, fragments)
    records: list[bytes] = []
    lost: list[Range] = []
    open_record: list[_Fragment] = []
    ends: list[int] = []
    for fragment in fragments:
        starts = fragment.kind in (_FULL, _FIRST)
        if open_record and (starts or any(gap[1] == fragment.start for gap in gaps)):
            lost += [(part.start, part.end) for part in open_record]
            open_record = []
        if not starts and not open_record:  # the beginning of this record is damaged
            lost.append((fragment.start, fragment.end))
            continue
        open_record.append(fragment)
        if fragment.kind in (_FULL, _LAST):
            records.append(b"".join(part.body for part in open_record))
            ends.append(fragment.end)
            open_record = []
    lost += [(part.start, part.end) for part in open_record]
    damaged = _join([*gaps, *lost])
    last_end = ends[-1] if ends else 0
    if _is_cut_off(log, last_end):
        damaged = tuple(span for span in damaged if span[0] < last_end)
    return LogContents(records=tuple(records), ends=tuple(ends), damaged=damaged)


def write(records: Sequence[bytes]) -> bytes:
    """Return a log of these records."""
    fragments: list[tuple[int, bytes]] = []
    written = 0
    for record in records:
        rest, first = record, True
        while first or rest:
            room = BLOCK - written % BLOCK
            if room < _HEAD.size:
                fragments.append((0, bytes(room)))
                written += room
                room = BLOCK
            body, rest = rest[: room - _HEAD.size], rest[room - _HEAD.size :]
            kind = (_FIRST if first else _MIDDLE) if rest else (_FULL if first else _LAST)
            fragments.append((kind, body))
            written += _HEAD.size + len(body)
            first = False
    sums = iter(crc32c.compute([bytes([kind]) + body for kind, body in fragments if kind]))
    return b"".join(
        _HEAD.pack(crc32c.mask(next(sums)), len(body), kind) + body if kind else body
        for kind, body in fragments
    )


def parse_operations(record: bytes, names: Mapping[int, str]) -> list[Put | Delete | DeleteRange]:
    """Parse the operations of a record. `names` are the family names by their numbers."""
    operations: list[Put | Delete | DeleteRange] = []
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
            operations.append(Put(name, key, value))
        elif kind == _DELETE:
            operations.append(Delete(name, key))
        else:
            operations.append(DeleteRange(name, key, value))
    return operations


def _read_varint(record: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits per byte; return it and where it ends."""
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
        raise ValueError("a batch ends in the middle of a key or value")
    return record[at : at + length], at + length


def _find_fragments(log: bytes) -> list[_Fragment]:
    """Return all fragments with a right checksum, in order.

    The lengths lead from one to the next. In a block where they do not, every byte is tried.
    """
    blocks = [list(_follow(log, start)) for start in range(0, len(log), BLOCK)]
    sound = _check([fragment for block in blocks for fragment in block])
    fragments: list[_Fragment] = []
    for number, block in enumerate(blocks):
        start = number * BLOCK
        end = min(start + BLOCK, len(log))
        at = block[-1].end if block else start
        if all(fragment in sound for fragment in block) and not log[at:end].strip(b"\0"):
            fragments += block
            continue
        for fragment in sorted(_check(list(_candidates(log, start, end))), key=lambda p: p.start):
            if fragment.start >= start:
                fragments.append(fragment)
                start = fragment.end
    return fragments


def _follow(log: bytes, at: int) -> Iterator[_Fragment]:
    """Yield the fragments of a block, following their lengths."""
    end = min(at - at % BLOCK + BLOCK, len(log))
    while (fragment := _parse_fragment(log, at, end)) is not None:
        yield fragment
        at = fragment.end


def _candidates(log: bytes, start: int, end: int) -> Iterator[_Fragment]:
    """Yield everything that could be a fragment, at every byte of a block."""
    for at in range(start, end - _HEAD.size + 1):
        if log[at + _HEAD.size - 1] not in _KINDS:
            continue
        fragment = _parse_fragment(log, at, end)
        if fragment is not None:
            yield fragment
        elif end == len(log):  # the last fragment, if only its length is damaged
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


def _check(fragments: Sequence[_Fragment]) -> set[_Fragment]:
    sums = crc32c.compute([bytes([fragment.kind]) + fragment.body for fragment in fragments])
    return {
        fragment
        for fragment, value in zip(fragments, sums, strict=True)
        if crc32c.mask(value) == fragment.checksum
    }


def _gaps(log: bytes, fragments: Sequence[_Fragment]) -> list[Range]:
    """Return the ranges between sound fragments that are not padding."""
    gaps: list[Range] = []
    at = 0
    for fragment in fragments:
        if not _is_padding(log, at, fragment.start):
            gaps.append((at, fragment.start))
        at = fragment.end
    if log[at:].strip(b"\0"):
        gaps.append((at, len(log)))
    return gaps


def _is_padding(log: bytes, start: int, end: int) -> bool:
    """Return whether this is the rest of a block, too short for a fragment."""
    return end - start < _HEAD.size and not log[start:end].strip(b"\0")


def _is_cut_off(log: bytes, at: int) -> bool:
    """Return whether the log ends in an incomplete record.

    It is too short, or has a hole where a part of it never reached the disk. Our records end in a
    digit.
    """
    if log.endswith(b"\0") or HOLE in log[at:]:
        return True
    kind = _MIDDLE
    while at < len(log):
        end = at - at % BLOCK + BLOCK
        if at + _HEAD.size > len(log):
            return True
        fragment = _parse_fragment(log, at, end) if at + _HEAD.size <= end else None
        if fragment is None:
            return False
        if fragment.end > len(log):
            return True
        at = fragment.end if end - fragment.end >= _HEAD.size else end
        kind = fragment.kind
    return kind in (_FIRST, _MIDDLE)


def _join(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Merge ranges that touch."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
