"""Segments: a session's events cut into stretches of conversation. A pure function of the events.

A pause, the size limit and the end of a session end a segment. A *run* is what lies between two
pauses; a late event changes nothing outside its own run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.kernel import ulids
from agent_memory.kernel.ids import Millis, Position, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRules:
    """Where to cut. The defaults are those of the settings."""

    time_gap_ms: int = 1_800_000
    max_tokens: int = 4096
    overlap_ms: int = 300_000
    overlap_tokens: int = 500
    max_tool_result_chars: int = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of one session: from its first event to its last, without those of the overlap."""

    session_id: SessionId
    first: Position
    last: Position
    tokens: int
    count: int
    ended: bool  # its last event ends the session: nothing is added to it

    @property
    def node_id(self) -> NodeId:
        return build_node_id(self.session_id, self.first)


def build_node_id(session_id: SessionId, first: Position) -> NodeId:
    """The id of the segment that begins with this event."""
    ulid = ulids.derive_ulid(first.at_ms, session_id, first.event_id)
    return periods.segment_node_id(first.at_ms, ulid)


def estimate_tokens(text: str) -> int:
    """Four characters a token, rounded up."""
    return -(-len(text) // 4)


def read_text(event: Event, rules: SegmentRules) -> str:
    """What counts of an event, and what a summarizer reads: long tool results are cut."""
    if event.type is EventType.TOOL_RESULT:
        return event.text[: rules.max_tool_result_chars]
    return event.text


def add_event(segment: Segment | None, event: Event, rules: SegmentRules) -> Segment:
    """The segment with the event added, or a new one where the event does not belong to it."""
    at = event.position
    tokens = estimate_tokens(read_text(event, rules))
    ends = event.type is EventType.SESSION_END
    if segment is None or not _belongs(segment, at.at_ms, tokens, rules):
        return Segment(
            session_id=event.session_id, first=at, last=at, tokens=tokens, count=1, ended=ends
        )
    return Segment(
        session_id=segment.session_id,
        first=segment.first,
        last=at,
        tokens=segment.tokens + tokens,
        count=segment.count + 1,
        ended=ends,
    )


def cut(events: Iterable[Event], rules: SegmentRules) -> list[Segment]:
    """The segments of one session's events, given in order of time and id."""
    found: list[Segment] = []
    for event in events:
        segment = add_event(found[-1] if found else None, event, rules)
        if found and segment.first == found[-1].first:
            found[-1] = segment
        else:
            found.append(segment)
    return found


def is_same_run(earlier: Segment, later: Segment, rules: SegmentRules) -> bool:
    """Whether no pause lies between two neighbouring segments."""
    return later.first.at_ms - earlier.last.at_ms < rules.time_gap_ms


def select_overlap(before: Sequence[Event], rules: SegmentRules) -> list[Event]:
    """The last events of the segment before that are context for the next, in order of time.

    Walking back from its last event: within `overlap_ms` of it, and at most `overlap_tokens`.
    """
    chosen: list[Event] = []
    tokens = 0
    for event in reversed(before):
        tokens += estimate_tokens(read_text(event, rules))
        if before[-1].at_ms - event.at_ms > rules.overlap_ms or tokens > rules.overlap_tokens:
            break
        chosen.append(event)
    return chosen[::-1]


def _belongs(segment: Segment, at_ms: Millis, tokens: int, rules: SegmentRules) -> bool:
    if segment.ended or at_ms - segment.last.at_ms >= rules.time_gap_ms:
        return False
    return segment.tokens + tokens <= rules.max_tokens
