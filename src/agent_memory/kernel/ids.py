"""Ids, times and positions: how features refer to each other's records."""

import uuid
from dataclasses import dataclass
from typing import NamedTuple, NewType

Millis = NewType("Millis", int)  # Unix milliseconds
MAX_MILLIS = 9_999_999_999_999  # 13 digits: keys are zero-padded to that width
# The latest time of an edit that comes from elsewhere: later edits here need a later one.
MAX_STATED_MILLIS = MAX_MILLIS - 1_000_000_000

EventId = NewType("EventId", str)
SessionId = NewType("SessionId", str)
KnowledgeId = NewType("KnowledgeId", str)
Digest = NewType("Digest", str)
Domain = NewType("Domain", str)  # "user", "project:name" or "org:name"

USER = Domain("user")
PROJECT = "project"
ORG = "org"
ALL = "all"  # of a filter

_NAMESPACE = uuid.UUID("8f6a5c1e-0d7b-4d0e-9a53-5a9f1f0c2b77")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in the order of the log: by time, then by the bytes of the id."""

    at_ms: Millis
    event_id: EventId

    @property
    def order(self) -> tuple[int, bytes]:
        return self.at_ms, self.event_id.encode()

    @property
    def next(self) -> "Position":
        """The position right after this one. No event can have it."""
        return Position(at_ms=self.at_ms, event_id=EventId(self.event_id + "\0"))


class MemoryKey(NamedTuple):
    """The identity of a memory."""

    domain: Domain
    namespace: str
    digest: Digest


def derive_id(kind: str, *names: str) -> KnowledgeId:
    """Derive an id from names: the same names always give the same id.

    The lengths are hashed too, so that different lists of names never collide.
    """
    parts = (kind, *names)
    lengths = ",".join(str(len(part)) for part in parts)
    return KnowledgeId(str(uuid.uuid5(_NAMESPACE, f"{lengths}:{''.join(parts)}")))
