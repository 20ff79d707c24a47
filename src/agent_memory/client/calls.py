"""Every call as a value: where it goes, the bytes to send, how to read the answer.

Nothing here talks to a network. The two clients execute these, each in its own way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import grpc
from google.protobuf.message import DecodeError, EncodeError, Message

from agent_memory.client.endpoints import Endpoint
from agent_memory.client.errors import ConnectionFailed, RpcError, SerializationError
from agent_memory.client.values import (
    BrowseTocResult,
    Event,
    EventRole,
    EventType,
    ExpandGripResult,
    GetEventsResult,
    Grip,
    Job,
    JobResult,
    SchedulerStatus,
    SearchFilters,
    SearchHit,
    SearchResult,
    TocBullet,
    TocLevel,
    TocNode,
)
from agent_memory.proto import memory_pb2 as pb

CALL_SECONDS = 30.0
CONNECT_SECONDS = 5.0
_PAGE = 1_000  # the most that the daemon gives at once

_METHODS = pb.DESCRIPTOR.services_by_name["MemoryService"].methods_by_name
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
        "IngestEvent",
        encode(lambda: pb.IngestEventRequest(event=event_out(event))),
        pb.IngestEventResponse,
        lambda answer: (answer.event_id, answer.created),
    )


def get_events(
    from_ms: int, to_ms: int, limit: int, continuation_token: str | None
) -> Unary[GetEventsResult]:
    return _unary(
        "GetEvents",
        encode(
            lambda: pb.GetEventsRequest(
                from_timestamp_ms=from_ms,
                to_timestamp_ms=to_ms,
                limit=limit,
                continuation_token=continuation_token,
            )
        ),
        pb.GetEventsResponse,
        _events_in,
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
    return _unary(
        "GetTocRoot",
        encode(pb.GetTocRootRequest),
        pb.GetTocRootResponse,
        lambda answer: [_node_in(node) for node in answer.nodes],
    )


def get_node(node_id: str) -> Unary[TocNode | None]:
    return _unary(
        "GetNode",
        encode(lambda: pb.GetNodeRequest(node_id=node_id)),
        pb.GetNodeResponse,
        lambda answer: _node_in(answer.node) if answer.HasField("node") else None,
    )


def browse_toc(
    parent_id: str, limit: int, continuation_token: str | None
) -> Unary[BrowseTocResult]:
    return _unary(
        "BrowseToc",
        encode(
            lambda: pb.BrowseTocRequest(
                parent_id=parent_id, limit=limit, continuation_token=continuation_token
            )
        ),
        pb.BrowseTocResponse,
        lambda answer: BrowseTocResult(
            children=tuple(_node_in(node) for node in answer.children),
            has_more=answer.has_more,
            continuation_token=_token_in(answer),
        ),
    )


def expand_grip(
    grip_id: str, events_before: int | None, events_after: int | None
) -> Unary[ExpandGripResult]:
    return _unary(
        "ExpandGrip",
        encode(
            lambda: pb.ExpandGripRequest(
                grip_id=grip_id, events_before=events_before, events_after=events_after
            )
        ),
        pb.ExpandGripResponse,
        lambda answer: ExpandGripResult(
            grip=_grip_in(answer.grip) if answer.HasField("grip") else None,
            events_before=tuple(_event_in(event) for event in answer.events_before),
            excerpt_events=tuple(_event_in(event) for event in answer.excerpt_events),
            events_after=tuple(_event_in(event) for event in answer.events_after),
        ),
    )


def search(query: str, filters: SearchFilters) -> Unary[SearchResult]:
    return _unary(
        "Search",
        encode(lambda: pb.SearchRequest(query=query, **filters)),
        pb.SearchResponse,
        lambda answer: SearchResult(
            hits=tuple(_hit_in(hit) for hit in answer.hits),
            total=answer.total,
            warning=answer.warning if answer.HasField("warning") else None,
            continuation_token=_token_in(answer),
        ),
    )


def get_scheduler_status() -> Unary[SchedulerStatus]:
    return _unary(
        "GetSchedulerStatus",
        encode(pb.GetSchedulerStatusRequest),
        pb.GetSchedulerStatusResponse,
        lambda answer: SchedulerStatus(
            scheduler_running=answer.scheduler_running,
            jobs=tuple(_job_in(job) for job in answer.jobs),
        ),
    )


def pause_job(job_name: str) -> Unary[None]:
    return _unary(
        "PauseJob",
        encode(lambda: pb.PauseJobRequest(job_name=job_name)),
        pb.PauseJobResponse,
        _check_success,
    )


def resume_job(job_name: str) -> Unary[None]:
    return _unary(
        "ResumeJob",
        encode(lambda: pb.ResumeJobRequest(job_name=job_name)),
        pb.ResumeJobResponse,
        _check_success,
    )


def run_job(job_name: str) -> Unary[Job]:
    return _unary(
        "RunJob",
        encode(lambda: pb.RunJobRequest(job_name=job_name)),
        pb.RunJobResponse,
        _run_in,
    )


def path(method: str) -> str:
    return f"/{_METHODS[method].containing_service.full_name}/{method}"


def open_channel(endpoint: Endpoint) -> grpc.Channel:
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


def to_rpc_error(error: grpc.RpcError) -> RpcError:
    """Convert gRPC's error to ours."""
    return RpcError(error.code().name, error.details() or "")


