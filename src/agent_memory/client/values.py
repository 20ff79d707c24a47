"""What is sent and what comes back: plain frozen values, none of the wire's own types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import TypedDict

from agent_memory.client.ids import new_ulid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class EventType(IntEnum):
    """What happened. The numbers are those of the wire."""

    SESSION_START = 1
    USER_MESSAGE = 2
    ASSISTANT_MESSAGE = 3
    TOOL_RESULT = 4
    ASSISTANT_STOP = 5
    SUBAGENT_START = 6
    SUBAGENT_STOP = 7
    SESSION_END = 8


class EventRole(IntEnum):
    """Who spoke. The numbers are those of the wire."""

    USER = 1
    ASSISTANT = 2
    SYSTEM = 3
    TOOL = 4


class TocLevel(IntEnum):
    """How long the time is that a node covers. The numbers are those of the wire."""

    YEAR = 1
    MONTH = 2
    WEEK = 3
    DAY = 4
    SEGMENT = 5


class BulletKind(StrEnum):
    """What a bullet says. `FINISHED` is a finished task, `STATE` a measurement."""

    NOTE = "note"
    ASKED = "asked"
    PLANNED = "planned"
    FINISHED = "finished"
    DONE = "done"
    DECIDED = "decided"
    FOUND = "found"
    BROKEN = "broken"
    OPEN = "open"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Event:
    """One event of a conversation; `event_id` is a new ULID unless given.

    `timestamp` is an aware datetime or Unix milliseconds. It is kept in UTC to the millisecond, as
    the daemon keeps it, so that an event read back equals the one sent.
    """

    event_id: str
    session_id: str
    timestamp: datetime
    event_type: EventType
    role: EventRole
    text: str
    metadata: Mapping[str, str] = field(hash=False)

    def __init__(
        self,
        *,
        session_id: str,
        timestamp: datetime | int,
        event_type: EventType,
        role: EventRole,
        text: str = "",
        metadata: Mapping[str, str] | None = None,
        event_id: str | None = None,
    ) -> None:
        put = object.__setattr__  # the class is frozen
        put(self, "event_id", new_ulid() if event_id is None else event_id)
        put(self, "session_id", session_id)
        put(self, "timestamp", moment(timestamp))
        put(self, "event_type", EventType(event_type))
        put(self, "role", EventRole(role))
        put(self, "text", text)
        put(self, "metadata", dict(metadata or {}))

    @property
    def timestamp_ms(self) -> int:
        """`timestamp` as Unix milliseconds."""
        return millis(self.timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEventsResult:
    """A page of events by time; pass `continuation_token` on for the next."""

    events: tuple[Event, ...] = ()
    has_more: bool = False
    continuation_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TocBullet:
    """A point of a summary, and the grips that prove it."""

    text: str
    grip_ids: tuple[str, ...] = ()
    kind: BulletKind = BulletKind.NOTE


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFigures:
    """How much was done in the time of a node; `files` are those that were changed."""

    sessions: int = 0
    prompts: int = 0
    commits: int = 0
    seconds: int = 0
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TocNode:
    """A year, month, week, day or segment of the table of contents.

    `session_id` and `project` are those of a segment.
    """

    node_id: str
    level: TocLevel
    title: str
    summary: str | None = None
    bullets: tuple[TocBullet, ...] = ()
    keywords: tuple[str, ...] = ()
    child_node_ids: tuple[str, ...] = ()
    start_time_ms: int = 0
    end_time_ms: int = 0
    version: int = 0
    session_id: str = ""
    project: str = ""
    work: WorkFigures = WorkFigures()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseTocResult:
    """A page of child nodes; pass `continuation_token` on for the next."""

    children: tuple[TocNode, ...] = ()
    has_more: bool = False
    continuation_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grip:
    """An excerpt that anchors a summary in the events it was made from."""

    grip_id: str
    excerpt: str
    event_id_start: str
    event_id_end: str
    timestamp_ms: int
    source: str
    toc_node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandGripResult:
    """A grip with its events and those around them; `grip` is None when there is no such grip."""

    grip: Grip | None = None
    events_before: tuple[Event, ...] = ()
    excerpt_events: tuple[Event, ...] = ()
    events_after: tuple[Event, ...] = ()


class JobResult(IntEnum):
    """How a background job's last run ended."""

    UNSPECIFIED = 0
    SUCCESS = 1
    FAILED = 2
    SKIPPED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A background job of the daemon. Times are Unix milliseconds, 0 for never."""

    job_name: str
    cron_expr: str
    last_run_ms: int
    last_duration_ms: int
    last_result: JobResult
    last_error: str | None
    next_run_ms: int
    run_count: int
    error_count: int
    is_running: bool
    is_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStatus:
    """Whether jobs run by themselves, and every job."""

    scheduler_running: bool
    jobs: tuple[Job, ...]


def moment(at: datetime | int) -> datetime:
    """In UTC, to the millisecond. A datetime must know its time zone."""
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise ValueError("the timestamp has no time zone: give one, such as datetime.now(UTC)")
        at = millis(at)
    if type(at) is not int:
        raise ValueError(
            f"timestamp {at!r} must be an aware datetime or whole Unix milliseconds, not seconds"
        )
    try:
        return _EPOCH + at * _MILLISECOND
    except OverflowError as exc:
        raise ValueError(f"timestamp {at} is not in Unix milliseconds: it is out of range") from exc


def millis(at: datetime) -> int:
    """Unix milliseconds of an aware datetime."""
    return (at - _EPOCH) // _MILLISECOND


class SearchFilters(TypedDict, total=False):
    """The filters of `search`. One that is left out matches everything."""

    kinds: Sequence[str]  # event, segment, grip, memory, fact; default all but grip
    mode: str  # hybrid (default), vector, bm25
    limit: int  # default 10, at most 100
    project: str
    session_id: str
    agent: str
    role: str
    namespace: str
    domain: str  # several with commas
    tags: Sequence[str]  # a hit has all of them
    spec: str
    statuses: Sequence[str]
    include_archived: bool
    from_timestamp_ms: int
    to_timestamp_ms: int
    min_score: float
    continuation_token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The part of a hit's text that answers, from character `start` to `end` of it. `marks` are
    the ranges of the words that match, counted from the beginning of the passage."""

    text: str
    start: int
    end: int
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """Something found. `score_parts` say why, the ids where it stands."""

    kind: str
    id: str
    uri: str
    score: float
    title: str
    text: str
    truncated: bool
    event_id: str
    last_event_id: str
    session_id: str
    timestamp_ms: int
    grip_id: str
    node_id: str
    role: str
    speaker: str
    agent: str
    tool_name: str
    relates_to: tuple[str, ...]
    project: str
    namespace: str
    domain: str
    spec: str
    status: str
    tags: tuple[str, ...]
    score_parts: Mapping[str, float]
    passage: Passage | None = None  # None where the title of a memory has all of it
    origin: str = "local"  # or "team": of the team's server
    person: str = ""  # of the team, whose it is


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A page of hits, best first; pass `continuation_token` on for the next.

    If the answer is not `certain`, none of its hits is likely to be right: they are the closest.
    """

    hits: tuple[SearchHit, ...] = ()
    total: int = 0
    certain: bool = False
    warning: str | None = None
    continuation_token: str | None = None
