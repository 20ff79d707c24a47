"""Ports of the table of contents: its storage and the summarizer."""

from collections.abc import Sequence
from typing import Protocol

from agent_memory.features.toc.model.editions import EditionRecord
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.summaries import Dialogue, Digest, PeriodSummary, Summary
from agent_memory.features.toc.model.toc import Erasure, Grip, TocChange, TocNode
from agent_memory.kernel.ids import Position, SessionId


class TocReader(Protocol):
    """Read access to the table of contents and its history."""

    def get_nodes(self, node_ids: Sequence[NodeId], /) -> list[TocNode | None]:
        """Return the present version of each node, in order, or None if it is not there."""
        ...

    def list_ids(
        self, prefix: str, /, *, after: str | None, limit: int, reverse: bool = False
    ) -> list[NodeId]:
        """Return the ids of present nodes with a prefix, in order: years, or a day's segments.

        If `reverse`, return those before `after`, last first.
        """
        ...

    def get_version(self, node_id: NodeId, version: int, /) -> TocNode | None:
        """Return a kept version or the present one, or None if there is no such version."""
        ...

    def list_versions(self, node_id: NodeId, /, *, limit: int) -> list[TocNode]:
        """Return the kept versions of a node, newest first."""
        ...

    def get_grips(self, grip_ids: Sequence[str], /) -> list[Grip | None]:
        """Return each grip, in order, or None if it is not there."""
        ...

    def list_grips(self, prefix: str, /, *, limit: int) -> list[Grip]:
        """Return the grips whose id has a prefix, in the order of their ids."""
        ...

    def find_grips(self, at: Position, /) -> list[Grip]:
        """Return all grips of this event, whether or not a node has them."""
        ...

    def list_segments(
        self, session_id: SessionId, start: Position, /, *, limit: int, reverse: bool = False
    ) -> list[Segment]:
        """Return a session's segments that begin at `start` or later, in order.

        If `reverse`, return those that begin at `start` or earlier, nearest first.
        """
        ...


class TocWriter(Protocol):
    """The state of building the table of contents, and its changes."""

    def cursor(self) -> int:
        """Return the number of the last outbox entry whose events are cut into segments."""
        ...

    def list_open_segments(self, *, limit: int) -> list[Segment]:
        """Return the segments that may still grow."""
        ...

    def list_unfinished_segments(self, *, limit: int) -> list[Segment]:
        """Return the closed segments that have only a fallback summary."""
        ...

    def list_dirty(self, level: Level, /, *, limit: int) -> list[NodeId]:
        """Return the nodes of a level whose children have changed."""
        ...

    def commit(self, change: TocChange, /) -> None:
        """Apply a change atomically; it is durable when this returns."""
        ...

    def remove_stale_grips(self) -> int:
        """Remove the stale grips and return their number. Call it only when nothing is dirty."""
        ...


class TocEditions(Protocol):
    """The record of the edition. A TocChange writes it."""

    def get_edition(self) -> EditionRecord | None:
        """Return the record, or None: the store is new, or older than editions."""
        ...

    def count_segments(self) -> int:
        """Count the nodes of segments."""
        ...


class TocEraser(Protocol):
    """Removal of kept versions and grips, for forgetting."""

    def erase(self, erasure: Erasure, /) -> None:
        """Apply an erasure atomically; it is durable when this returns."""
        ...


class Summarizer(Protocol):
    """A summarizer of conversations and periods.

    `name` is the `source` of summaries that it wrote itself. If a model fails, the summary of a
    fallback takes its place. Both methods raise WorkerFailed if the worker process fails.
    """

    name: str

    def summarize(self, conversations: Sequence[Dialogue], /) -> list[Summary]:
        """Summarize each conversation, in order."""
        ...

    def digest(self, periods: Sequence[PeriodSummary], /) -> list[Digest]:
        """Summarize each period, in order, from the summaries of its children."""
        ...
