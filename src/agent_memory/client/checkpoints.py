"""The calls of memory.CheckpointService as values, without a word of LangGraph."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from agent_memory.client.calls import Unary, unary
from agent_memory.client.errors import SerializationError
from agent_memory.proto import checkpoints_pb2 as pb

PAGE = 100
_SERVICE = pb.DESCRIPTOR.services_by_name["CheckpointService"]
_WRITES = 1_000  # of one message
_MAX_BLOB_BYTES = 15 << 20  # the daemon's limit; what is far beyond it never reaches the daemon


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
class Listing:
    """What is to be listed. `filter` is JSON, or empty."""

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    filter: str = ""


def put(
    place: CheckpointRef, state: tuple[str, bytes], *, parent: str | None, metadata: str
) -> Unary[None]:
    """Build the call that stores a state: the name of its format, and its bytes."""
    kind, blob = state
    _check_size("the checkpoint", blob)
    checkpoint = {
        **place._asdict(),
        "parent_checkpoint_id": parent,
        "metadata": metadata,
        "type": kind,
        "blob": blob,
    }
    return _command("PutCheckpoint", checkpoint=checkpoint)


def put_writes(place: CheckpointRef, writes: Sequence[Write]) -> Iterator[Unary[None]]:
    """As many calls as are needed."""
    for some in _split(writes):
        yield _command("PutWrites", **place._asdict(), writes=[asdict(write) for write in some])


def get(
    thread_id: str, checkpoint_ns: str, checkpoint_id: str | None
) -> Unary[pb.GetCheckpointResponse]:
    return unary(
        _SERVICE,
        "GetCheckpoint",
        _unchanged,
        thread_id=thread_id,
        checkpoint_ns=checkpoint_ns,
        checkpoint_id=checkpoint_id,
    )


def get_writes(place: CheckpointRef, after: pb.WriteCursor) -> Unary[pb.GetWritesResponse]:
    return unary(_SERVICE, "GetWrites", _unchanged, **place._asdict(), after=after)


def list_checkpoints(
    wanted: Listing, limit: int, after: pb.CheckpointCursor | None
) -> Unary[pb.ListCheckpointsResponse]:
    return unary(
        _SERVICE, "ListCheckpoints", _unchanged, **asdict(wanted), limit=limit, after=after
    )


def delete_threads(thread_ids: Sequence[str]) -> Unary[None]:
    return _command("DeleteThreads", thread_ids=thread_ids)


def delete_for_runs(run_ids: Sequence[str]) -> Unary[None]:
    return _command("DeleteForRuns", run_ids=run_ids)


def copy_thread(source: str, target: str) -> Unary[None]:
    return _command("CopyThread", source_thread_id=source, target_thread_id=target)


def prune(thread_ids: Sequence[str], strategy: str) -> Unary[None]:
    return _command("PruneThreads", thread_ids=thread_ids, strategy=strategy)


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


def _command(method: str, /, **request: object) -> Unary[None]:
    return unary(_SERVICE, method, lambda _: None, **request)


def _unchanged(answer: Any) -> Any:
    return answer
