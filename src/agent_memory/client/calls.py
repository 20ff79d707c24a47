"""Every call as a value: where it goes, the bytes to send, how to read the answer.

Nothing here talks to a network. The two clients execute these, each in its own way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from agent_memory.client.endpoints import Endpoint
from agent_memory.client.errors import ConnectionFailed, RpcError, SerializationError
from agent_memory.client.late_grpc import grpc
from agent_memory.client.values import (
    BrowseTocResult,
    BulletKind,
    Event,
    EventRole,
    EventType,
    ExpandGripResult,
    GetEventsResult,
    Grip,
    Job,
    JobResult,
    Passage,
    SchedulerStatus,
    SearchFilters,
    SearchHit,
    SearchResult,
    TocBullet,
    TocLevel,
    TocNode,
    WorkFigures,
)
from agent_memory.proto import memory_pb2 as pb

CALL_SECONDS = 30.0
CONNECT_SECONDS = 5.0
_PAGE = 1_000  # the most that the daemon gives at once
_KINDS = {kind.value: kind for kind in BulletKind}

_SERVICE = pb.DESCRIPTOR.services_by_name["MemoryService"]
_UNREACHED = ("UNAVAILABLE", "DEADLINE_EXCEEDED")

Value = TypeVar("Value")
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Generic[Value]):
    """One message there, one back."""

    path: str
    request: bytes
    parse: Callable[[bytes], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Generic[Value]):
    """Some messages there, some back."""

    path: str
    requests: tuple[bytes, ...]
    parse: Callable[[Sequence[bytes]], Value]


# Asked on connecting. Whatever comes back, even an error: somebody answers, and speaks gRPC.
# The messages of gRPC's health service are not needed: empty bytes are a valid request.
PROBE: Unary[bytes] = Unary(path="/grpc.health.v1.Health/Check", request=b"", parse=bytes)


def ingest(event: Event) -> Unary[tuple[str, bool]]:
    return _unary(
        "IngestEvent", lambda answer: (answer.event_id, answer.created), event=event_out(event)
    )


def get_events(
    from_ms: int, to_ms: int, limit: int, continuation_token: str | None
) -> Unary[GetEventsResult]:
    return _unary(
        "GetEvents",
        _events_in,
        from_timestamp_ms=from_ms,
        to_timestamp_ms=to_ms,
        limit=limit,
        continuation_token=continuation_token,
    )


def first_page(from_ms: int, to_ms: int) -> Unary[GetEventsResult]:
    return get_events(from_ms, to_ms, _PAGE, None)


def next_page(from_ms: int, to_ms: int, page: GetEventsResult) -> Unary[GetEventsResult] | None:
    """Build the call for the next page; None after the last."""
    if not page.has_more:
        return None
    if page.continuation_token is None:
        raise SerializationError("the answer says that there is more, but not where")
    return get_events(from_ms, to_ms, _PAGE, page.continuation_token)


def get_toc_root() -> Unary[list[TocNode]]:
    return _unary("GetTocRoot", lambda answer: [_node_in(node) for node in answer.nodes])


def get_node(node_id: str) -> Unary[TocNode | None]:
    return _unary(
        "GetNode",
        lambda answer: _node_in(answer.node) if answer.HasField("node") else None,
        node_id=node_id,
    )


def browse_toc(
    parent_id: str, limit: int, continuation_token: str | None
) -> Unary[BrowseTocResult]:
    return _unary(
        "BrowseToc",
        _children_in,
        parent_id=parent_id,
        limit=limit,
        continuation_token=continuation_token,
    )


def expand_grip(
    grip_id: str, events_before: int | None, events_after: int | None
) -> Unary[ExpandGripResult]:
    return _unary(
        "ExpandGrip",
        _expansion_in,
        grip_id=grip_id,
        events_before=events_before,
        events_after=events_after,
    )


def search(query: str, filters: SearchFilters) -> Unary[SearchResult]:
    return _unary("Search", _hits_in, query=query, **filters)


def get_scheduler_status() -> Unary[SchedulerStatus]:
    return _unary("GetSchedulerStatus", _status_in)


def pause_job(job_name: str) -> Unary[None]:
    return _unary("PauseJob", _check_success, job_name=job_name)


def resume_job(job_name: str) -> Unary[None]:
    return _unary("ResumeJob", _check_success, job_name=job_name)


def run_job(job_name: str) -> Unary[Job]:
    return _unary("RunJob", _run_in, job_name=job_name)


def unary(
    service: ServiceDescriptor,
    method: str,
    convert: Callable[[Any], Value],
    /,
    **request: object,
) -> Unary[Value]:
    """Build the call of a method. `request` are the fields of its message."""
    described = service.methods_by_name[method]
    answers = GetMessageClass(described.output_type)
    return Unary(
        path=path(method, service),
        request=encode(lambda: GetMessageClass(described.input_type)(**request)),
        parse=lambda raw: decode(answers, raw, convert),
    )


def path(method: str, service: ServiceDescriptor = _SERVICE) -> str:
    return f"/{service.full_name}/{method}"


def open_channel(endpoint: Endpoint) -> "grpc.Channel":
    """Open a channel. Nothing is sent before the first call."""
    if endpoint.tls:
        credentials = grpc.ssl_channel_credentials()
        return grpc.secure_channel(endpoint.target, credentials, endpoint.options)
    return grpc.insecure_channel(endpoint.target, endpoint.options)


def metadata(key: str | None) -> tuple[tuple[str, str], ...]:
    """Build the metadata that every call carries."""
    if key is None:
        return ()
    if not (key and key.isascii() and key.isprintable() and " " not in key):
        raise ValueError("a key must be printable ASCII without blanks")
    return (("authorization", f"Bearer {key}"),)


def to_rpc_error(error: "grpc.RpcError") -> RpcError:
    """Convert gRPC's error to ours."""
    return RpcError(error.code().name, error.details() or "")


