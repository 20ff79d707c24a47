"""Short ids: the beginning of the ULID of a segment or a grip, enough to open it.

The first ten characters of a ULID are a time in milliseconds. The part of the id before the ULID
follows from it.
"""

import re

from agent_memory.features.toc.model import periods
from agent_memory.kernel.ids import MAX_MILLIS, Millis

LENGTH = 14  # four characters of the hash tell records of the same millisecond apart
MIN_LENGTH = 12
_TIME = 10
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID = re.compile(rf"[{_ALPHABET}]{{{MIN_LENGTH},26}}")
_BEGINNING = re.compile(rf"0[{_ALPHABET}]+")
_SEGMENT = "toc:segment:"
_GRIP = "grip:"


def abbreviate(name: str) -> str:
    """Return the short id of a segment or a grip; the id of a period is short already."""
    if name.startswith((_SEGMENT, _GRIP)):
        return name.rpartition(":")[2][:LENGTH]
    return name


def is_too_short(name: str) -> bool:
    """Return whether a name may be the beginning of a ULID, and is too short to find it by."""
    return len(name) < MIN_LENGTH and bool(_BEGINNING.fullmatch(name))


def to_segment_prefix(name: str) -> str:
    """Return how the id of a segment with this short id begins; any other name is returned."""
    at_ms = _parse_time(name)
    if at_ms is None:
        return name
    return f"{_SEGMENT}{periods.find_day(at_ms).first.isoformat()}:{name}"


def to_grip_prefix(name: str) -> str:
    """Return how the id of a grip with this short id begins; any other name is returned."""
    at_ms = _parse_time(name)
    return name if at_ms is None else f"{_GRIP}{at_ms:013}:{name}"


def _parse_time(name: str) -> Millis | None:
    if not _ULID.fullmatch(name):
        return None
    at_ms = 0
    for character in name[:_TIME]:
        at_ms = at_ms * len(_ALPHABET) + _ALPHABET.index(character)
    return Millis(at_ms) if at_ms <= MAX_MILLIS else None
