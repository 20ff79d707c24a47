"""The input and output of summarizers. Every bullet has the words that support it."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model.highlights import (
    NEVER,
    NO_WORK,
    Highlight,
    HighlightKind,
    Work,
)
from agent_memory.features.toc.model.periods import Level
from agent_memory.kernel.ids import EventId, Millis

EXTRACTIVE = "extractive"
_MARKERS = frozenset({EventType.SESSION_START, EventType.SESSION_END})


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """A verbatim excerpt that supports a bullet, and its event."""

    event_id: EventId
    at_ms: Millis
    excerpt: str


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
    file: str = ""  # that the tool read or wrote
    failed: bool = False  # the tool reported an error
    titles: str = ""  # the text is the session's title; says who gave it
    summarizes: str = ""  # the text sums up earlier events; says which

    def quote(self, excerpt: str) -> Support:
        return Support(event_id=self.event_id, at_ms=self.at_ms, excerpt=excerpt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A bullet of a segment. `weight` ranks it among the bullets of its day, week and so on.

    `reported` is True if a final report says it, `corrects` if it contradicts what was said before.
    """

    text: str
    weight: float
    support: tuple[Support, ...]
    kind: HighlightKind = HighlightKind.NOTE
    reported: bool = False
    corrects: bool = False


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
class ChildSummary:
    """A child node, as input for its parent."""

    title: str
    text: str
    highlights: tuple[Highlight, ...]
    keywords: tuple[str, ...]
    session: str = ""  # of a segment
    project: str = ""
    start_ms: Millis = NEVER
    end_ms: Millis = NEVER
    work: Work = NO_WORK


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodSummary:
    """A period to summarize: its level and its children, by time."""

    level: Level
    children: tuple[ChildSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestBullet:
    """A bullet of a period, with the grips of all highlights that it shows."""

    text: str
    grip_ids: tuple[str, ...]
    weight: float
    kind: HighlightKind = HighlightKind.NOTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A summary of a period: a text, bullets, and the highlights that rise to its parent."""

    text: str
    bullets: tuple[DigestBullet, ...]
    keywords: tuple[str, ...]
    highlights: tuple[Highlight, ...] = ()
    work: Work = NO_WORK
    source: str = EXTRACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """A segment to summarize, and the end of the segment before it.

    `is_cut` says that the agent goes on in the next segment: its last message ends no turn.
    """

    utterances: tuple[Utterance, ...]
    overlap: tuple[Utterance, ...] = ()
    is_cut: bool = False


def filter_spoken(conversation: Iterable[Utterance]) -> tuple[Utterance, ...]:
    """Return the utterances without session markers and blank texts."""
    return tuple(
        utterance
        for utterance in conversation
        if utterance.type not in _MARKERS and utterance.text.strip()
    )
