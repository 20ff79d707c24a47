"""Journal entries: a session or a day to read, with its title, highlights and figures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.features.toc.model import last_words, periods
from agent_memory.features.toc.model.highlights import READING_ORDER, Highlight, HighlightKind, Work
from agent_memory.features.toc.model.last_words import SessionHighlights
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.kernel.ids import Millis, SessionId

MAX_HIGHLIGHTS = 12  # of a session


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """A session with its subagents, or the part of it in one day.

    `short_id` is a beginning of its id that no other session has. `active` says that it has not
    ended and that its last event is recent.
    """

    session_id: SessionId
    short_id: str
    project: str
    agent: str
    title: str
    start_ms: Millis
    end_ms: Millis
    active: bool
    work: Work
    highlights: tuple[Highlight, ...]
    segments: tuple[TocNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayEntry:
    """A day in the user's zone, with its sessions by time.

    `summary` is empty unless a node of the table of contents covers exactly these segments.
    """

    day: date
    start_ms: Millis
    end_ms: Millis
    summary: str
    work: Work
    sessions: tuple[SessionEntry, ...]


def summarize_session(highlights: Iterable[Highlight]) -> SessionHighlights | None:
    """Return what still holds of one session, or None if it has no highlight."""
    return next(iter(last_words.summarize_sessions(highlights)), None)


def choose_session_title(segments: Sequence[TocNode], story: SessionHighlights | None) -> str:
    """Return a title for the segments of a session, by time: what it was about, or how it began."""
    if story is not None and story.lead is not None:
        return story.lead.text.rstrip(" .")
    own = [node for node in segments if node.session == get_main_session(node.session)]
    titles = [node.title for node in (*own, *segments) if _has_topic(node)]
    return next(iter(titles), segments[0].title if segments else "")


def select_session_highlights(story: SessionHighlights | None) -> tuple[Highlight, ...]:
    """Return what came of a session beside its title, by kind and time.

    Of too many, those that are merely done are left out first, the lightest before the others.
    """
    if story is None:
        return ()
    ranked = sorted(story.rest, key=lambda each: (each.kind is HighlightKind.DONE, -each.weight))
    heaviest = ranked[:MAX_HIGHLIGHTS]
    heaviest.sort(key=lambda each: (READING_ORDER.index(each.kind), each.at_ms, -each.weight))
    return tuple(heaviest)


def _has_topic(node: TocNode) -> bool:
    return bool(node.title) and node.title != periods.segment_title(node.start_ms)
