"""ULIDs derived from content, so that a rebuild gives the same ids."""

import hashlib

from agent_memory.kernel.ids import Millis

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def derive_ulid(at_ms: Millis, *parts: str) -> str:
    """Derive a ULID of 26 characters: 48 bits of time, 80 bits of a hash over the parts."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    number = at_ms << 80 | int.from_bytes(digest[:10], "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))
