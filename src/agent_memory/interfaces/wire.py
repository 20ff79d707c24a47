"""Values to and from the wire, and the one table of what an error becomes on each."""

import base64
import binascii
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import msgspec

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document, DocumentKind
from agent_memory.features.index.model.queries import (
    Hit,
    Query,
    RecallResult,
    SearchMode,
    SearchScope,
)
from agent_memory.features.log.model.events import (
    Event,
    EventPage,
    EventRole,
    EventType,
    check_millis,
)
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.consolidations import ConsolidationPlan
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.services.capture import CaptureResult
from agent_memory.features.memories.services.editing import MemoryDetails
from agent_memory.features.memories.services.remote_sync import DomainSyncOutcome
from agent_memory.features.memories.services.sync import SyncResult
from agent_memory.features.recall.model.contexts import Context
from agent_memory.features.recall.services.reasoning import Conclusion
from agent_memory.features.toc.model.toc import Grip, TocNode
from agent_memory.features.toc.services.contents import Expansion, TocBranch
from agent_memory.kernel import errors
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.kernel.jobs import JobStatus
from agent_memory.kernel.status import DaemonStatus, Damage, StoreStats
from agent_memory.proto import memory_pb2 as pb

MAX_HIT_CHARS = 20_000  # of a hit's text
MAX_HIT_BYTES = 32_000  # likewise: a page of hits fits a message of 4 MiB
MAX_NAME_CHARS = 1_000  # of what metadata says about a hit
MAX_SUMMARY_TEXT = 2_000
MAX_SUMMARY_LINE = 200

E = TypeVar("E", bound=StrEnum)


class Codes(NamedTuple):
    """What one kind of error is called on each wire. `grpc` is the status's name."""

    exit: int
    grpc: str
    http: int
    rpc: int = -32000  # of JSON-RPC and of streams, as 004 has them


ERRORS: Mapping[type[AgentMemoryError], Codes] = {
    errors.InvalidInput: Codes(exit=11, grpc="INVALID_ARGUMENT", http=422, rpc=-32002),
    errors.NotFound: Codes(exit=10, grpc="NOT_FOUND", http=404, rpc=-32001),
    errors.Unauthorized: Codes(exit=1, grpc="UNAUTHENTICATED", http=401),
    errors.ContentBlocked: Codes(exit=12, grpc="FAILED_PRECONDITION", http=422, rpc=-32003),
    errors.FeatureUnavailable: Codes(exit=3, grpc="FAILED_PRECONDITION", http=409),
    errors.ConfigError: Codes(exit=3, grpc="FAILED_PRECONDITION", http=500),
    errors.Overloaded: Codes(exit=1, grpc="RESOURCE_EXHAUSTED", http=503),
    errors.LlmFailed: Codes(exit=6, grpc="UNAVAILABLE", http=502),
    errors.ToolFailed: Codes(exit=1, grpc="FAILED_PRECONDITION", http=409),
    errors.RemoteUnavailable: Codes(exit=5, grpc="UNAVAILABLE", http=502),
    errors.ListenFailed: Codes(exit=1, grpc="UNAVAILABLE", http=503),
    errors.Cancelled: Codes(exit=130, grpc="CANCELLED", http=499),
    errors.StorageClosed: Codes(exit=4, grpc="UNAVAILABLE", http=503),
    errors.StorageDamaged: Codes(exit=4, grpc="DATA_LOSS", http=500),
    errors.StorageUnwritable: Codes(exit=4, grpc="UNAVAILABLE", http=503),
    errors.StorageFailed: Codes(exit=4, grpc="INTERNAL", http=500),
    AgentMemoryError: Codes(exit=1, grpc="INTERNAL", http=500),
}


def codes(error: AgentMemoryError) -> Codes:
    """The codes of the nearest listed class of this error."""
    return next(ERRORS[kind] for kind in type(error).__mro__ if kind in ERRORS)


def error_json(error: AgentMemoryError) -> dict[str, Any]:
    """As streams tell of it."""
    found = codes(error)
    return {
        "code": found.rpc,
        "name": found.grpc.lower(),
        "message": str(error) or type(error).__doc__,
    }


_TYPES = {int(kind): kind for kind in EventType}
_ROLES = {0: EventRole.USER, **{int(role): role for role in EventRole}}


