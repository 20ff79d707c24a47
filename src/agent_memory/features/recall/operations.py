"""Operations on what is recorded: the sessions; and the capture of memories, which tells
whether recall finds them yet."""

from typing import Annotated, Any, Literal, Self

from msgspec import Meta, Struct

from agent_memory import __version__
from agent_memory.features.index.model import documents
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.operations import format_time
from agent_memory.features.knowledge.services.knowledge import Knowledge
from agent_memory.features.log.model.tokens import format_token, parse_token
from agent_memory.features.log.operations import EventLimit, EventListing, Time
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.changes import ChangeAction
from agent_memory.features.memories.model.memories import MAX_NAME_CHARS, Draft
from agent_memory.features.memories.operations import Names, name_change, name_interface
from agent_memory.features.memories.services.project_resolver import SOME_DOMAIN
from agent_memory.features.memories.services.undo import ChangeHistory
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.memory_stats import MemoryCounts, MemoryStatistics
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.toc.operations import ContentsNode, GripExcerpt, describe_node
from agent_memory.features.toc.services.contents import Contents
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ALL, MAX_MILLIS, EventId, Millis
from agent_memory.kernel.operations import operation
from agent_memory.kernel.status import ContentsStatus
from agent_memory.kernel.structs import Items, Limit, Offset, copy_fields


class SessionFilter(Struct, frozen=True, kw_only=True):
    session_id: Annotated[str, Meta(max_length=256, description="Only this one.")] = ""
    limit: Limit = 50
    offset: Offset = 0


class SessionAnswer(Struct, frozen=True, kw_only=True):
    """A session. `running` is one that has not ended, and was active within a day."""

    session_id: str
    episode_id: str | None
    agent: str | None
    user: str | None
    project: str | None
    summary: str
    events: int
    started_at: str
    last_event_at: str
    ended: bool
    running: bool

    @classmethod
    def from_session(cls, session: Session, now: Millis) -> "SessionAnswer":
        return copy_fields(
            cls,
            session,
            agent=session.agent or None,
            user=session.user or None,
            project=session.project or None,
            started_at=format_time(session.started_ms),
            last_event_at=format_time(session.last_ms),
            running=session.is_running(now),
        )


@operation("sessions.list", role=Role.READER, http="GET /api/v1/sessions/", tag="events")
def list_sessions(
    knowledge: Knowledge, opening: Opening, request: SessionFilter
) -> Items[SessionAnswer]:
    """List sessions, the newest first."""
    now = knowledge.clock.now()
    if request.session_id:
        found = knowledge.find_session(opening.resolve_session(request.session_id))
        sessions = [] if found is None else [found]
        page = sessions, len(sessions)
    else:
        page = knowledge.sessions(limit=request.limit, offset=request.offset)
    return Items.from_page(page, lambda session: SessionAnswer.from_session(session, now))


class SessionEventsRequest(Struct, frozen=True, kw_only=True):
    session_id: str
    order: Annotated[Literal["asc", "desc"], Meta(description="`desc`: the latest first.")] = "asc"
    from_event_id: (
        Annotated[str, Meta(max_length=128, description="Begin at this event.")] | None
    ) = None
    from_timestamp_ms: (
        Annotated[int, Meta(ge=0, le=MAX_MILLIS, description="Begin at this time.")] | None
    ) = None
    limit: EventLimit = 0
    continuation_token: (
        Annotated[
            str, Meta(description="That of the page before, or, to turn, its `reverse_token`.")
        ]
        | None
    ) = None


class SessionEvents(EventListing, frozen=True, kw_only=True):
    """A page that can also be read the other way, from its first event."""

    reverse_token: str | None


@operation(
    "sessions.events",
    role=Role.READER,
    scoped=True,
    http="GET /api/v1/sessions/{session_id:path}/events/",
    tag="events",
)
def list_session_events(
    timeline: Timeline, opening: Opening, request: SessionEventsRequest
) -> SessionEvents:
    """List the events of a session, from any event or time, in both directions."""
    start = request.from_event_id, request.from_timestamp_ms, request.continuation_token
    if sum(each is not None for each in start) > 1:
        raise InvalidInput("give one of from_event_id, from_timestamp_ms and continuation_token")
    event_id, at_ms, token = start
    name, reverse = opening.resolve_session(request.session_id), request.order == "desc"
    after = None if token is None else parse_token(token)
    if event_id is not None:
        after = timeline.find_start(name, EventId(event_id), reverse=reverse)
    elif at_ms is not None:
        after = timeline.find_start(name, Millis(at_ms), reverse=reverse)
    page = timeline.list_session(name, limit=request.limit, after=after, reverse=reverse)
    listing = EventListing.from_page(page)
    return copy_fields(
        SessionEvents,
        listing,
        reverse_token=format_token(page.events[0].position) if page.events else None,
    )


class SessionSegmentsRequest(Struct, frozen=True, kw_only=True):
    session_id: str
    from_timestamp_ms: Time = 0
    to_timestamp_ms: Time = MAX_MILLIS
    limit: Limit = 50


