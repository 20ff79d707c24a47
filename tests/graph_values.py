"""Checkpoints of graphs and their writes, for tests."""

import json
from typing import Any

from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointKey,
    GraphCheckpoint,
    PendingWrite,
    ThreadId,
)


def place(thread: str = "t", checkpoint: str = "c1", ns: str = "") -> CheckpointKey:
    return CheckpointKey(ThreadId(thread), ns, CheckpointId(checkpoint))


def checkpoint(
    thread: str = "t",
    checkpoint: str = "c1",
    ns: str = "",
    *,
    parent: str | None = None,
    blob: bytes = b"state",
    **metadata: Any,
) -> GraphCheckpoint:
    return GraphCheckpoint(
        place=place(thread, checkpoint, ns),
        parent_checkpoint_id=None if parent is None else CheckpointId(parent),
        metadata=json.dumps(metadata),
        type="msgpack",
        blob=blob,
    )


def write(task: str = "task", index: int = 0, value: bytes = b"value") -> PendingWrite:
    return PendingWrite(
        task_id=task, index=index, channel="messages", type="msgpack", value=value, task_path="~a"
    )
