"""Ports of graph checkpoints: storage."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointInfo,
    CheckpointKey,
    CheckpointScope,
    GraphCheckpoint,
    GraphRunId,
    PendingWrite,
    ThreadId,
    WriteKey,
    WritesPage,
)


class GraphCheckpoints(Protocol):
    """Graph checkpoints, and the writes after each."""

    def put(self, checkpoint: GraphCheckpoint, /) -> "Future[None]":
        """Store or replace a checkpoint. The future resolves once it is durable."""
        ...

    def put_writes(self, place: CheckpointKey, writes: Sequence[PendingWrite], /) -> "Future[None]":
        """Store all writes durably or none. The checkpoint may come later."""
        ...

    def get(
        self, thread_id: ThreadId, checkpoint_ns: str, checkpoint_id: CheckpointId | None, /
    ) -> GraphCheckpoint | None:
        """Return this one, or the latest of its thread and namespace."""
        ...

    def list_writes(
        self, place: CheckpointKey, /, *, after: WriteKey | None, max_bytes: int, at_least_one: bool
    ) -> WritesPage:
        """List by task and index, with at most this many bytes of values in all."""
        ...

    def list_infos(
        self,
        scope: CheckpointScope,
        /,
        *,
        after: CheckpointKey | None,
        before: CheckpointId | None,
        limit: int,
        offset: int = 0,
    ) -> list[CheckpointInfo]:
        """List newest first: those that follow `after`, and have ids less than `before`."""
        ...

    def count(self, thread_id: ThreadId | None, /) -> int: ...


class GraphThreads(Protocol):
    """Operations on whole threads and on many checkpoints. Up to a few thousand checkpoints or a
    few MiB they are atomic; beyond that they take several steps."""

    def count_by_thread(self) -> dict[ThreadId, tuple[int, CheckpointKey]]:
        """Return for each thread the number of its checkpoints, and the latest."""
        ...

    def remove_thread(self, thread_id: ThreadId, /) -> None: ...

    def remove(self, places: Sequence[CheckpointKey], /) -> None:
        """Remove them with the writes after them; skip those that are gone."""
        ...

    def find_by_id(self, checkpoint_id: CheckpointId, /) -> list[CheckpointKey]:
        """Return every checkpoint of this id: copies have the same."""
        ...

    def find_by_run(self, run_id: GraphRunId, /) -> list[CheckpointKey]: ...

    def copy(self, source: ThreadId, target: ThreadId, /) -> None:
        """Copy the oldest first; what the target already has stays."""
        ...
