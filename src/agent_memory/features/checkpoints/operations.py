"""Operations on the checkpoints of graphs. Programs write and read them over gRPC."""

from concurrent.futures import Future
from typing import Annotated

from msgspec import Meta, Struct

from agent_memory.features.checkpoints.model import graphs as model
from agent_memory.features.checkpoints.model.graphs import (
    MAX_ID_CHARS,
    CheckpointId,
    CheckpointInfo,
    CheckpointKey,
    CheckpointScope,
    CheckpointSnapshot,
    GraphCheckpoint,
    PendingWrite,
    ThreadId,
    ThreadInfo,
    WriteKey,
    WritesPage,
    read_time,
)
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.kernel.access import Role
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.operations import operation
from agent_memory.kernel.structs import (
    MAX_IDS,
    Items,
    Limit,
    Name,
    Offset,
    PageRequest,
    copy_fields,
)

PATH = "/api/v1/memories/checkpoints"
RPC = "memory.CheckpointService"
_NO_THREAD, _NO_CHECKPOINT = ThreadId(""), CheckpointId("")  # the model refuses them

Names = Annotated[list[Name], Meta(max_length=MAX_IDS)]


class CheckpointPage(Struct, frozen=True, kw_only=True):
    thread_id: Annotated[ThreadId, Meta(max_length=MAX_ID_CHARS)] | None = None
    limit: Limit = 50
    offset: Offset = 0


class CheckpointAnswer(Struct, frozen=True, kw_only=True):
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    step: int | None
    source: str | None
    blob_size: int
    timestamp_ms: Annotated[int | None, Meta(description="If its id tells the time.")]

    @classmethod
    def from_info(cls, info: CheckpointInfo) -> "CheckpointAnswer":
        at_ms = read_time(info.place.checkpoint_id)
        return copy_fields(cls, info, **info.place._asdict(), timestamp_ms=at_ms)


class ThreadAnswer(Struct, frozen=True, kw_only=True):
    thread_id: str
    checkpoints: int
    latest: CheckpointAnswer

    @classmethod
    def from_thread(cls, thread: ThreadInfo) -> "ThreadAnswer":
        return copy_fields(cls, thread, latest=CheckpointAnswer.from_info(thread.latest))


class CheckpointIds(Struct, frozen=True, kw_only=True):
    """The checkpoints to delete, by thread or by id; at least one of the two."""

    thread_ids: Names | None = None
    checkpoint_ids: Names | None = None


@operation("checkpoints.list", role=Role.READER, http=f"GET {PATH}/")
def list_infos(graphs: Graphs, request: CheckpointPage) -> Items[CheckpointAnswer]:
    """List checkpoints."""
    page = graphs.list_infos(request.thread_id, limit=request.limit, offset=request.offset)
    return Items.from_page(page, CheckpointAnswer.from_info)


@operation(
    "checkpoints.list_threads",
    role=Role.READER,
    http=f"GET {PATH}/threads/",
)
def list_threads(graphs: Graphs, request: PageRequest) -> Items[ThreadAnswer]:
    """List the threads of graphs, the latest first."""
    page = graphs.list_threads(limit=request.limit, offset=request.offset)
    return Items.from_page(page, ThreadAnswer.from_thread)


@operation(
    "checkpoints.delete",
    http=f"POST {PATH}/batch-delete/",
    status=204,
    example={"thread_ids": ["1:5", "1:6"]},
)
def delete_checkpoints(graphs: Graphs, request: CheckpointIds) -> None:
    """Delete checkpoints, by thread or one by one."""
    if request.thread_ids is None and request.checkpoint_ids is None:
        raise InvalidInput("give thread_ids, checkpoint_ids, or both")
    graphs.delete_threads(request.thread_ids or ())
    graphs.delete_checkpoints(request.checkpoint_ids or ())


class CheckpointPlace(Struct, frozen=True, kw_only=True):
    """Where a checkpoint is. The model says which ids are valid."""

    thread_id: ThreadId = _NO_THREAD
    checkpoint_ns: str = ""
    checkpoint_id: CheckpointId = _NO_CHECKPOINT

    @property
    def key(self) -> CheckpointKey:
        """The key. Raises InvalidInput."""
        key = CheckpointKey(self.thread_id, self.checkpoint_ns, self.checkpoint_id)
        model.check_place(key)
        return key


class CheckpointState(CheckpointPlace, frozen=True, kw_only=True):
    parent_checkpoint_id: CheckpointId | None = None
    metadata: str = ""
    type: str = ""
    blob: bytes = b""

    def to_checkpoint(self) -> GraphCheckpoint:
        return GraphCheckpoint(
            place=self.key,
            parent_checkpoint_id=self.parent_checkpoint_id,
            metadata=self.metadata,
            type=self.type,
            blob=self.blob,
        )


class WriteCursor(Struct, frozen=True, kw_only=True):
    task_id: str = ""
    index: int = 0


class WriteList(Struct, frozen=True, kw_only=True):
    """Writes, and the last of them if there are more."""

    writes: tuple[PendingWrite, ...]
    more_after: WriteCursor | None

    @classmethod
    def from_page(cls, page: WritesPage) -> "WriteList":
        more = None if page.next is None else WriteCursor(task_id=page.next[0], index=page.next[1])
        return cls(writes=page.writes, more_after=more)


class StateAndWrites(WriteList, frozen=True, kw_only=True):
    """A checkpoint, and the first of its writes."""

    checkpoint: CheckpointState

    @classmethod
    def from_snapshot(cls, snapshot: CheckpointSnapshot) -> "StateAndWrites":
        checkpoint, pending = snapshot.checkpoint, WriteList.from_page(snapshot.pending)
        state = copy_fields(CheckpointState, checkpoint, **checkpoint.place._asdict())
        return cls(checkpoint=state, writes=pending.writes, more_after=pending.more_after)


