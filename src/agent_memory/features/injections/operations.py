"""Operations on injections: what hooks gave to agents, where it comes from, and what was
made from an event."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from agent_memory.features.index.model import documents
from agent_memory.features.injections.model.injections import (
    DayCount,
    GivenText,
    LedgerEntry,
    LedgerScope,
)
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.injections.services.provenance import (
    DerivedRecords,
    Explanation,
    Provenance,
    RecordOrigin,
)
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.tokens import format_offset, parse_offset
from agent_memory.features.log.operations import EventName, LoggedEvent
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.toc.operations import ContentsNode, GripExcerpt, describe_node
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.operations import operation
from agent_memory.kernel.structs import Limit, copy_fields

Word = Annotated[str, Meta(max_length=256)]
Time = Annotated[int, Meta(ge=0, le=MAX_MILLIS, description="Unix milliseconds.")]


class LedgerFilter(Struct, frozen=True, kw_only=True):
    session_id: Word = ""
    project: Word = ""
    item: Annotated[str, Meta(max_length=512, description="A URI that was given.")] = ""
    from_timestamp_ms: Time = 0
    to_timestamp_ms: Time = MAX_MILLIS
    limit: Limit = 50
    continuation_token: (
        Annotated[str, Meta(max_length=512, description="That of the page before.")] | None
    ) = None


class GivenTime(Struct, frozen=True, kw_only=True):
    """When an agent was given something."""

    timestamp_ms: int
    hook: str
    agent: str
    project: str
    session_id: str
    tokens: int

    @classmethod
    def from_entry(cls, entry: LedgerEntry) -> "GivenTime":
        return copy_fields(cls, entry, timestamp_ms=entry.at_ms)


class GivenRecord(Struct, frozen=True, kw_only=True):
    uri: str
    kind: str
    title: str

    @classmethod
    def from_text(cls, uri: str, text: GivenText) -> "GivenRecord":
        return copy_fields(cls, text, uri=uri)


class InjectionAnswer(GivenTime, frozen=True, kw_only=True):
    """What a hook gave to an agent, without what was forgotten since."""

    items: list[GivenRecord]

    @classmethod
    def from_records(
        cls, entry: LedgerEntry, records: Mapping[str, GivenText]
    ) -> "InjectionAnswer":
        items = [GivenRecord.from_text(uri, records[uri]) for uri in entry.items if uri in records]
        return copy_fields(cls, entry, timestamp_ms=entry.at_ms, items=items)


class LedgerAnswer(Struct, frozen=True, kw_only=True):
    injections: list[InjectionAnswer]
    continuation_token: str | None


@operation("injections.list", role=Role.ADMIN, http="GET /api/v1/injections/")
def list_injections(
    injections: Injections, opening: Opening, request: LedgerFilter
) -> LedgerAnswer:
    """List what hooks gave to agents, newest first."""
    token = request.continuation_token
    scope = LedgerScope(
        session=opening.resolve_session(request.session_id) if request.session_id else "",
        project=request.project,
        items=frozenset({request.item} if request.item else ()),
        since=Millis(request.from_timestamp_ms),
        until=Millis(request.to_timestamp_ms),
    )
    page = injections.list_entries(
        scope, limit=request.limit, before=None if token is None else parse_offset(token)
    )
    records = injections.read_items(page.entries)
    return LedgerAnswer(
        injections=[InjectionAnswer.from_records(entry, records) for entry in page.entries],
        continuation_token=format_offset(page.next),
    )


class InjectionDay(Struct, frozen=True, kw_only=True):
    date: str
    injections: int
    tokens: int
    sessions: int

    @classmethod
    def from_count(cls, count: DayCount) -> "InjectionDay":
        return copy_fields(cls, count, date=count.day.isoformat())


class RecordToExplain(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(max_length=512, description="A URI, an id, or the beginning of one.")]
    limit: Limit = 10


class NamedMemory(Struct, frozen=True, kw_only=True):
    id: str
    uri: str
    summary: str

    @classmethod
    def from_memory(cls, memory: Memory) -> "NamedMemory":
        return copy_fields(cls, memory, uri=memory.urn)


class MadeMemory(NamedMemory, frozen=True, kw_only=True):
    status: str

    @classmethod
    def from_memory(cls, memory: Memory) -> "MadeMemory":
        return copy_fields(cls, memory, uri=memory.urn, status=memory.status.value)


class ExplainedMemory(MadeMemory, frozen=True, kw_only=True):
    """`captured` is `automatically` or `on request`."""

    domain: str
    captured: str
    author: str | None
    agent: str | None
    interface: str | None
    commit: str | None
    supersedes: list[NamedMemory]
    superseded_by: NamedMemory | None

    @classmethod
    def from_origin(cls, memory: Memory, origin: RecordOrigin) -> "ExplainedMemory":
        successor = origin.superseded_by
        return copy_fields(
            cls,
            memory,
            uri=memory.urn,
            status=memory.status.value,
            captured="automatically" if origin.is_automatic else "on request",
            author=memory.author or None,
            agent=memory.agent or None,
            interface=memory.interface or None,
            commit=memory.commit or None,
            supersedes=[NamedMemory.from_memory(each) for each in origin.supersedes],
            superseded_by=None if successor is None else NamedMemory.from_memory(successor),
        )


class GivenTimes(Struct, frozen=True, kw_only=True):
    """How often agents were given the record, and the last times."""

    count: int
    last_ms: int | None
    injections: list[GivenTime]


class ExplanationAnswer(Struct, frozen=True, kw_only=True):
    """`events` are the words that a record was made from; empty if they are unknown or forgotten.
    `memory` is null for other records."""

    kind: str
    uri: str
    title: str
    timestamp_ms: int
    project: str
    session_id: str
    events: list[LoggedEvent]
    memory: ExplainedMemory | None
    given: GivenTimes

    @classmethod
    def from_explanation(cls, explained: Explanation) -> "ExplanationAnswer":
        origin, given = explained.origin, explained.given
        memory = origin.memory
        return copy_fields(
            cls,
            origin,
            timestamp_ms=origin.at_ms,
            events=[LoggedEvent.from_event(event) for event in origin.words],
            memory=None if memory is None else ExplainedMemory.from_origin(memory, origin),
            given=GivenTimes(
                count=explained.count,
                last_ms=given[0].at_ms if given else None,
                injections=[GivenTime.from_entry(entry) for entry in given],
            ),
        )


@operation("injections.explain", role=Role.ADMIN, http="GET /api/v1/why/")
def explain(provenance: Provenance, caller: Caller, request: RecordToExplain) -> ExplanationAnswer:
    """Explain where a record comes from, and which sessions were given it."""
    here = provenance.opening.editor.resolver.find_here(caller)
    explained = provenance.explain(request.name, here, limit=request.limit)
    return ExplanationAnswer.from_explanation(explained)


class DerivedFact(Struct, frozen=True, kw_only=True):
    id: str
    uri: str
    key: str
    value: str

    @classmethod
    def from_fact(cls, fact: Fact) -> "DerivedFact":
        return copy_fields(cls, fact, uri=documents.format_uri(documents.FACTS, fact.id))


class DerivedAnswer(Struct, frozen=True, kw_only=True):
    """What was made from an event. `segment` is a node of the table of contents."""

    event: LoggedEvent
    segment: ContentsNode | None
    grips: list[GripExcerpt]
    memories: list[MadeMemory]
    facts: list[DerivedFact]

    @classmethod
    def from_records(cls, derived: DerivedRecords) -> "DerivedAnswer":
        segment = derived.segment
        return cls(
            event=LoggedEvent.from_event(derived.event),
            segment=None if segment is None else describe_node(segment),
            grips=[GripExcerpt.from_grip(grip) for grip in derived.grips],
            memories=[MadeMemory.from_memory(each) for each in derived.memories],
            facts=[DerivedFact.from_fact(each) for each in derived.facts],
        )


@operation(
    "events.derived",
    role=Role.ADMIN,
    http="GET /api/v1/events/{event_id:path}/derived/",
)
def list_derived(provenance: Provenance, request: EventName) -> DerivedAnswer:
    """List what was made from an event: its segment, grips, memories and facts."""
    return DerivedAnswer.from_records(provenance.list_derived(request.event_id))
