"""What can be asked of the checkpoints of graphs."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_memory.features.checkpoints.model.graphs import (
    MAX_ID_CHARS,
    CheckpointId,
    CheckpointInfo,
    ThreadId,
    ThreadInfo,
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

Names = Annotated[list[Name], Meta(max_length=MAX_IDS)]


class CheckpointPage(Struct, frozen=True, kw_only=True):
    thread_id: Annotated[str, Meta(max_length=MAX_ID_CHARS)] | None = None
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
    thread = None if request.thread_id is None else ThreadId(request.thread_id)
    page = graphs.list_infos(thread, limit=request.limit, offset=request.offset)
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
    graphs.delete_threads([ThreadId(name) for name in request.thread_ids or ()])
    graphs.delete_checkpoints([CheckpointId(name) for name in request.checkpoint_ids or ()])