def none_if_answered(error: RpcError) -> RpcError | None:
    """Return the error of a probe if it means that no daemon answered."""
    return error if error.code in _UNREACHED else None


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
    return pb.Event(
        event_id=event.event_id,
        session_id=event.session_id,
        timestamp_ms=event.timestamp_ms,
        event_type=int(event.event_type),  # type: ignore[arg-type]  # plain numbers on the wire
        role=int(event.role),  # type: ignore[arg-type]
        text=event.text,
        metadata=event.metadata,
    )


def _unary(
    method: str, request: bytes, answers: type[M], convert: Callable[[M], Value]
) -> Unary[Value]:
    return Unary(
        path=path(method), request=request, parse=lambda raw: decode(answers, raw, convert)
    )


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
        continuation_token=_token_in(answer),
    )


def _node_in(message: pb.TocNode) -> TocNode:
    return TocNode(
        node_id=message.node_id,
        level=TocLevel(message.level),
        title=message.title,
        summary=message.summary if message.HasField("summary") else None,
        bullets=tuple(
            TocBullet(text=bullet.text, grip_ids=tuple(bullet.grip_ids))
            for bullet in message.bullets
        ),
        keywords=tuple(message.keywords),
        child_node_ids=tuple(message.child_node_ids),
        start_time_ms=message.start_time_ms,
        end_time_ms=message.end_time_ms,
        version=message.version,
    )


def _grip_in(message: pb.Grip) -> Grip:
    return Grip(
        grip_id=message.grip_id,
        excerpt=message.excerpt,
        event_id_start=message.event_id_start,
        event_id_end=message.event_id_end,
        timestamp_ms=message.timestamp_ms,
        source=message.source,
        toc_node_id=message.toc_node_id if message.HasField("toc_node_id") else None,
    )


def _hit_in(hit: pb.SearchHit) -> SearchHit:
    values = {field.name: getattr(hit, field.name) for field in fields(SearchHit)}
    values |= {name: tuple(values[name]) for name in ("tags", "relates_to")}
    return SearchHit(**values | {"score_parts": dict(hit.score_parts)})


def _token_in(
    answer: pb.GetEventsResponse | pb.BrowseTocResponse | pb.SearchResponse,
) -> str | None:
    return answer.continuation_token if answer.HasField("continuation_token") else None


def _job_in(job: pb.JobStatusProto) -> Job:
    return Job(
        job_name=job.job_name,
        cron_expr=job.cron_expr,
        last_run_ms=job.last_run_ms,
        last_duration_ms=job.last_duration_ms,
        last_result=JobResult(job.last_result),
        last_error=job.last_error if job.HasField("last_error") else None,
        next_run_ms=job.next_run_ms,
        run_count=job.run_count,
        error_count=job.error_count,
        is_running=job.is_running,
        is_paused=job.is_paused,
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
