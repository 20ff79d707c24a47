"""What graph checkpoints need from storage."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointInfo,
    GraphCheckpoint,
    PendingWrite,
    RunId,
    ThreadId,
    WriteKey,
    WritesPage,
)
from agent_memory.features.checkpoints.model.graphs import CheckpointKey as GraphPlace
from agent_memory.features.checkpoints.model.graphs import CheckpointScope as GraphScope


class GraphCheckpoints(Protocol):
    """The checkpoints of graphs, and what was written after each."""

    def put(self, checkpoint: GraphCheckpoint, /) -> "Future[None]":
        """Settled once durable. One that is there already is replaced."""
        ...

    def put_writes(self, place: GraphPlace, writes: Sequence[PendingWrite], /) -> "Future[None]":
        """Settled once durable, all of them or none. The checkpoint may be yet to come."""
        ...

    def get(
        self, thread_id: ThreadId, checkpoint_ns: str, checkpoint_id: CheckpointId | None, /
    ) -> GraphCheckpoint | None:
        """This one, or the latest of its thread and namespace."""
        ...

    def list_writes(
        self, place: GraphPlace, /, *, after: WriteKey | None, max_bytes: int, at_least_one: bool
    ) -> WritesPage:
        """By task and index, values of this many bytes at most together."""
        ...

    def list_infos(
        self,
        scope: GraphScope,
        /,
        *,
        after: GraphPlace | None,
        before: CheckpointId | None,
        limit: int,
        offset: int = 0,
    ) -> list[CheckpointInfo]:
        """Newest first: those that follow `after`, and have ids less than `before`."""
        ...

    def count(self, thread_id: ThreadId | None, /) -> int: ...


class GraphThreads(Protocol):
    """What happens to whole threads of graphs, and to many checkpoints at once. What is a few
    thousand checkpoints or a few MiB happens at once, more than that in several steps."""

    def remove_thread(self, thread_id: ThreadId, /) -> None: ...

    def remove(self, places: Sequence[GraphPlace], /) -> None:
        """With what was written after them. Those that are gone are passed by."""
        ...

    def find_by_id(self, checkpoint_id: CheckpointId, /) -> list[GraphPlace]:
        """Wherever there is a checkpoint of this id: copies have the same."""
        ...

    def find_by_run(self, run_id: RunId, /) -> list[GraphPlace]: ...

    def copy(self, source: ThreadId, target: ThreadId, /) -> None:
        """The oldest first; what the target has already stays."""
        ...
