"""The input and output of summarizers. Every bullet has the words that support it."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.kernel.ids import EventId, Millis

EXTRACTIVE = "extractive"
_MARKERS = frozenset({EventType.SESSION_START, EventType.SESSION_END})


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """An event as a summarizer reads it, with long tool results already cut."""

    event_id: EventId
    at_ms: Millis
    type: EventType
    role: EventRole
    text: str
    tool_name: str = ""
    speaker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """A verbatim excerpt that supports a bullet, and its event."""

    event_id: EventId
    at_ms: Millis
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A bullet of a segment. `weight` ranks it among the bullets of its day, week and so on."""

    text: str
    weight: float
    support: tuple[Support, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summary of a segment. `title` is None if the conversation has no topic.

    `source` names the summarizer that wrote it, which may be a fallback.
    """

    title: str | None
    text: str
    points: tuple[Point, ...]
    keywords: tuple[str, ...]
    source: str = EXTRACTIVE


EMPTY = Summary(title=None, text="", points=(), keywords=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildBullet:
    """A bullet of a child node, as input for its parent."""

    text: str
    weight: float
    grip_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSummary:
    """A child node, as input for its parent."""

    title: str
    text: str
    bullets: tuple[ChildBullet, ...]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A summary of a period: a text, and bullets chosen from its children with their grips."""

    text: str
    bullets: tuple[ChildBullet, ...]
    keywords: tuple[str, ...]
    source: str = EXTRACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """A segment to summarize, and the end of the segment before it."""

    utterances: tuple[Utterance, ...]
    overlap: tuple[Utterance, ...] = ()


def filter_spoken(conversation: Iterable[Utterance]) -> tuple[Utterance, ...]:
    """Return the utterances without session markers and blank texts."""
    return tuple(
        utterance
        for utterance in conversation
        if utterance.type not in _MARKERS and utterance.text.strip()
    )