def is_unanswered(error: RpcError) -> bool:
    """Return whether the error of a probe means that no daemon answered."""
    return error.code in _UNREACHED


def no_daemon_error(failures: Mapping[str, RpcError]) -> ConnectionFailed:
    """After every endpoint was tried: what each of them said."""
    tried = "; ".join(f"{name}: {error.details}" for name, error in failures.items())
    return ConnectionFailed(f"no daemon answers (is it running?): {tried}")


def client_closed_error() -> ConnectionFailed:
    return ConnectionFailed("the client is closed")


def encode(build: Callable[[], Message]) -> bytes:
    """Build a message and give its bytes."""
    try:
        return build().SerializeToString()
    except (TypeError, ValueError, EncodeError) as exc:
        raise SerializationError(f"this cannot be sent: {exc}") from exc


def decode(message_class: type[M], raw: bytes, convert: Callable[[M], Value]) -> Value:
    """Read the bytes of an answer."""
    name = message_class.DESCRIPTOR.full_name
    try:
        return convert(message_class.FromString(raw))
    except DecodeError as exc:
        raise SerializationError(f"the answer is not a {name}") from exc
    except ValueError as exc:  # a number that is none of an enum's
        raise SerializationError(
            f"the {name} holds what this client does not know: {exc}; is the daemon newer?"
        ) from exc


def event_out(event: Event) -> pb.Event:
    try:
        return pb.Event(
            event_id=event.event_id,
            session_id=event.session_id,
            timestamp_ms=event.timestamp_ms,
            event_type=int(event.event_type),  # type: ignore[arg-type]  # plain numbers on the wire
            role=int(event.role),  # type: ignore[arg-type]
            text=event.text,
            metadata=event.metadata,
        )
    except (TypeError, ValueError) as exc:
        raise SerializationError(f"this cannot be sent: {exc}") from exc


def _unary(method: str, convert: Callable[[Any], Value], /, **request: object) -> Unary[Value]:
    return unary(_SERVICE, method, convert, **request)