class StateToPut(Struct, frozen=True, kw_only=True):
    checkpoint: CheckpointState | None = None


class WritesToPut(CheckpointPlace, frozen=True, kw_only=True):
    writes: tuple[PendingWrite, ...] = ()


class WritesAfter(CheckpointPlace, frozen=True, kw_only=True):
    after: WriteCursor | None = None


class StateName(Struct, frozen=True, kw_only=True):
    """A checkpoint; without an id, the latest."""

    thread_id: ThreadId = _NO_THREAD
    checkpoint_ns: str = ""
    checkpoint_id: CheckpointId | None = None


class FoundState(Struct, frozen=True, kw_only=True):
    snapshot: StateAndWrites | None


class StateFilter(Struct, frozen=True, kw_only=True):
    """The checkpoints to list. `filter` is JSON: what their metadata must hold."""

    thread_id: ThreadId | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: CheckpointId | None = None
    filter: str = ""
    before: CheckpointId | None = None
    limit: int = 0
    after: CheckpointPlace | None = None


class StateList(Struct, frozen=True, kw_only=True):
    """Checkpoints, and where to continue if there may be more."""

    snapshots: list[StateAndWrites]
    next: CheckpointPlace | None


class ThreadIds(Struct, frozen=True, kw_only=True):
    thread_ids: tuple[str, ...] = ()


class StateIds(Struct, frozen=True, kw_only=True):
    checkpoint_ids: tuple[str, ...] = ()


class GraphRunIds(Struct, frozen=True, kw_only=True):
    run_ids: tuple[str, ...] = ()


class ThreadCopy(Struct, frozen=True, kw_only=True):
    source_thread_id: ThreadId = _NO_THREAD
    target_thread_id: ThreadId = _NO_THREAD


class ThreadPruning(ThreadIds, frozen=True, kw_only=True):
    strategy: str = ""


@operation(
    "checkpoints.put",
    role=Role.WRITER,
    rpc=f"{RPC}.PutCheckpoint",
    scanned=lambda request: len(request.checkpoint.metadata) if request.checkpoint else 0,
)
def put_checkpoint(graphs: Graphs, request: StateToPut) -> Future[None]:
    """Store a checkpoint, or replace it."""
    if request.checkpoint is None:
        raise InvalidInput("checkpoint is required")
    return graphs.put(graphs.clean(request.checkpoint.to_checkpoint()))


@operation("checkpoints.put_writes", role=Role.WRITER, rpc=f"{RPC}.PutWrites")
def put_writes(graphs: Graphs, request: WritesToPut) -> Future[None]:
    """Store what tasks wrote after a checkpoint."""
    return graphs.put_writes(request.key, request.writes)


@operation("checkpoints.get", role=Role.READER, rpc=f"{RPC}.GetCheckpoint")
def get_checkpoint(graphs: Graphs, request: StateName) -> FoundState:
    """Read a checkpoint with what was written after it."""
    found = graphs.get(request.thread_id, request.checkpoint_ns, request.checkpoint_id)
    return FoundState(snapshot=None if found is None else StateAndWrites.from_snapshot(found))


@operation("checkpoints.get_writes", role=Role.READER, rpc=f"{RPC}.GetWrites")
def get_writes(graphs: Graphs, request: WritesAfter) -> WriteList:
    """Read the writes that did not fit an answer."""
    after = None if request.after is None else WriteKey(request.after.task_id, request.after.index)
    return WriteList.from_page(graphs.writes(request.key, after))


@operation("checkpoints.list_states", role=Role.READER, rpc=f"{RPC}.ListCheckpoints")
def list_states(graphs: Graphs, request: StateFilter) -> StateList:
    """List checkpoints with their states, the newest first."""
    found, following = graphs.list(
        CheckpointScope(request.thread_id, request.checkpoint_ns),
        wanted=model.read_filter(request.filter),
        only=request.checkpoint_id,
        before=request.before,
        after=None if request.after is None else request.after.key,
        limit=request.limit,
    )
    return StateList(
        snapshots=[StateAndWrites.from_snapshot(each) for each in found],
        next=None if following is None else CheckpointPlace(**following._asdict()),
    )


@operation("checkpoints.delete_threads", role=Role.WRITER, rpc=f"{RPC}.DeleteThreads")
def delete_threads(graphs: Graphs, request: ThreadIds) -> None:
    """Delete threads."""
    graphs.delete_threads(request.thread_ids)


@operation("checkpoints.delete_states", role=Role.WRITER, rpc=f"{RPC}.DeleteCheckpoints")
def delete_states(graphs: Graphs, request: StateIds) -> None:
    """Delete checkpoints of any thread."""
    graphs.delete_checkpoints(request.checkpoint_ids)


@operation("checkpoints.delete_for_runs", role=Role.WRITER, rpc=f"{RPC}.DeleteForRuns")
def delete_for_runs(graphs: Graphs, request: GraphRunIds) -> None:
    """Delete the checkpoints of runs."""
    graphs.delete_for_runs(request.run_ids)


@operation("checkpoints.copy_thread", role=Role.WRITER, rpc=f"{RPC}.CopyThread")
def copy_thread(graphs: Graphs, request: ThreadCopy) -> None:
    """Copy a thread. What the target already has stays."""
    graphs.copy_thread(request.source_thread_id, request.target_thread_id)


@operation("checkpoints.prune", role=Role.WRITER, rpc=f"{RPC}.PruneThreads")
def prune_threads(graphs: Graphs, request: ThreadPruning) -> None:
    """Leave of each namespace of a thread the latest checkpoint, or nothing."""
    graphs.prune(request.thread_ids, model.parse_strategy(request.strategy))
