"""ULIDs: 48 bits of time and 80 of chance in 26 characters that sort by time."""

import os
import time

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CHANCE_BYTES = 10


def new_ulid() -> str:
    return ulid(time.time_ns() // 1_000_000, os.urandom(_CHANCE_BYTES))


def ulid(at_ms: int, chance: bytes) -> str:
    number = at_ms << (8 * _CHANCE_BYTES) | int.from_bytes(chance)
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
