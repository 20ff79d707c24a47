"""What a summarizer is given and gives: bullets that lead back to the words they rest on."""

from dataclasses import dataclass

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.kernel.ids import EventId, Millis

EXTRACTIVE = "extractive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """An event as a summarizer reads it: long tool results are cut already."""

    event_id: EventId
    at_ms: Millis
    type: EventType
    role: EventRole
    text: str
    tool_name: str = ""
    speaker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Words of the conversation on which a bullet rests, verbatim, and where they stand."""

    event_id: EventId
    at_ms: Millis
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A bullet of a segment. `weight` ranks it among those of the segment's day and above."""

    text: str
    weight: float
    support: tuple[Support, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A segment in short. `title` is None where the conversation has no topic.

    `source` names the summarizer that wrote it: where one fails, another may have stepped in.
    """

    title: str | None
    text: str
    points: tuple[Point, ...]
    keywords: tuple[str, ...]
    source: str = EXTRACTIVE


EMPTY = Summary(title=None, text="", points=(), keywords=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildBullet:
    """A bullet of a child node, as its parent sees it."""

    text: str
    weight: float
    grip_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSummary:
    """A child node, as its parent sees it."""

    title: str
    text: str
    bullets: tuple[ChildBullet, ...]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A period in short: bullets chosen from its children, with their grips."""

    text: str
    bullets: tuple[ChildBullet, ...]
    keywords: tuple[str, ...]
    source: str = EXTRACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """A segment to be summarized, and what was said just before it."""

    utterances: tuple[Utterance, ...]
    overlap: tuple[Utterance, ...] = ()
