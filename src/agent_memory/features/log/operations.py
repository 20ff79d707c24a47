"""Operations on the event log."""

import uuid
from concurrent.futures import Future
from enum import IntEnum
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from agent_memory.features.log.model.events import Event, EventPage, EventRole, EventType
from agent_memory.features.log.model.tokens import format_token, parse_token
from agent_memory.features.log.services.ingest import Ingest, Refusal, count_scanned
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.kernel import spelling
from agent_memory.kernel.access import Role
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.futures import map_future
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, SessionId
from agent_memory.kernel.operations import operation
from agent_memory.kernel.ulids import derive_ulid
from agent_memory.platform.ports import Clock

N = TypeVar("N", bound=IntEnum)

MAX_EVENTS = 1_000  # of one request, as of one message over gRPC

# The service checks these, and says what to change.
Time = Annotated[
    int,
    Meta(
        description="Unix milliseconds.",
        extra_json_schema={"minimum": 0, "maximum": MAX_MILLIS},
    ),
]
EventLimit = Annotated[
    int,
    Meta(description="0 is the default, 50. At most 1,000 come.", extra_json_schema={"minimum": 0}),
]
Token = Annotated[str, Meta(description="That of the page before.")] | None


class LoggedEvent(Struct, frozen=True, kw_only=True):
    """An event of a conversation. `timestamp_ms` is when it happened."""

    event_id: str
    session_id: str
    timestamp_ms: int
    event_type: str
    role: str
    text: str
    metadata: dict[str, str]

    @classmethod
    def from_event(cls, event: Event) -> "LoggedEvent":
        return cls(
            event_id=event.event_id,
            session_id=event.session_id,
            timestamp_ms=event.at_ms,
            event_type=event.type.name.lower(),
            role=event.role.name.lower(),
            text=event.text,
            metadata=dict(event.metadata),
        )


class EventListing(Struct, frozen=True, kw_only=True):
    """Events by time, then by id."""

    events: list[LoggedEvent]
    has_more: bool
    continuation_token: str | None = None

    @classmethod
    def from_page(cls, page: EventPage) -> "EventListing":
        return cls(
            events=[LoggedEvent.from_event(event) for event in page.events],
            has_more=page.next is not None,
            continuation_token=None if page.next is None else format_token(page.next),
        )


class EventRange(Struct, frozen=True, kw_only=True):
    from_timestamp_ms: Time = 0
    to_timestamp_ms: Time = MAX_MILLIS
    limit: EventLimit = 0
    continuation_token: Token = None


class EventCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event. Send the same `event_id` again after a lost answer: it is stored once."""

    session_id: str
    text: str = ""
    event_type: str = "user_message"
    role: str = "user"
    event_id: Annotated[str, Meta(description="Default: a new one.")] = ""
    timestamp_ms: Annotated[int | None, Meta(description="Unix milliseconds. Default: now.")] = None
    metadata: dict[str, str] = {}

    def to_event(self, now: Millis) -> Event:
        """Build the event. Raises InvalidInput."""
        return Event(
            event_id=EventId(self.event_id or derive_ulid(now, uuid.uuid4().hex)),
            session_id=SessionId(self.session_id),
            at_ms=now if self.timestamp_ms is None else Millis(self.timestamp_ms),
            type=_parse_name("event_type", self.event_type, EventType),
            role=_parse_name("role", self.role, EventRole),
            text=self.text,
            metadata=self.metadata,
        )

    def count_scanned(self) -> int:
        return count_scanned(self.text, self.metadata)


class EventBatch(Struct, frozen=True, kw_only=True):
    events: Annotated[list[EventCreate], Meta(max_length=MAX_EVENTS)]


class EventOutcome(Struct, frozen=True, kw_only=True):
    """`created` is false for an event that was stored before; `error` says why one was refused."""

    event_id: str
    created: bool
    error: str | None = None


class BatchOutcome(Struct, frozen=True, kw_only=True):
    outcomes: list[EventOutcome]


class EventName(Struct, frozen=True, kw_only=True):
    event_id: str


@operation(
    "events.list",
    role=Role.READER,
    scoped=True,
    http="GET /api/v1/events/",
    rpc="memory.MemoryService.GetEvents",
)
def list_events(timeline: Timeline, request: EventRange) -> EventListing:
    """List the events of a time, the oldest first."""
    token = request.continuation_token
    page = timeline.list_events(
        request.from_timestamp_ms,
        request.to_timestamp_ms,
        limit=request.limit,
        after=None if token is None else parse_token(token),
    )
    return EventListing.from_page(page)


@operation("events.read", role=Role.READER, scoped=True, http="GET /api/v1/events/{event_id:path}")
def read_event(timeline: Timeline, request: EventName) -> LoggedEvent:
    """Read one event."""
    return LoggedEvent.from_event(timeline.get_event(request.event_id))


@operation(
    "events.record",
    role=Role.WRITER,
    scoped=True,
    http="POST /api/v1/events/",
    status=lambda outcome: 201 if outcome.created else 200,
    statuses=(201, 200),
    example={
        "session_id": "support-2026-02-11",
        "text": "Which plan does the customer have?",
        "event_type": "user_message",
        "role": "user",
        "metadata": {"project": "support"},
    },
    scanned=EventCreate.count_scanned,
)
def record_event(ingest: Ingest, clock: Clock, request: EventCreate) -> Future[EventOutcome]:
    """Record an event."""
    clean = ingest.clean(request.to_event(clock.now()))
    return map_future(
        ingest.submit([clean]),
        lambda stored: EventOutcome(event_id=clean.event_id, created=stored[0]),
    )


@operation(
    "events.record_batch",
    role=Role.WRITER,
    scoped=True,
    http="POST /api/v1/events/batch/",
    scanned=lambda request: sum(each.count_scanned() for each in request.events),
)
def record_events(ingest: Ingest, clock: Clock, request: EventBatch) -> Future[BatchOutcome]:
    """Record events."""
    recorded = ingest.record_each(request.events, lambda each: each.to_event(clock.now()))

    def list_outcomes(stored: list[bool]) -> BatchOutcome:
        results = recorded.list_results(stored)
        return BatchOutcome(
            outcomes=[
                EventOutcome(event_id=event.event_id, created=False, error=str(outcome))
                if isinstance(outcome, Refusal)
                else EventOutcome(event_id=outcome.event_id, created=result is True)
                for event, outcome, result in zip(
                    request.events, recorded.outcomes, results, strict=True
                )
            ]
        )

    return map_future(recorded.stored, list_outcomes)


def _parse_name(field: str, name: str, kind: type[N]) -> N:
    """Return the event type or role of a name. Raises InvalidInput."""
    try:
        return kind[name.upper()]
    except KeyError:
        names = [item.name.lower() for item in kind]
        raise InvalidInput(
            f"{field} is {name[:100]!r}; it must be one of {', '.join(names)}"
            f"{spelling.suggest_nearest(name, names)}"
        ) from None
