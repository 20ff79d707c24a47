"""The calls of memory.CheckpointService as values, without a word of LangGraph."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from google.protobuf.message import Message

from agent_memory.client import calls
from agent_memory.client.calls import Unary
from agent_memory.client.errors import SerializationError
from agent_memory.proto import checkpoints_pb2 as pb

PAGE = 100
_SERVICE = pb.DESCRIPTOR.services_by_name["CheckpointService"].full_name
_WRITES = 1_000  # of one message
_MAX_BLOB_BYTES = 15 << 20  # the daemon's limit; what is far beyond it never reaches the daemon

Value = TypeVar("Value")
M = TypeVar("M", bound=Message)


class CheckpointRef(NamedTuple):
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    task_path: str
    task_id: str
    index: int
    channel: str
    type: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    place: CheckpointRef
    parent_checkpoint_id: str | None
    metadata: str
    type: str
    blob: bytes


class PendingWrites(NamedTuple):
    writes: tuple[Write, ...]
    more: pb.WriteCursor | None


class CheckpointState(NamedTuple):
    checkpoint: Checkpoint
    pending: PendingWrites


class ListPage(NamedTuple):
    snapshots: tuple[CheckpointState, ...]
    next: pb.CheckpointCursor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is to be listed. `filter` is JSON, or empty."""

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    filter: str = ""


def put(checkpoint: Checkpoint) -> Unary[None]:
    _check_size("the checkpoint", checkpoint.blob)
    return _command(
        "PutCheckpoint",
        lambda: pb.PutCheckpointRequest(
            checkpoint=pb.GraphCheckpoint(
                **checkpoint.place._asdict(),
                parent_checkpoint_id=checkpoint.parent_checkpoint_id,
                metadata=checkpoint.metadata,
                type=checkpoint.type,
                blob=checkpoint.blob,
            )
        ),
        pb.PutCheckpointResponse,
    )


def put_writes(place: CheckpointRef, writes: Sequence[Write]) -> Iterator[Unary[None]]:
    """As many calls as are needed."""
    for some in _split(writes):
        yield _command("PutWrites", partial(_put_writes, place, some), pb.PutWritesResponse)


def get(
    thread_id: str, checkpoint_ns: str, checkpoint_id: str | None
) -> Unary[CheckpointState | None]:
    return _unary(
        "GetCheckpoint",
        lambda: pb.GetCheckpointRequest(
            thread_id=thread_id, checkpoint_ns=checkpoint_ns, checkpoint_id=checkpoint_id
        ),
        pb.GetCheckpointResponse,
        lambda answer: _snapshot_in(answer.snapshot) if answer.HasField("snapshot") else None,
    )


def get_writes(place: CheckpointRef, after: pb.WriteCursor) -> Unary[PendingWrites]:
    return _unary(
        "GetWrites",
        lambda: pb.GetWritesRequest(**place._asdict(), after=after),
        pb.GetWritesResponse,
        _writes_in,
    )


def list_checkpoints(
    wanted: Listing, limit: int, after: pb.CheckpointCursor | None
) -> Unary[ListPage]:
    return _unary(
        "ListCheckpoints",
        lambda: pb.ListCheckpointsRequest(
            thread_id=wanted.thread_id,
            checkpoint_ns=wanted.checkpoint_ns,
            checkpoint_id=wanted.checkpoint_id,
            before=wanted.before,
            filter=wanted.filter,
            limit=limit,
            after=after,
        ),
        pb.ListCheckpointsResponse,
        lambda answer: ListPage(
            tuple(_snapshot_in(each) for each in answer.snapshots),
            answer.next if answer.HasField("next") else None,
        ),
    )


def delete_threads(thread_ids: Sequence[str]) -> Unary[None]:
    return _command(
        "DeleteThreads",
        lambda: pb.DeleteThreadsRequest(thread_ids=thread_ids),
        pb.DeleteThreadsResponse,
    )


def delete_for_runs(run_ids: Sequence[str]) -> Unary[None]:
    return _command(
        "DeleteForRuns",
        lambda: pb.DeleteForRunsRequest(run_ids=run_ids),
        pb.DeleteForRunsResponse,
    )


def copy_thread(source: str, target: str) -> Unary[None]:
    return _command(
        "CopyThread",
        lambda: pb.CopyThreadRequest(source_thread_id=source, target_thread_id=target),
        pb.CopyThreadResponse,
    )


def prune(thread_ids: Sequence[str], strategy: str) -> Unary[None]:
    return _command(
        "PruneThreads",
        lambda: pb.PruneThreadsRequest(thread_ids=thread_ids, strategy=strategy),
        pb.PruneThreadsResponse,
    )


def _put_writes(place: CheckpointRef, writes: Sequence[Write]) -> pb.PutWritesRequest:
    return pb.PutWritesRequest(
        **place._asdict(),
        writes=[
            pb.PendingWrite(
                task_path=each.task_path,
                task_id=each.task_id,
                index=each.index,
                channel=each.channel,
                type=each.type,
                value=each.value,
            )
            for each in writes
        ],
    )


def _split(writes: Sequence[Write]) -> Iterator[list[Write]]:
    some: list[Write] = []
    size = 0
    for write in writes:
        _check_size(f"the write to {write.channel!r}", write.value)
        own = len(write.value) + 4 * (len(write.task_path) + len(write.channel)) + 1024
        if some and (len(some) == _WRITES or size + own > _MAX_BLOB_BYTES):
            yield some
            some, size = [], 0
        some.append(write)
        size += own
    if some:
        yield some


def _check_size(what: str, blob: bytes) -> None:
    if len(blob) > _MAX_BLOB_BYTES:
        raise SerializationError(
            f"{what} has {len(blob):,} bytes; the limit is {_MAX_BLOB_BYTES >> 20} MiB:"
            " keep what is large elsewhere, and its place in the state"
        )


def _snapshot_in(message: pb.GraphSnapshot) -> CheckpointState:
    found = message.checkpoint
    parent = found.parent_checkpoint_id if found.HasField("parent_checkpoint_id") else None
    return CheckpointState(
        Checkpoint(
            place=CheckpointRef(found.thread_id, found.checkpoint_ns, found.checkpoint_id),
            parent_checkpoint_id=parent,
            metadata=found.metadata,
            type=found.type,
            blob=found.blob,
        ),
        _writes_in(message),
    )


def _writes_in(message: pb.GraphSnapshot | pb.GetWritesResponse) -> PendingWrites:
    return PendingWrites(
        tuple(
            Write(
                task_path=each.task_path,
                task_id=each.task_id,
                index=each.index,
                channel=each.channel,
                type=each.type,
                value=each.value,
            )
            for each in message.writes
        ),
        message.more_after if message.HasField("more_after") else None,
    )


def _command(method: str, build: Callable[[], Message], answers: type[Message]) -> Unary[None]:
    return _unary(method, build, answers, lambda _: None)


def _unary(
    method: str, build: Callable[[], Message], answers: type[M], convert: Callable[[M], Value]
) -> Unary[Value]:
    return Unary(
        path=f"/{_SERVICE}/{method}",
        request=calls.encode(build),
        parse=lambda raw: calls.decode(answers, raw, convert),
    )
