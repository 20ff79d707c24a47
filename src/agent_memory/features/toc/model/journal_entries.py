"""Journal entries: a session or a day to read, with its title, highlights and figures."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.highlights import Highlight, HighlightKind, Work
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.kernel.ids import Millis, SessionId

MAX_NOTES = 5  # shown of a session that has nothing better
_RISING = (  # in the order of reading
    HighlightKind.MILESTONE,
    HighlightKind.DONE,
    HighlightKind.DECIDED,
    HighlightKind.FOUND,
    HighlightKind.BROKEN,
    HighlightKind.OPEN,
    HighlightKind.STATE,
)
_NOT_A_WORD = re.compile(r"\W+")


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


def choose_session_title(segments: Sequence[TocNode]) -> str:
    """Return a title for the segments of a session, by time: what it finished, or how it began."""
    own = [node for node in segments if node.session == get_main_session(node.session)]
    milestones = [
        bullet
        for node in own or segments
        for bullet in node.bullets
        if bullet.kind is HighlightKind.MILESTONE
    ]
    if milestones:
        return max(milestones, key=lambda bullet: (bullet.reported, bullet.weight)).text
    titles = [node.title for node in (*own, *segments) if _has_topic(node)]
    return next(iter(titles), segments[0].title if segments else "")


def select_session_highlights(highlights: Iterable[Highlight]) -> tuple[Highlight, ...]:
    """Return what came of a session, by kind and time, each said once.

    Of measurements only the last one counts, and a failure only if nothing was finished after it.
    What was asked, planned or noted stands in only for a session without anything better.
    """
    ordered = sorted(highlights, key=lambda each: each.at_ms)
    last = {each.kind: each for each in ordered}
    finished = max((last[kind].at_ms for kind in _RISING[:2] if kind in last), default=-1)
    rising = [
        each
        for each in ordered
        if each.kind in _RISING
        and (each.kind is not HighlightKind.STATE or each is last[HighlightKind.STATE])
        and (each.kind is not HighlightKind.BROKEN or each.at_ms > finished)
    ]
    if rising:
        rising.sort(key=lambda each: _RISING.index(each.kind))
        return _drop_repeated(rising)
    notes = sorted(_drop_repeated(ordered), key=lambda each: -each.weight)[:MAX_NOTES]
    return tuple(sorted(notes, key=lambda each: each.at_ms))


def _drop_repeated(highlights: Iterable[Highlight]) -> tuple[Highlight, ...]:
    seen: dict[str, Highlight] = {}
    for each in highlights:
        seen.setdefault(_NOT_A_WORD.sub(" ", each.text).strip().casefold(), each)
    return tuple(seen.values())


def _has_topic(node: TocNode) -> bool:
    return bool(node.title) and node.title != periods.segment_title(node.start_ms)
