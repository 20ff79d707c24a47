"""LangGraph's checkpointer over the daemon: a graph's states survive whatever happens to it.

    from agent_memory.client.langgraph import AgentMemorySaver

    with AgentMemorySaver.connect_default() as saver:
        graph = builder.compile(checkpointer=saver)

It needs the extra `langgraph` of this package.
"""

import builtins
import json
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar, cast

from agent_memory.client import calls, checkpoints
from agent_memory.client.checkpoints import CheckpointRef, Listing, Write
from agent_memory.client.connection import Connection
from agent_memory.client.errors import SerializationError
from agent_memory.proto import checkpoints_pb2 as pb

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from agent_memory.client.serializing import AllowedType, StrictSerializer
except ImportError as exc:
    raise ImportError(
        "agent_memory.client.langgraph needs langgraph-checkpoint 4.1 or newer:"
        " pip install 'agent-memory[langgraph]'"
    ) from exc

__all__ = ["AgentMemorySaver", "StrictSerializer"]

Value = TypeVar("Value")
# What a method does: calls to make one after the other, each answered before the next. So it is
# written once, for those who block and those who await.
Script = Generator[calls.Unary[Any], Any, Value]


class AgentMemorySaver(BaseCheckpointSaver[int]):
    """A checkpointer that keeps everything in the daemon. Built by `connect` or `connect_default`.

    All methods are there to be called and to be awaited, from any thread and event loop. What was
    put is on disk when the call returns. A daemon that is being restarted is waited for.

    States are read strictly: plain values, the types that LangGraph itself allows (messages,
    documents, dates, ...) and your `allowed_types`. A `serde` of your own takes the place of that.

    Raises the errors of `agent_memory.client`.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        serde: SerializerProtocol | None = None,
        allowed_types: Iterable[AllowedType] = (),
    ) -> None:
        allowed = tuple(allowed_types)
        if serde is not None and allowed:
            raise ValueError("allowed_types are for the serializer in whose place serde is given")
        super().__init__(serde=StrictSerializer(allowed) if serde is None else serde)
        self._connection = connection

    @classmethod
    def connect(
        cls,
        endpoint: str,
        *,
        key: str | None = None,
        serde: SerializerProtocol | None = None,
        allowed_types: Iterable[AllowedType] = (),
        timeout_seconds: float = calls.CALL_SECONDS,
        connect_seconds: float = calls.CONNECT_SECONDS,
    ) -> Self:
        """Connect and make sure that a daemon answers. `timeout_seconds` is for each later call."""
        connection = Connection.open(
            endpoint, key=key, timeout_seconds=timeout_seconds, connect_seconds=connect_seconds
        )
        return cls(connection, serde=serde, allowed_types=allowed_types)

    @classmethod
    def connect_default(
        cls,
        *,
        key: str | None = None,
        serde: SerializerProtocol | None = None,
        allowed_types: Iterable[AllowedType] = (),
        timeout_seconds: float = calls.CALL_SECONDS,
        connect_seconds: float = calls.CONNECT_SECONDS,
    ) -> Self:
        """Connect to the daemon that MEMORY_ENDPOINT names, or to the one that runs here."""
        connection = Connection.open(
            None, key=key, timeout_seconds=timeout_seconds, connect_seconds=connect_seconds
        )
        return cls(connection, serde=serde, allowed_types=allowed_types)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. It waits for nothing, so coroutines may call it too."""
        self._connection.close()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._run(self._get(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._arun(self._get(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        pages = _Pages(_listing(config, filter, before), limit)
        while not pages.done:
            yield from self._run(self._page(pages))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        pages = _Pages(_listing(config, filter, before), limit)
        while not pages.done:
            for each in await self._arun(self._page(pages)):
                yield each

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - the whole state is kept
    ) -> RunnableConfig:
        return self._run(self._put(config, checkpoint, metadata))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - the whole state is kept
    ) -> RunnableConfig:
        return await self._arun(self._put(config, checkpoint, metadata))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self._run(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._arun(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        self._connection.call(checkpoints.delete_threads([str(thread_id)]))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._connection.acall(checkpoints.delete_threads([str(thread_id)]))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._connection.call(checkpoints.delete_for_runs(_names(run_ids)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._connection.acall(checkpoints.delete_for_runs(_names(run_ids)))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._connection.call(checkpoints.copy_thread(str(source_thread_id), str(target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._connection.acall(
            checkpoints.copy_thread(str(source_thread_id), str(target_thread_id))
        )

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the latest checkpoint of each namespace, and those before it that channels stored
        as differences need."""
        self._connection.call(checkpoints.prune(_names(thread_ids), strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._connection.acall(checkpoints.prune(_names(thread_ids), strategy))

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> Script[RunnableConfig]:
        thread_id, checkpoint_ns = _thread_key(config)
        place = CheckpointRef(thread_id, checkpoint_ns, checkpoint["id"])
        yield checkpoints.put(
            place,
            self.serde.dumps_typed(checkpoint),
            parent=get_checkpoint_id(config),
            metadata=_json("metadata", get_checkpoint_metadata(config, metadata)),
        )
        return _config(place)

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Script[None]:
        place = CheckpointRef(*_thread_key(config), str(config["configurable"]["checkpoint_id"]))
        made: builtins.list[Write] = []
        for number, (channel, value) in enumerate(writes):
            kind, dumped = self.serde.dumps_typed(value)
            made.append(
                Write(
                    task_path=task_path,
                    task_id=task_id,
                    index=WRITES_IDX_MAP.get(channel, number),
                    channel=channel,
                    type=kind,
                    value=dumped,
                )
            )
        yield from checkpoints.put_writes(place, made)

    def _get(self, config: RunnableConfig) -> Script[CheckpointTuple | None]:
        answer = yield checkpoints.get(*_thread_key(config), get_checkpoint_id(config) or None)
        return (yield from self._tuple(answer.snapshot)) if answer.HasField("snapshot") else None

    def _page(self, pages: "_Pages") -> Script[builtins.list[CheckpointTuple]]:
        page = yield checkpoints.list_checkpoints(pages.wanted, pages.size, pages.after)
        tuples: builtins.list[CheckpointTuple] = []
        for snapshot in page.snapshots:
            tuples += [(yield from self._tuple(snapshot))]
        pages.read(len(tuples), page.next if page.HasField("next") else None)
        return tuples

    def _tuple(self, snapshot: pb.GraphSnapshot) -> Script[CheckpointTuple]:
        stored = snapshot.checkpoint
        place = CheckpointRef(stored.thread_id, stored.checkpoint_ns, stored.checkpoint_id)
        writes = [*snapshot.writes]
        page: pb.GraphSnapshot | pb.GetWritesResponse = snapshot
        while page.HasField("more_after"):
            page = yield checkpoints.get_writes(place, page.more_after)
            writes += page.writes
        # As a running graph applies them: a reducer need not take them in any order.
        writes.sort(key=lambda each: (each.task_path, each.task_id, each.index))
        parent = stored.parent_checkpoint_id
        return CheckpointTuple(
            config=_config(place),
            checkpoint=self.serde.loads_typed((stored.type, stored.blob)),
            metadata=cast(CheckpointMetadata, json.loads(stored.metadata)),
            parent_config=_config(place._replace(checkpoint_id=parent)) if parent else None,
            pending_writes=[
                (each.task_id, each.channel, self.serde.loads_typed((each.type, each.value)))
                for each in writes
            ],
        )

    def _run(self, script: Script[Value]) -> Value:
        try:
            call = next(script)
            while True:
                call = script.send(self._connection.call(call))
        except StopIteration as end:
            return cast(Value, end.value)

    async def _arun(self, script: Script[Value]) -> Value:
        try:
            call = next(script)
            while True:
                call = script.send(await self._connection.acall(call))
        except StopIteration as end:
            return cast(Value, end.value)


class _Pages:
    """How far a list is."""

    def __init__(self, wanted: Listing, limit: int | None) -> None:
        self.wanted = wanted
        self.after: pb.CheckpointCursor | None = None
        self._left = limit
        self.done = limit is not None and limit <= 0

    @property
    def size(self) -> int:
        return checkpoints.PAGE if self._left is None else min(self._left, checkpoints.PAGE)

    def read(self, count: int, after: pb.CheckpointCursor | None) -> None:
        self.after = after
        if self._left is not None:
            self._left -= count
        self.done = after is None or self._left == 0


def _listing(
    config: RunnableConfig | None, wanted: dict[str, Any] | None, before: RunnableConfig | None
) -> Listing:
    chosen = {} if config is None else config["configurable"]
    return Listing(
        thread_id=None if config is None else str(chosen["thread_id"]),
        checkpoint_ns=chosen.get("checkpoint_ns"),
        checkpoint_id=chosen.get("checkpoint_id") or None,
        before=None if before is None else get_checkpoint_id(before) or None,
        filter=_json("filter", wanted) if wanted else "",
    )


def _thread_key(config: RunnableConfig) -> tuple[str, str]:
    chosen = config["configurable"]
    return str(chosen["thread_id"]), chosen.get("checkpoint_ns", "")


def _config(place: CheckpointRef) -> RunnableConfig:
    return {"configurable": place._asdict()}


def _names(ids: Sequence[str]) -> builtins.list[str]:
    return [str(each) for each in ids]


def _json(name: str, value: object) -> str:
    try:
        # What is no character cannot be sent: half of a surrogate pair is left out.
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "ignore").decode()
    except (TypeError, ValueError) as exc:
        raise SerializationError(f"{name} cannot be sent as JSON: {exc}") from exc