class SessionSegments(Struct, frozen=True, kw_only=True):
    segments: list[ContentsNode]
    has_more: bool


@operation(
    "sessions.segments",
    role=Role.READER,
    scoped=True,
    http="GET /api/v1/sessions/{session_id:path}/segments/",
    tag="events",
)
def list_session_segments(
    contents: Contents, opening: Opening, request: SessionSegmentsRequest
) -> SessionSegments:
    """List the segments of a session, with their bullets and grips."""
    found = contents.list_segments(
        opening.resolve_session(request.session_id),
        request.from_timestamp_ms,
        request.to_timestamp_ms,
        limit=request.limit + 1,
    )
    return SessionSegments(
        segments=[
            describe_node(each.node, grips=list(map(GripExcerpt.from_grip, each.grips)))
            for each in found[: request.limit]
        ],
        has_more=len(found) > request.limit,
    )


class MemoryCreate(Struct, frozen=True, kw_only=True):
    """A memory to capture. The same text twice is one memory."""

    namespace: str
    summary: str
    domain: Annotated[str, Meta(description="`user`, or `project:` and a known name.")] = "user"
    content: str = ""
    spec: str = ""
    tags: Names = ()
    relates_to: Names = ()
    event_id: Annotated[str, Meta(description="The event that it comes from.")] = ""

    def build_draft(self, caller: Caller) -> Draft:
        return Draft(
            namespace=self.namespace,
            summary=self.summary,
            content=self.content,
            spec=self.spec,
            tags=frozenset(self.tags),
            relates_to=tuple(dict.fromkeys(self.relates_to)),
            event_id=self.event_id,
            session_id="" if self.event_id else caller.session,
            agent=memories.to_origin_name(caller.agent),
            interface=name_interface(caller),
        )


class CaptureAnswer(Struct, frozen=True, kw_only=True):
    """A captured memory. It was there before if it is not `created`; recall finds it by its words
    once it is `indexed`. `change` names what undo takes back; null if nothing was recorded."""

    success: bool = True
    memory_id: str
    uri: str
    namespace: str
    domain: str
    indexed: bool
    created: bool
    warning: str | None
    change: str | None


@operation(
    "memories.capture",
    role=Role.WRITER,
    scoped=True,
    http="POST /api/v1/memories/",
    tool="memory_capture",
    status=lambda captured: 201 if captured.created else 200,
    statuses=(201, 200),
    example={
        "namespace": "decisions",
        "summary": "Use PostgreSQL for the data layer",
        "domain": "user",
        "tags": ["db"],
    },
)
def capture_memory(
    history: ChangeHistory, indexes: Indexes, caller: Caller, request: MemoryCreate
) -> CaptureAnswer:
    """Capture a memory."""
    location = history.editor.resolver.resolve(request.domain, caller)
    draft = request.build_draft(caller)
    with history.recording(ChangeAction.CAPTURE, by_user=caller.is_person) as changing:
        captured = changing.capture.capture(draft, location, by_user=caller.may_accept)
    memory = captured.memory
    return CaptureAnswer(
        memory_id=memory.id,
        uri=memory.urn,
        namespace=memory.namespace,
        domain=memory.domain,
        indexed=indexes.is_current(),
        created=captured.created,
        warning=captured.warning,
        change=name_change(changing.entry),
    )


class DomainFilter(Struct, frozen=True, kw_only=True):
    domain: Annotated[str, Meta(max_length=MAX_NAME_CHARS, description=SOME_DOMAIN)] = ALL


class CountedMemories(Struct, frozen=True, kw_only=True):
    """How many memories there are, and what waits."""

    total: int
    by_domain: dict[str, int]
    by_namespace: dict[str, int]
    by_tier: dict[str, int]
    by_status: dict[str, int]
    index_bytes: int
    last_sync: str | None
    notes_waiting: int
    to_review: Annotated[int, Meta(description="Only the user can accept these.")]
    feature_tier: str
    contents: ContentsStatus | None

    @classmethod
    def from_counts(cls, counted: MemoryCounts, **values: Any) -> Self:
        last = counted.last_sync_ms
        return copy_fields(
            cls,
            counted,
            last_sync=None if last is None else documents.format_iso(last),
            notes_waiting=counted.waiting,
            feature_tier=counted.features,
            **values,
        )


class StatusAnswer(CountedMemories, frozen=True, kw_only=True):
    project: str | None
    version: str


@operation("memories.count", role=Role.READER, tool="memory_status")
def count_memories(
    statistics: MemoryStatistics, caller: Caller, request: DomainFilter
) -> StatusAnswer:
    """Count the memories by domain, namespace, tier and status."""
    resolver = statistics.resolver
    nearby = resolver.list_nearby(caller)
    return StatusAnswer.from_counts(
        statistics.count(resolver.resolve_domains(request.domain, caller)),
        project=nearby[0] if nearby else None,
        version=__version__,
    )
