"""memory.CheckpointService: checkpoints of LangGraph graphs."""

from dataclasses import dataclass

from agent_memory.features.checkpoints.model import graphs
from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointKey,
    CheckpointScope,
    CheckpointSnapshot,
    GraphCheckpoint,
    PendingWrite,
    ThreadId,
    WriteKey,
)
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.grpc import handlers
from agent_memory.interfaces.grpc.admission import Guard
from agent_memory.interfaces.grpc.calls import Methods
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel.errors import InvalidInput
from agent_memory.proto import checkpoints_pb2 as pb

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["CheckpointService"]


@dataclass(frozen=True, slots=True)
class CheckpointService:
    graphs: Graphs
    bridge: Bridge
    guard: Guard | None
    observer: Observer

    def build_methods(self) -> Methods:
        return handlers.build_service(
            DESCRIPTOR,
            unary={
                "PutCheckpoint": self.put_checkpoint,
                "PutWrites": self.put_writes,
                "GetCheckpoint": self.get_checkpoint,
                "GetWrites": self.get_writes,
                "ListCheckpoints": self.list_checkpoints,
                "DeleteThreads": self.delete_threads,
                "DeleteCheckpoints": self.delete_checkpoints,
                "DeleteForRuns": self.delete_for_runs,
                "CopyThread": self.copy_thread,
                "PruneThreads": self.prune_threads,
            },
            stream={},
            guard=self.guard,
            observer=self.observer,
        )

    async def put_checkpoint(self, request: pb.PutCheckpointRequest) -> pb.PutCheckpointResponse:
        if not request.HasField("checkpoint"):
            raise InvalidInput("checkpoint is required")
        checkpoint = _parse_checkpoint(request.checkpoint)
        clean = await self.bridge.run_if_long(
            lambda: self.graphs.clean(checkpoint), len(checkpoint.metadata)
        )
        await self.bridge.wait(self.graphs.put(clean))
        return pb.PutCheckpointResponse()

    async def put_writes(self, request: pb.PutWritesRequest) -> pb.PutWritesResponse:
        writes = [_parse_write(write) for write in request.writes]
        await self.bridge.wait(self.graphs.put_writes(_parse_key(request), writes))
        return pb.PutWritesResponse()

    async def get_checkpoint(self, request: pb.GetCheckpointRequest) -> pb.GetCheckpointResponse:
        only = CheckpointId(request.checkpoint_id) if request.HasField("checkpoint_id") else None

        def read() -> pb.GetCheckpointResponse:
            snapshot = self.graphs.get(ThreadId(request.thread_id), request.checkpoint_ns, only)
            return pb.GetCheckpointResponse(
                snapshot=None if snapshot is None else _snapshot_to_proto(snapshot)
            )

        return await self.bridge.run(read)

    async def get_writes(self, request: pb.GetWritesRequest) -> pb.GetWritesResponse:
        place = _parse_key(request)
        after = (
            WriteKey(request.after.task_id, request.after.index)
            if request.HasField("after")
            else None
        )

        def read() -> pb.GetWritesResponse:
            page = self.graphs.writes(place, after)
            return pb.GetWritesResponse(
                writes=[_write_to_proto(write) for write in page.writes],
                more_after=_cursor_to_proto(page.next),
            )

        return await self.bridge.run(read)

    async def list_checkpoints(
        self, request: pb.ListCheckpointsRequest
    ) -> pb.ListCheckpointsResponse:
        scope = CheckpointScope(
            ThreadId(request.thread_id) if request.HasField("thread_id") else None,
            request.checkpoint_ns if request.HasField("checkpoint_ns") else None,
        )
        only = CheckpointId(request.checkpoint_id) if request.HasField("checkpoint_id") else None
        before = CheckpointId(request.before) if request.HasField("before") else None
        after = _parse_key(request.after) if request.HasField("after") else None

        def read() -> pb.ListCheckpointsResponse:
            snapshots, rest = self.graphs.list(
                scope,
                wanted=graphs.read_filter(request.filter),
                only=only,
                before=before,
                after=after,
                limit=request.limit,
            )
            return pb.ListCheckpointsResponse(
                snapshots=[_snapshot_to_proto(snapshot) for snapshot in snapshots],
                next=None if rest is None else pb.CheckpointCursor(**rest._asdict()),
            )

        return await self.bridge.run(read)

    async def delete_threads(self, request: pb.DeleteThreadsRequest) -> pb.DeleteThreadsResponse:
        await self.bridge.run(lambda: self.graphs.delete_threads(request.thread_ids))
        return pb.DeleteThreadsResponse()

    async def delete_checkpoints(
        self, request: pb.DeleteCheckpointsRequest
    ) -> pb.DeleteCheckpointsResponse:
        await self.bridge.run(lambda: self.graphs.delete_checkpoints(request.checkpoint_ids))
        return pb.DeleteCheckpointsResponse()

    async def delete_for_runs(self, request: pb.DeleteForRunsRequest) -> pb.DeleteForRunsResponse:
        await self.bridge.run(lambda: self.graphs.delete_for_runs(request.run_ids))
        return pb.DeleteForRunsResponse()

    async def copy_thread(self, request: pb.CopyThreadRequest) -> pb.CopyThreadResponse:
        source, target = ThreadId(request.source_thread_id), ThreadId(request.target_thread_id)
        await self.bridge.run(lambda: self.graphs.copy_thread(source, target))
        return pb.CopyThreadResponse()

    async def prune_threads(self, request: pb.PruneThreadsRequest) -> pb.PruneThreadsResponse:
        strategy = graphs.parse_strategy(request.strategy)
        await self.bridge.run(lambda: self.graphs.prune(request.thread_ids, strategy))
        return pb.PruneThreadsResponse()


