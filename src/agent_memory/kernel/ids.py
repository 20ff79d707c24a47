"""The ids and positions by which features refer to each other's records."""

import uuid
from dataclasses import dataclass
from typing import NamedTuple, NewType

EventId = NewType("EventId", str)
SessionId = NewType("SessionId", str)
Millis = NewType("Millis", int)
MAX_MILLIS = 9_999_999_999_999  # 13 digits: what a zero-padded key can order


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in the log's order: time, then the bytes of the id."""

    at_ms: Millis
    event_id: EventId

    @property
    def order(self) -> tuple[int, bytes]:
        return self.at_ms, self.event_id.encode()

    @property
    def next(self) -> "Position":
        """The place right behind this one; no event can have it."""
        return Position(at_ms=self.at_ms, event_id=EventId(self.event_id + "\0"))


Digest = NewType("Digest", str)
Domain = NewType("Domain", str)  # "user", "project:name" or "org:name"
USER = Domain("user")
PROJECT = "project"
ORG = "org"


class MemoryKey(NamedTuple):
    """What a memory is known by."""

    domain: Domain
    namespace: str
    digest: Digest


KnowledgeId = NewType("KnowledgeId", str)

_SPACE = uuid.UUID("8f6a5c1e-0d7b-4d0e-9a53-5a9f1f0c2b77")


def derive_id(kind: str, *names: str) -> KnowledgeId:
    """The same for the same names. They are told apart by their lengths, whatever is in them."""
    parts = (kind, *names)
    lengths = ",".join(str(len(part)) for part in parts)
    return KnowledgeId(str(uuid.uuid5(_SPACE, f"{lengths}:{''.join(parts)}")))