def parse_event(message: pb.Event) -> Event:
    kind = _TYPES.get(message.event_type)
    if kind is None:
        raise InvalidInput(
            f"event_type is {message.event_type}; it must be one of "
            + ", ".join(f"{known.value} ({known.name})" for known in EventType)
        )
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidInput(
            f"role is {message.role}; it must be one of "
            + ", ".join(f"{known.value} ({known.name})" for known in EventRole)
        )
    return Event(
        event_id=EventId(message.event_id),
        session_id=SessionId(message.session_id),
        at_ms=Millis(message.timestamp_ms),
        type=kind,
        role=role,
        text=message.text,
        metadata=dict(message.metadata),
    )


def event_to_proto(event: Event) -> pb.Event:
    return pb.Event(
        event_id=event.event_id,
        session_id=event.session_id,
        timestamp_ms=event.at_ms,
        event_type=int(event.type),  # type: ignore[arg-type]  # enums are plain numbers on the wire
        role=int(event.role),  # type: ignore[arg-type]
        text=event.text,
        metadata=event.metadata,
    )


def page_to_proto(page: EventPage) -> pb.GetEventsResponse:
    return pb.GetEventsResponse(
        events=[event_to_proto(event) for event in page.events],
        has_more=page.next is not None,
        continuation_token=None if page.next is None else format_token(page.next),
    )


def outcomes_to_proto(outcomes: Sequence[tuple[str, bool | str]]) -> pb.IngestEventsResponse:
    """Per event its id and whether it is new, or why it was refused."""
    return pb.IngestEventsResponse(
        outcomes=[
            pb.IngestOutcome(event_id=name, error=outcome)
            if isinstance(outcome, str)
            else pb.IngestOutcome(event_id=name, created=outcome)
            for name, outcome in outcomes
        ]
    )


def format_token(position: Position) -> str:
    return base64.urlsafe_b64encode(f"{position.at_ms}:{position.event_id}".encode()).decode()


def parse_token(token: str) -> Position:
    try:
        at_ms, _, event_id = base64.b64decode(token, b"-_", validate=True).decode().partition(":")
        if not event_id:
            raise ValueError("no event id")
        check_millis("time", int(at_ms))
        return Position(at_ms=Millis(int(at_ms)), event_id=EventId(event_id))
    except (ValueError, binascii.Error, InvalidInput) as exc:
        raise InvalidInput(
            "continuation_token is not one that this server gave: pass it on unchanged,"
            " or leave it out to start over"
        ) from exc


def node_to_proto(node: TocNode) -> pb.TocNode:
    return pb.TocNode(
        node_id=node.node_id,
        level=int(node.level),  # type: ignore[arg-type]
        title=node.title,
        summary=node.summary,
        bullets=[
            pb.TocBullet(text=bullet.text, grip_ids=bullet.grip_ids) for bullet in node.bullets
        ],
        keywords=node.keywords,
        child_node_ids=node.child_ids,
        start_time_ms=node.start_ms,
        end_time_ms=node.end_ms,
        version=node.version,
    )


def expansion_to_proto(found: Expansion) -> pb.ExpandGripResponse:
    return pb.ExpandGripResponse(
        grip=None if found.grip is None else grip_to_proto(found.grip),
        events_before=[event_to_proto(event) for event in found.before],
        excerpt_events=[event_to_proto(event) for event in found.excerpt],
        events_after=[event_to_proto(event) for event in found.after],
    )


def grip_to_proto(grip: Grip) -> pb.Grip:
    return pb.Grip(
        grip_id=grip.grip_id,
        excerpt=grip.excerpt,
        event_id_start=grip.event_id_start,
        event_id_end=grip.event_id_end,
        timestamp_ms=grip.at_ms,
        source=grip.source,
        toc_node_id=grip.node_id,
    )


def job_to_proto(job: JobStatus) -> pb.JobStatusProto:
    state = job.state
    return pb.JobStatusProto(
        job_name=job.name,
        cron_expr=job.cron,
        last_run_ms=state.last_run_ms,
        last_duration_ms=state.last_duration_ms,
        last_result=int(state.last_result),  # type: ignore[arg-type]
        last_error=state.last_error,
        next_run_ms=job.next_run_ms,
        run_count=state.run_count,
        error_count=state.error_count,
        is_running=job.running,
        is_paused=state.paused,
    )


def parse_offset(token: str) -> int:
    """The token of a page of children or hits: an offset."""
    if not token.isdecimal() or len(token) > 9:
        raise InvalidInput(
            "continuation_token is not one that this server gave: pass it on unchanged,"
            " or leave it out to start over"
        )
    return int(token)