def _parse_key(
    message: pb.GraphCheckpoint | pb.PutWritesRequest | pb.GetWritesRequest | pb.CheckpointCursor,
) -> CheckpointKey:
    place = CheckpointKey(
        ThreadId(message.thread_id), message.checkpoint_ns, CheckpointId(message.checkpoint_id)
    )
    graphs.check_place(place)
    return place


def _parse_checkpoint(message: pb.GraphCheckpoint) -> GraphCheckpoint:
    parent = message.parent_checkpoint_id if message.HasField("parent_checkpoint_id") else None
    return GraphCheckpoint(
        place=_parse_key(message),
        parent_checkpoint_id=None if parent is None else CheckpointId(parent),
        metadata=message.metadata,
        type=message.type,
        blob=message.blob,
    )


def _parse_write(message: pb.PendingWrite) -> PendingWrite:
    return PendingWrite(
        task_id=message.task_id,
        index=message.index,
        channel=message.channel,
        type=message.type,
        value=message.value,
        task_path=message.task_path,
    )


def _snapshot_to_proto(snapshot: CheckpointSnapshot) -> pb.GraphSnapshot:
    checkpoint = snapshot.checkpoint
    return pb.GraphSnapshot(
        checkpoint=pb.GraphCheckpoint(
            **checkpoint.place._asdict(),
            parent_checkpoint_id=checkpoint.parent_checkpoint_id,
            metadata=checkpoint.metadata,
            type=checkpoint.type,
            blob=checkpoint.blob,
        ),
        writes=[_write_to_proto(write) for write in snapshot.pending.writes],
        more_after=_cursor_to_proto(snapshot.pending.next),
    )


def _write_to_proto(write: PendingWrite) -> pb.PendingWrite:
    return pb.PendingWrite(
        task_id=write.task_id,
        task_path=write.task_path,
        index=write.index,
        channel=write.channel,
        type=write.type,
        value=write.value,
    )


def _cursor_to_proto(key: WriteKey | None) -> pb.WriteCursor | None:
    return None if key is None else pb.WriteCursor(task_id=key.task_id, index=key.number)