def _event_in(message: pb.Event) -> Event:
    return Event(
        event_id=message.event_id,
        session_id=message.session_id,
        timestamp=message.timestamp_ms,
        event_type=EventType(message.event_type),
        role=EventRole(message.role),
        text=message.text,
        metadata=message.metadata,
    )


def _events_in(answer: pb.GetEventsResponse) -> GetEventsResult:
    return GetEventsResult(
        events=tuple(_event_in(event) for event in answer.events),
        has_more=answer.has_more,
        continuation_token=_optional(answer, "continuation_token"),
    )


def _node_in(message: pb.TocNode) -> TocNode:
    return TocNode(
        **_plain_in(message, TocNode)
        | {
            "level": TocLevel(message.level),
            "bullets": tuple(_bullet_in(each) for each in message.bullets),
            "work": WorkFigures(**_plain_in(message.work, WorkFigures)),
        }
    )


def _bullet_in(message: pb.TocBullet) -> TocBullet:
    """Return a bullet. An older daemon sends no kind, a newer one may send others: notes to us."""
    kind = _KINDS.get(message.kind, BulletKind.NOTE)
    return TocBullet(**_plain_in(message, TocBullet) | {"kind": kind})


def _children_in(answer: pb.BrowseTocResponse) -> BrowseTocResult:
    return BrowseTocResult(
        children=tuple(_node_in(node) for node in answer.children),
        has_more=answer.has_more,
        continuation_token=_optional(answer, "continuation_token"),
    )


def _expansion_in(answer: pb.ExpandGripResponse) -> ExpandGripResult:
    grip = Grip(**_plain_in(answer.grip, Grip)) if answer.HasField("grip") else None
    return ExpandGripResult(
        grip=grip,
        events_before=tuple(_event_in(event) for event in answer.events_before),
        excerpt_events=tuple(_event_in(event) for event in answer.excerpt_events),
        events_after=tuple(_event_in(event) for event in answer.events_after),
    )


def _hit_in(hit: pb.SearchHit) -> SearchHit:
    passage = _passage_in(hit.passage) if hit.HasField("passage") else None
    own = {
        "score_parts": dict(hit.score_parts),
        "passage": passage,
        "origin": hit.origin or "local",
    }
    return SearchHit(**_plain_in(hit, SearchHit) | own)


def _passage_in(passage: pb.Passage) -> Passage:
    marks = tuple((mark.start, mark.end) for mark in passage.marks)
    return Passage(**_plain_in(passage, Passage) | {"marks": marks})


def _hits_in(answer: pb.SearchResponse) -> SearchResult:
    return SearchResult(
        hits=tuple(_hit_in(hit) for hit in answer.hits),
        total=answer.total,
        certain=answer.certain,
        warning=_optional(answer, "warning"),
        continuation_token=_optional(answer, "continuation_token"),
    )


def _job_in(job: pb.JobStatusProto) -> Job:
    return Job(**_plain_in(job, Job) | {"last_result": JobResult(job.last_result)})


def _status_in(answer: pb.GetSchedulerStatusResponse) -> SchedulerStatus:
    return SchedulerStatus(
        scheduler_running=answer.scheduler_running,
        jobs=tuple(_job_in(job) for job in answer.jobs),
    )


def _check_success(answer: pb.PauseJobResponse | pb.ResumeJobResponse) -> None:
    if not answer.success:
        raise RpcError("NOT_FOUND", answer.error)


def _run_in(answer: pb.RunJobResponse) -> Job:
    """Return the job. One that ran and failed says so in its result; one that does not exist
    raises."""
    if not answer.HasField("job"):
        raise RpcError("NOT_FOUND", answer.error)
    return _job_in(answer.job)


def _plain_in(message: Message, kind: type[Any]) -> dict[str, Any]:
    """Return the fields of a value of this kind: lists as tuples, and None for absent ones."""
    return {field.name: _optional(message, field.name) for field in fields(kind)}


def _optional(message: Message, name: str) -> Any:
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.has_presence and not message.HasField(name):
        return None
    value = getattr(message, name)
    return tuple(value) if field.is_repeated else value