def parse_query(request: pb.SearchRequest) -> Query:
    token = request.continuation_token
    since = request.from_timestamp_ms if request.HasField("from_timestamp_ms") else 0
    until = request.to_timestamp_ms if request.HasField("to_timestamp_ms") else MAX_MILLIS
    return Query(
        text=request.query,
        mode=parse_mode(request.mode or SearchMode.HYBRID),
        limit=request.limit,
        offset=parse_offset(token) if request.HasField("continuation_token") else 0,
        min_score=request.min_score,
        scope=SearchScope(
            kinds=frozenset(parse_kind(name) for name in request.kinds),
            project=request.project,
            session=request.session_id,
            agent=request.agent,
            role=parse_role(request.role) if request.role else "",
            namespace=request.namespace,
            domains=frozenset({request.domain} if request.domain else ()),
            spec=request.spec,
            statuses=frozenset(request.statuses),
            archived=request.include_archived,
            tags=frozenset(request.tags),
            since=Millis(since),
            until=Millis(until),
        ),
    )


def parse_kind(name: str) -> DocumentKind:
    return _parse_choice(DocumentKind, "kind", name)


def parse_role(name: str) -> str:
    known = [role.name.lower() for role in EventRole]
    if name not in known:
        raise InvalidInput(f"role is {name!r}; it must be one of {', '.join(known)}")
    return name


def parse_mode(name: str) -> SearchMode:
    return _parse_choice(SearchMode, "mode", name)


def _parse_choice(choices: type[E], what: str, name: str) -> E:
    try:
        return choices(name)
    except ValueError:
        known = ", ".join(choices)
        raise InvalidInput(f"{what} is {name!r}; it must be one of {known}") from None


def answer_to_proto(answer: RecallResult) -> pb.SearchResponse:
    return pb.SearchResponse(
        hits=[_hit_to_proto(hit) for hit in answer.hits],
        total=answer.total,
        warning=answer.warning,
        continuation_token=None if answer.next is None else str(answer.next),
    )


def _hit_to_proto(hit: Hit) -> pb.SearchHit:
    found = hit.document
    text = _cut(found.text, MAX_HIT_CHARS)
    return pb.SearchHit(
        kind=found.kind,
        id=format_document_id(found),
        uri=hit.uri,
        score=hit.score,
        title=found.title,
        text=text,
        truncated=len(text) < len(found.text),
        event_id=hit.event_id,
        last_event_id=hit.last_event_id,
        session_id=found.session,
        timestamp_ms=found.at_ms,
        grip_id=hit.grip_id,
        node_id=hit.node_id,
        score_parts=hit.parts,
        role=found.role,
        speaker=found.speaker[:MAX_NAME_CHARS],
        agent=found.agent[:MAX_NAME_CHARS],
        tool_name=found.tool[:MAX_NAME_CHARS],
        project=found.project[:MAX_NAME_CHARS],
        namespace=found.namespace,
        domain=found.domain,
        spec=found.spec,
        status=found.status,
        tags=sorted(found.tags),
        relates_to=found.relates_to,
    )


def format_document_id(found: Document) -> str:
    """By what a person knows it. A memory is found by its URN, and named within its domain."""
    if found.kind is not DocumentKind.MEMORY:
        return found.id
    name = memories.parse_urn(found.id)
    return f"{name.namespace}:{name.hex}:{name.index}"


# JSON of ours: the protobuf's names, enums as lower-case names, numbers as numbers.


def event_json(event: Event) -> dict[str, Any]:
    return {
        "event_id": event.event_id,
        "session_id": event.session_id,
        "timestamp_ms": event.at_ms,
        "event_type": event.type.name.lower(),
        "role": event.role.name.lower(),
        "text": event.text,
        "metadata": dict(event.metadata),
    }


def record_text(record: Event | Memory) -> str:
    """An event or a memory, as whoever follows changes is told of it."""
    shown = event_json(record) if isinstance(record, Event) else memory_json(record)
    return msgspec.json.encode(shown).decode()


def page_json(page: EventPage) -> dict[str, Any]:
    return {
        "events": [event_json(event) for event in page.events],
        "has_more": page.next is not None,
        "continuation_token": None if page.next is None else format_token(page.next),
    }


def stats_json(stats: StoreStats) -> dict[str, Any]:
    return asdict(stats)


def damage_text(damage: Damage) -> str:
    """Say what was damaged, and when the affected events happened, in UTC."""
    text = damage.what
    if damage.noticed_ms is not None:
        text += f", noticed {_utc(damage.noticed_ms)}"
    if damage.first_ms is not None and damage.last_ms is not None:
        count = "" if damage.events is None else f"{damage.events:,} "
        text += (
            f"; {count}events from {_utc(damage.first_ms)} to {_utc(damage.last_ms)} cannot be read"
        )
    elif damage.events == 0:
        text += "; no event is lost, as far as can be told"
    if damage.kept:
        text += f"; the damaged files are in {damage.kept} (remove it to dismiss this)"
    return text


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def status_json(status: DaemonStatus) -> dict[str, Any]:
    return {"running": True, **asdict(status)}


