"""The table of contents of a team server.

A scoped caller sees a segment if they see every event that its summary may be made from. Days and
longer periods tell of all projects, so they see none of these.
"""

from collections.abc import Iterable, Sequence

from agent_memory.features.log.ports import EventLog
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.toc import Grip, TocNode
from agent_memory.features.toc.ports import TocReader
from agent_memory.kernel import access
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId

_PAGE = 200
_MOST_EVENTS = 2_000  # that are checked: a segment of more is not shown


class GuardedToc:
    """A TocReader."""

    def __init__(self, toc: TocReader, log: EventLog, overlap_ms: int) -> None:
        """`log` must show each caller only their events. `overlap_ms` is how long before a segment
        the context of its summary may begin."""
        self._toc = toc
        self._log = log
        self._overlap_ms = overlap_ms

    def get_nodes(self, node_ids: Sequence[NodeId], /) -> list[TocNode | None]:
        return self._hide(self._toc.get_nodes(node_ids))

    def list_ids(
        self, prefix: str, /, *, after: str | None, limit: int, reverse: bool = False
    ) -> list[NodeId]:
        return access.take_visible(
            lambda most: self._toc.list_ids(prefix, after=after, limit=most, reverse=reverse),
            lambda node_id: not _is_scoped() or self.get_nodes([node_id])[0] is not None,
            limit,
        )

    def get_version(self, node_id: NodeId, version: int, /) -> TocNode | None:
        return self._hide([self._toc.get_version(node_id, version)])[0]

    def list_versions(self, node_id: NodeId, /, *, limit: int) -> list[TocNode]:
        kept = self._hide(self._toc.list_versions(node_id, limit=limit))
        return [node for node in kept if node is not None]

    def get_grips(self, grip_ids: Sequence[str], /) -> list[Grip | None]:
        return [
            None if grip is None or not self._sees_grip(grip) else grip
            for grip in self._toc.get_grips(grip_ids)
        ]

    def list_grips(self, prefix: str, /, *, limit: int) -> list[Grip]:
        return access.take_visible(
            lambda most: self._toc.list_grips(prefix, limit=most), self._sees_grip, limit
        )

    def find_grips(self, at: Position, /) -> list[Grip]:
        return [grip for grip in self._toc.find_grips(at) if self._sees_grip(grip)]

    def list_segments(
        self, session_id: SessionId, start: Position, /, *, limit: int, reverse: bool = False
    ) -> list[Segment]:
        return access.take_visible(
            lambda most: self._toc.list_segments(session_id, start, limit=most, reverse=reverse),
            lambda each: self._sees_events(session_id, each.first.at_ms, each.last.at_ms),
            limit,
        )

    def _hide(self, nodes: Iterable[TocNode | None]) -> list[TocNode | None]:
        return [node if node is not None and self._sees_node(node) else None for node in nodes]

    def _sees_node(self, node: TocNode) -> bool:
        if not _is_scoped():
            return True
        if node.level is not Level.SEGMENT or not node.session:
            return False
        return self._sees_events(SessionId(node.session), node.start_ms, node.end_ms)

    def _sees_grip(self, grip: Grip) -> bool:
        if not _is_scoped():
            return True
        ends = {grip.event_id_start, grip.event_id_end}
        return all(self._log.get(EventId(event_id)) is not None for event_id in ends)

    def _sees_events(self, session_id: SessionId, start: Millis, end: Millis) -> bool:
        """Return whether the caller sees all events of a stretch of a session, and of the overlap
        before it."""
        caller = access.get_caller()
        if caller is None or not caller.is_scoped:
            return True
        begin = Millis(max(0, start - self._overlap_ms))
        after: Position | None = Position(at_ms=begin, event_id=EventId(""))
        read = 0
        while after is not None and read < _MOST_EVENTS:
            with access.lift_restrictions():
                page = self._log.list_session(session_id, after=after, limit=_PAGE)
            for event in page.events:
                if event.at_ms > end:
                    return read > 0
                if not caller.sees_project(event.metadata.get("project", "")):
                    return False
                read += 1
            after = page.next
        return after is None and read > 0


def _is_scoped() -> bool:
    caller = access.get_caller()
    return caller is not None and caller.is_scoped
