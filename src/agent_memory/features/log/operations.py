"""What can be asked of the event log."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_memory.features.log.model.events import Event, EventPage
from agent_memory.features.log.model.tokens import format_token, parse_token
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.kernel.access import Role
from agent_memory.kernel.ids import MAX_MILLIS
from agent_memory.kernel.operations import operation

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
