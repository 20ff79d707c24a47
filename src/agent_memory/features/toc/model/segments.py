"""Segments: the stretches of a session's conversation, a pure function of its events.

A pause, the size limit and the end of a session end a segment. A *run* is the time between two
pauses; a late event changes nothing outside its own run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.model.metadata import is_description
from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.kernel import ulids
from agent_memory.kernel.ids import Millis, Position, SessionId

CUT = "\n[...]\n"  # stands for the middle of a long tool result
_TAIL = 600  # characters of its end


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRules:
    """The rules of cutting. The defaults are those of the settings."""

    time_gap_ms: int = 1_800_000
    max_tokens: int = 4096
    overlap_ms: int = 300_000
    overlap_tokens: int = 500
    max_tool_result_chars: int = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of one session, from its first event to its last, without the overlap."""

    session_id: SessionId
    first: Position
    last: Position
    tokens: int
    count: int
    ended: bool  # its last event ends the session: no event is added to it

    @property
    def node_id(self) -> NodeId:
        return build_node_id(self.session_id, self.first)


def build_node_id(session_id: SessionId, first: Position) -> NodeId:
    """Return the node id of the segment that begins with this event."""
    ulid = ulids.derive_ulid(first.at_ms, session_id, first.event_id)
    return periods.segment_node_id(first.at_ms, ulid)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for every four characters, rounded up."""
    return -(-len(text) // 4)


def read_text(event: Event, rules: SegmentRules) -> str:
    """Return the text of an event that counts and is summarized.

    Of a long tool result the middle is left out: the start has the command, the end its result.
    """
    most = rules.max_tool_result_chars
    if event.type is not EventType.TOOL_RESULT or len(event.text) <= most:
        return event.text
    tail = min(_TAIL, (most - len(CUT)) // 2)
    if tail <= 0:
        return event.text[:most]
    return event.text[: most - tail - len(CUT)] + CUT + event.text[-tail:]


def count_tokens(event: Event, rules: SegmentRules) -> int:
    """Return how much an event counts. Titles and summaries of other events do not count."""
    return 0 if is_description(event) else estimate_tokens(read_text(event, rules))


def add_event(segment: Segment | None, event: Event, rules: SegmentRules) -> Segment:
    """Return the segment with the event added, or a new one if the event does not belong to it."""
    at = event.position
    tokens = count_tokens(event, rules)
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
    """Cut one session's events, which are in order of time and id, into segments."""
    result: list[Segment] = []
    for event in events:
        segment = add_event(result[-1] if result else None, event, rules)
        if result and segment.first == result[-1].first:
            result[-1] = segment
        else:
            result.append(segment)
    return result


def is_same_run(earlier: Segment, later: Segment, rules: SegmentRules) -> bool:
    """Return whether two adjacent segments are not separated by a pause."""
    return later.first.at_ms - earlier.last.at_ms < rules.time_gap_ms


def select_overlap(before: Sequence[Event], rules: SegmentRules) -> list[Event]:
    """Return the last events of a segment that are context for the next, in order of time.

    They are within `overlap_ms` of the last event and have at most `overlap_tokens`.
    """
    overlap: list[Event] = []
    tokens = 0
    for event in reversed(before):
        tokens += count_tokens(event, rules)
        if before[-1].at_ms - event.at_ms > rules.overlap_ms or tokens > rules.overlap_tokens:
            break
        overlap.append(event)
    return overlap[::-1]


def _belongs(segment: Segment, at_ms: Millis, tokens: int, rules: SegmentRules) -> bool:
    if segment.ended or at_ms - segment.last.at_ms >= rules.time_gap_ms:
        return False
    return segment.tokens + tokens <= rules.max_tokens
