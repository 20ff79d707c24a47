"""Contents: reading the table of contents, from the years down to the events of a bullet."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import islice

from agent_memory.features.log.model.events import Event, check_session_id
from agent_memory.features.log.ports import EventLog
from agent_memory.features.toc.model import periods, work_figures
from agent_memory.features.toc.model.periods import Level, Period
from agent_memory.features.toc.model.toc import Bullet, Grip, GripId, TocNode, to_child
from agent_memory.features.toc.ports import TocReader
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId

DEFAULT_CHILDREN = 20
MAX_CHILDREN = 100
DEFAULT_CONTEXT = 3
MAX_CONTEXT = 100
_YEARS = 10_000
_HISTORY = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """Some children of a node, by time. `next` is the offset of the next ones."""

    nodes: tuple[TocNode, ...]
    next: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """A grip with the events of its excerpt, and those around them in the same session."""

    grip: Grip | None = None
    before: tuple[Event, ...] = ()
    excerpt: tuple[Event, ...] = ()
    after: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrippedSegment:
    """A segment with the grips of its bullets."""

    node: TocNode
    grips: tuple[Grip, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TocBranch:
    """A node with its descendants."""

    node: TocNode
    branches: tuple["TocBranch", ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class _TreeScope:
    """The part of the table to return: days, a project, and the lowest level."""

    start: date | None
    end: date | None
    project: str
    depth: Level


@dataclass(frozen=True, slots=True)
class Contents:
    log: EventLog
    toc: TocReader

    def list_years(self) -> list[TocNode]:
        """Return the years, newest first."""
        names = self.toc.list_ids("toc:year:", after=None, limit=_YEARS)
        return [node for node in self.toc.get_nodes(names[::-1]) if node is not None]

    def get_node(self, node_id: str) -> TocNode | None:
        """Return a node by its id, in either spelling, or None if there is none."""
        name = periods.canonicalize(_require("node_id", node_id))
        return None if name is None else self.toc.get_nodes([name])[0]

    def version(self, node_id: str, version: int) -> TocNode | None:
        name = periods.canonicalize(_require("node_id", node_id))
        return None if name is None else self.toc.get_version(name, version)

    def history(self, node_id: str) -> list[TocNode]:
        """Return the present version and the kept ones, newest first."""
        name = periods.canonicalize(_require("node_id", node_id))
        if name is None:
            return []
        kept = self.toc.list_versions(name, limit=_HISTORY)
        (present,) = self.toc.get_nodes([name])
        if present is None or (kept and kept[0].version == present.version):
            return kept
        return [present, *kept]

    def list_children(self, parent_id: str, *, limit: int = 0, offset: int = 0) -> Children:
        for name, number in (("limit", limit), ("offset", offset)):
            if number < 0:
                raise InvalidInput(f"{name} is {number}; it must not be negative")
        parent = self.get_node(_require("parent_id", parent_id))
        if parent is None:
            return Children(nodes=())
        size = min(limit or DEFAULT_CHILDREN, MAX_CHILDREN)
        names = parent.child_ids[offset : offset + size]
        nodes = tuple(node for node in self.toc.get_nodes(names) if node is not None)
        end = offset + size
        return Children(nodes=nodes, next=end if end < len(parent.child_ids) else None)

    def list_segments(
        self, session_id: str, start: int, end: int, *, limit: int
    ) -> list[GrippedSegment]:
        """Return the segments of a session that have a part in start <= time <= end, by time."""
        check_session_id(session_id)
        name, place = SessionId(session_id), Position(at_ms=Millis(start), event_id=EventId(""))
        earlier = self.toc.list_segments(name, place, limit=1, reverse=True)
        found = [
            segment.node_id
            for segment in (*earlier, *self.toc.list_segments(name, place, limit=limit))
            if segment.first.at_ms <= end and segment.last.at_ms >= start
        ]
        nodes = [node for node in self.toc.get_nodes(found[:limit]) if node is not None]
        grip_ids = [sorted(node.grip_ids()) for node in nodes]
        grips = iter(self.toc.get_grips([each for own in grip_ids for each in own]))
        return [
            GrippedSegment(node=node, grips=tuple(filter(None, islice(grips, len(own)))))
            for node, own in zip(nodes, grip_ids, strict=True)
        ]

    def expand(
        self, grip_id: str, *, before: int | None = None, after: int | None = None
    ) -> Expansion:
        """Return the conversation around a grip; None means the default number of events."""
        (grip,) = self.toc.get_grips([_require("grip_id", grip_id)])
        around = [
            _context(name, n) for name, n in (("events_before", before), ("events_after", after))
        ]
        if grip is None:
            return Expansion()
        first, last = self.log.get(grip.event_id_start), self.log.get(grip.event_id_end)
        if first is None or last is None:
            return Expansion(grip=grip)
        return Expansion(
            grip=grip,
            before=self._near(first, around[0], reverse=True)[::-1],
            excerpt=self._between(first, last),
            after=self._near(last, around[1]),
        )

    def tree(
        self,
        start: date | None = None,
        end: date | None = None,
        *,
        project: str = "",
        depth: Level = Level.SEGMENT,
    ) -> list[TocBranch]:
        """Return the whole table, or the days from `start` to `end`, a project, or down to a level.

        Of a project, a period has the figures of that project's segments, the project's highlights
        as bullets, and no summary: that is about all projects.
        """
        if start is not None and end is not None and start > end:
            raise InvalidInput(f"the first day ({start}) is after the last ({end}): swap them")
        scope = _TreeScope(start=start, end=end, project=project, depth=depth)
        branches = self._grow(self.list_years()[::-1], scope)
        return [_prune(branch, depth) for branch in branches]

    def _grow(self, nodes: Iterable[TocNode | None], scope: _TreeScope) -> Iterator[TocBranch]:
        """Select by days: the days of a week may be outside the week's month and year."""
        for node in nodes:
            if node is None:
                continue
            if node.level is Level.SEGMENT:
                if scope.project in ("", node.project):
                    yield TocBranch(node=node)
                continue
            is_day = node.level is Level.DAY
            if is_day and not _meets(node, scope.start, scope.end):
                continue
            is_bottom = is_day and scope.depth <= Level.DAY and not scope.project
            children = [] if is_bottom else self.toc.get_nodes(node.child_ids)
            below = tuple(self._grow(children, scope))
            if scope.project and below:
                yield TocBranch(node=_narrow(node, below, scope.project), branches=below)
            elif below or (is_day and not scope.project):
                yield TocBranch(node=node, branches=below)

    def _near(self, event: Event, count: int, *, reverse: bool = False) -> tuple[Event, ...]:
        if not count:
            return ()
        at = event.position
        return self.log.list_session(
            event.session_id, after=at, limit=count, reverse=reverse
        ).events

    def _between(self, first: Event, last: Event) -> tuple[Event, ...]:
        events = [first]
        while events[-1].event_id != last.event_id:
            following = self._near(events[-1], MAX_CONTEXT)
            if not following:
                break
            for event in following:
                events.append(event)
                if event.event_id == last.event_id:
                    break
        return tuple(events)


