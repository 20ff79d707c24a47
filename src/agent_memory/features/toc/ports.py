"""What the table of contents needs from storage and from a summarizer."""

from collections.abc import Sequence
from typing import Protocol

from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.summaries import Child, Dialogue, Digest, Summary
from agent_memory.features.toc.model.toc import Change, Erasure, Grip, TocNode
from agent_memory.kernel.ids import Position, SessionId


class TocReader(Protocol):
    """The table of contents as it is, and as it was."""

    def nodes(self, node_ids: Sequence[NodeId], /) -> list[TocNode | None]: ...

    def below(self, prefix: str, /, *, after: NodeId | None, limit: int) -> list[NodeId]:
        """The ids of present nodes that start so, in order: years, or the segments of a day."""
        ...

    def version(self, node_id: NodeId, version: int, /) -> TocNode | None: ...

    def history(self, node_id: NodeId, /, *, limit: int) -> list[TocNode]:
        """The kept versions, newest first."""
        ...

    def grips(self, grip_ids: Sequence[str], /) -> list[Grip | None]: ...

    def segments(
        self, session_id: SessionId, start: Position, /, *, limit: int, reverse: bool = False
    ) -> list[Segment]:
        """Those that begin at `start` or later; reversed, at `start` or earlier."""
        ...


class TocWriter(Protocol):
    """What building the table of contents needs to know and to store."""

    def cursor(self) -> int:
        """The outbox entry up to which the segments are cut."""
        ...

    def open_segments(self, *, limit: int) -> list[Segment]: ...

    def unfinished_segments(self, *, limit: int) -> list[Segment]:
        """Closed, but their summarizer failed and another has stepped in."""
        ...

    def dirty(self, level: Level, /, *, limit: int) -> list[NodeId]:
        """Nodes whose children have changed."""
        ...

    def commit(self, change: Change, /) -> None: ...

    def collect(self) -> int:
        """Remove the stale grips; call it when nothing is dirty. How many."""
        ...


class TocEraser(Protocol):
    """Removes what the table of contents otherwise keeps."""

    def grips_of(self, at: Position, /) -> list[Grip]:
        """All that lead to this event, held by a node or not."""
        ...

    def erase(self, erasure: Erasure, /) -> None: ...


class Summarizer(Protocol):
    """Puts conversations and periods in short."""

    name: str

    def summarize(self, conversations: Sequence[Dialogue], /) -> list[Summary]: ...

    def digest(self, periods: Sequence[Sequence[Child]], /) -> list[Digest]: ...