def node_json(node: TocNode) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "level": node.level.name.lower(),
        "title": node.title,
        "summary": node.summary,
        "bullets": [
            {"text": bullet.text, "grip_ids": list(bullet.grip_ids)} for bullet in node.bullets
        ],
        "keywords": list(node.keywords),
        "child_node_ids": list(node.child_ids),
        "start_time_ms": node.start_ms,
        "end_time_ms": node.end_ms,
        "version": node.version,
    }


def version_json(node: TocNode) -> dict[str, Any]:
    """A node as it was, and when it was written: the wire does not have that."""
    return {**node_json(node), "created_at_ms": node.created_ms}


def branch_json(branch: TocBranch) -> dict[str, Any]:
    return {**node_json(branch.node), "children": [branch_json(each) for each in branch.branches]}


def expansion_json(found: Expansion) -> dict[str, Any]:
    grip = found.grip
    return {
        "grip": None
        if grip is None
        else {
            "grip_id": grip.grip_id,
            "excerpt": grip.excerpt,
            "event_id_start": grip.event_id_start,
            "event_id_end": grip.event_id_end,
            "timestamp_ms": grip.at_ms,
            "source": grip.source,
            "toc_node_id": grip.node_id,
        },
        "events_before": [event_json(event) for event in found.before],
        "excerpt_events": [event_json(event) for event in found.excerpt],
        "events_after": [event_json(event) for event in found.after],
    }


def job_json(job: JobStatus) -> dict[str, Any]:
    state = job.state
    return {
        "job_name": job.name,
        "cron_expr": job.cron,
        "last_run_ms": state.last_run_ms,
        "last_duration_ms": state.last_duration_ms,
        "last_result": state.last_result.name.lower() if state.last_result else "unspecified",
        "last_error": state.last_error,
        "next_run_ms": job.next_run_ms,
        "run_count": state.run_count,
        "error_count": state.error_count,
        "is_running": job.running,
        "is_paused": state.paused,
    }


def answer_json(answer: RecallResult, detail: str, *, whole: bool = False) -> dict[str, Any]:
    """`detail` is minimal, summary or full; `whole`, for a caller without limits, makes full mean
    all of the text."""
    return {
        "results": [hit_json(hit, detail, whole=whole) for hit in answer.hits],
        "total": answer.total,
        "warning": answer.warning,
        "continuation_token": None if answer.next is None else str(answer.next),
    }


def hit_json(hit: Hit, detail: str, *, whole: bool = False) -> dict[str, Any]:
    found = hit.document
    shown: dict[str, Any] = {
        "kind": found.kind.value,
        "id": format_document_id(found),
        "uri": hit.uri or None,
        "score": round(hit.score, 4),
        "summary": format_summary(found),
        "timestamp": documents.format_iso(found.at_ms),
    }
    if detail == "minimal":
        return shown
    shown["timestamp_ms"] = found.at_ms
    if found.kind is DocumentKind.MEMORY:
        shown |= {
            "namespace": found.namespace,
            "domain": found.domain,
            "tags": sorted(found.tags),
            "spec": found.spec or None,
            "status": found.status,
            "relates_to": list(found.relates_to),
            "event_id": hit.event_id or None,
        }
    else:
        shown |= {
            "event_id": hit.event_id or None,
            "last_event_id": hit.last_event_id or None,
            "session_id": found.session or None,
            "grip_id": hit.grip_id or None,
            "node_id": hit.node_id or None,
            "project": found.project or None,
        }
    if found.kind is DocumentKind.FACT:
        shown |= {"key": found.title, "agent": found.agent or None, "user": found.speaker or None}
    if found.kind is DocumentKind.EVENT:
        shown |= {"role": found.role, "speaker": found.speaker or None}
    cut = MAX_HIT_CHARS if detail == "full" else MAX_SUMMARY_TEXT
    if detail == "full" or found.kind in (DocumentKind.EVENT, DocumentKind.FACT):
        text = found.text if whole and detail == "full" else _cut(found.text, cut)
        shown["content" if found.kind is DocumentKind.MEMORY else "text"] = text
        shown["truncated"] = hit.truncated or len(text) < len(found.text)
        if shown["truncated"]:
            shown["show_all"] = build_show_command(found)
    if detail == "full":
        shown["score_parts"] = {name: round(part, 4) for name, part in hit.parts.items()}
    return shown


