"""What the table of contents needs from storage and from a summarizer."""

from collections.abc import Sequence
from typing import Protocol

from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.summaries import ChildSummary, Dialogue, Digest, Summary
from agent_memory.features.toc.model.toc import Erasure, Grip, TocChange, TocNode
from agent_memory.kernel.ids import Position, SessionId


class TocReader(Protocol):
    """The table of contents as it is, and as it was."""

    def get_nodes(self, node_ids: Sequence[NodeId], /) -> list[TocNode | None]: ...

    def list_ids(self, prefix: str, /, *, after: NodeId | None, limit: int) -> list[NodeId]:
        """The ids of present nodes that start so, in order: years, or the segments of a day."""
        ...

    def get_version(self, node_id: NodeId, version: int, /) -> TocNode | None: ...

    def list_versions(self, node_id: NodeId, /, *, limit: int) -> list[TocNode]:
        """The kept versions, newest first."""
        ...

    def get_grips(self, grip_ids: Sequence[str], /) -> list[Grip | None]: ...

    def list_segments(
        self, session_id: SessionId, start: Position, /, *, limit: int, reverse: bool = False
    ) -> list[Segment]:
        """Those that begin at `start` or later; reversed, at `start` or earlier."""
        ...


class TocWriter(Protocol):
    """What building the table of contents needs to know and to store."""

    def cursor(self) -> int:
        """The outbox entry up to which the segments are cut."""
        ...

    def list_open_segments(self, *, limit: int) -> list[Segment]: ...

    def list_unfinished_segments(self, *, limit: int) -> list[Segment]:
        """Closed, but their summarizer failed and another has stepped in."""
        ...

    def list_dirty(self, level: Level, /, *, limit: int) -> list[NodeId]:
        """Nodes whose children have changed."""
        ...

    def commit(self, change: TocChange, /) -> None: ...

    def remove_stale_grips(self) -> int:
        """Remove the stale grips; call it when nothing is dirty. How many."""
        ...


class TocEraser(Protocol):
    """Removes what the table of contents otherwise keeps."""

    def find_grips(self, at: Position, /) -> list[Grip]:
        """All that lead to this event, held by a node or not."""
        ...

    def erase(self, erasure: Erasure, /) -> None: ...


class Summarizer(Protocol):
    """Puts conversations and periods in short."""

    name: str

    def summarize(self, conversations: Sequence[Dialogue], /) -> list[Summary]: ...

    def digest(self, periods: Sequence[Sequence[ChildSummary]], /) -> list[Digest]: ...