def _context(name: str, count: int | None) -> int:
    if count is None:
        return DEFAULT_CONTEXT
    if count < 0:
        raise InvalidInput(f"{name} is {count}; it must not be negative")
    return min(count, MAX_CONTEXT)


def _require(name: str, value: str) -> str:
    if not value:
        raise InvalidInput(f"{name} is required and must not be empty")
    return value


def _meets(node: TocNode, start: date | None, end: date | None) -> bool:
    """Return whether the node's time overlaps these days."""
    if start is not None and node.end_ms < Period(level=Level.DAY, first=start).start_ms:
        return False
    return end is None or node.start_ms <= Period(level=Level.DAY, first=end).end_ms


def _prune(branch: TocBranch, depth: Level) -> TocBranch:
    """Return a branch without what is below a level."""
    if branch.node.level >= depth:
        return replace(branch, branches=())
    return replace(branch, branches=tuple(_prune(child, depth) for child in branch.branches))


def _narrow(node: TocNode, below: Sequence[TocBranch], project: str) -> TocNode:
    """Return the part of a period that is about a project."""
    figures = (
        work_figures.measure_day([to_child(branch.node) for branch in below])
        if node.level is Level.DAY
        else work_figures.add_days([branch.node.work for branch in below])
    )
    own = [each for each in node.highlights if each.project == project]
    return replace(
        node,
        summary="",
        bullets=tuple(
            Bullet(
                text=each.text,
                grip_ids=tuple(GripId(grip) for grip in each.grip_ids),
                weight=each.weight,
                kind=each.kind,
                reported=each.reported,
            )
            for each in own
        ),
        highlights=tuple(own),
        child_ids=tuple(branch.node.node_id for branch in below),
        work=figures,
    )