def build_show_command(document: Document) -> str:
    """The command that shows all of a text that was cut."""
    match document.kind:
        case DocumentKind.MEMORY:
            return f"memory show {document.id}"
        case DocumentKind.EVENT:
            at = document.at_ms
            return f"memory-daemon query events --from {at} --to {at} --full"
        case DocumentKind.SEGMENT:
            return f"memory-daemon query node {document.id}"
        case DocumentKind.GRIP:
            return f"memory-daemon query expand {document.id}"
        case DocumentKind.FACT:
            return f"memory recall {shlex.quote(document.title)} --in facts --detail full"


def _cut(text: str, most: int) -> str:
    """The beginning, of at most so many characters and of what a hit may take in bytes."""
    return text[:most].encode()[:MAX_HIT_BYTES].decode(errors="ignore")


def format_summary(document: Document) -> str:
    """One line that stands for a document."""
    said = document.title or document.text[:1000]
    if document.kind is DocumentKind.FACT:
        said = f"{document.title}: {document.text[:1000]}"
    line = " ".join(said.split())
    return line if len(line) <= MAX_SUMMARY_LINE else line[: MAX_SUMMARY_LINE - 3] + "..."


def capture_json(captured: CaptureResult, *, indexed: bool) -> dict[str, Any]:
    return {
        "success": True,
        "memory_id": captured.memory.id,
        "uri": captured.memory.urn,
        "indexed": indexed,
        "created": captured.created,
        "warning": captured.warning,
    }


def memory_json(memory: Memory, *, content: bool = True) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": memory.id,
        "uri": memory.urn,
        "namespace": memory.namespace,
        "domain": memory.domain,
        "summary": memory.summary,
        "content": memory.content,
        "timestamp": documents.format_iso(memory.created_ms),
        "timestamp_ms": memory.created_ms,
        "updated_at": documents.format_iso(memory.updated_ms),
        "spec": memory.spec or None,
        "tags": sorted(memory.tags),
        "relates_to": list(memory.relates_to),
        "status": memory.status.value,
        "commit": memory.commit or None,
        "superseded_by": memory.superseded_by or None,
        "event_id": memory.event_id or None,
        "session_id": memory.session_id or None,
    }
    if not content:
        del shown["content"]
    return shown


def memory_details_json(shown: MemoryDetails, *, content: bool = True) -> dict[str, Any]:
    """With what only this machine knows of it."""
    use = shown.use
    return {
        **memory_json(shown.memory, content=content),
        "tier": shown.tier.value,
        "activation_count": use.count,
        "last_accessed": documents.format_iso(use.last_ms) if use.count else None,
    }


def sync_json(synced: SyncResult) -> dict[str, Any]:
    return {
        "domain": synced.place.domain,
        "imported": synced.imported,
        "written": synced.written,
        "moved": synced.moved,
        "fetched": synced.fetched,
        "pushed": synced.pushed,
        "problems": [asdict(each) for each in synced.problems],
    }


def sync_outcomes_json(outcomes: Sequence[DomainSyncOutcome]) -> dict[str, Any]:
    """What became of each domain that was to be synced."""
    failed = [(each.place, each.failure) for each in outcomes if each.failure is not None]
    return {
        "success": not failed,
        "domains": [sync_json(each.synced) for each in outcomes if each.synced is not None],
        "failed": [{"domain": place.domain, "reason": str(why)} for place, why in failed],
    }


def plan_json(plan: ConsolidationPlan, *, applied: bool) -> dict[str, Any]:
    return {
        "applied": applied,
        "considered": plan.considered,
        "merges": [
            {
                "kept": None if each.written else each.cluster.kept.id,
                "summary": each.written.summary if each.written else each.cluster.kept.summary,
                "superseded": [old.id for old in each.superseded],
            }
            for each in plan.merges
        ],
        "moves": [
            {"id": each.memory.id, "from": each.before.value, "to": each.after.value}
            for each in plan.moves
        ],
        "skipped": list(plan.skipped),
    }


def reasoning_json(concluded: Conclusion, detail: str) -> dict[str, Any]:
    return {
        "answer": concluded.answer,
        "dates": list(concluded.dates),
        "sources": [hit_json(hit, detail) for hit in concluded.sources],
        **answer_json(concluded.found, detail),
    }


def context_json(context: Context) -> dict[str, Any]:
    return {
        "context": context.text,
        "tokens": context.tokens,
        "resources": [hit_json(hit, "minimal") for hit in context.hits],
    }
