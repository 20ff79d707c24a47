"""The table of contents: nodes with bullets, and grips that lead from a bullet to its events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NewType

from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.periods import Level, NodeId, Period
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.summaries import ChildBullet, ChildSummary, Digest, Summary
from agent_memory.kernel import ulids
from agent_memory.kernel.ids import EventId, Millis

GripId = NewType("GripId", str)
NEVER = Millis(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullet:
    """`weight` ranks it when a parent chooses among its children's bullets."""

    text: str
    grip_ids: tuple[GripId, ...]
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Grip:
    """An excerpt, verbatim, and the events in which it stands."""

    grip_id: GripId
    excerpt: str
    event_id_start: EventId
    event_id_end: EventId
    at_ms: Millis
    source: str
    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class TocNode:
    """One entry of the table of contents. `version` counts its rewrites."""

    node_id: NodeId
    level: Level
    title: str
    summary: str
    bullets: tuple[Bullet, ...]
    keywords: tuple[str, ...]
    child_ids: tuple[NodeId, ...]
    start_ms: Millis
    end_ms: Millis
    version: int = 0
    created_ms: Millis = NEVER

    def same_content(self, other: "TocNode | None") -> bool:
        """Whether nothing but version and time of writing differs."""
        return other is not None and self == replace(
            other, version=self.version, created_ms=self.created_ms
        )

    def grip_ids(self) -> frozenset[GripId]:
        return frozenset(grip for bullet in self.bullets for grip in bullet.grip_ids)


def build_segment_node(segment: Segment, summary: Summary) -> tuple[TocNode, list[Grip]]:
    """The node of a segment, and the grips that its bullets hold."""
    grips: dict[GripId, Grip] = {}
    bullets: list[Bullet] = []
    for point in summary.points:
        held: list[GripId] = []
        for support in point.support:
            ulid = ulids.derive_ulid(support.at_ms, support.event_id, support.excerpt)
            grip_id = GripId(f"grip:{support.at_ms:013}:{ulid}")
            held.append(grip_id)
            grips[grip_id] = Grip(
                grip_id=grip_id,
                excerpt=support.excerpt,
                event_id_start=support.event_id,
                event_id_end=support.event_id,
                at_ms=support.at_ms,
                source=summary.source,
                node_id=segment.node_id,
            )
        bullets.append(
            Bullet(text=point.text, grip_ids=tuple(dict.fromkeys(held)), weight=point.weight)
        )
    node = TocNode(
        node_id=segment.node_id,
        level=Level.SEGMENT,
        title=summary.title or periods.segment_title(segment.first.at_ms),
        summary=summary.text,
        bullets=tuple(bullets),
        keywords=summary.keywords,
        child_ids=(),
        start_ms=segment.first.at_ms,
        end_ms=segment.last.at_ms,
    )
    return node, list(grips.values())


def build_period_node(period: Period, children: Sequence[TocNode], digest: Digest) -> TocNode:
    return TocNode(
        node_id=period.node_id,
        level=period.level,
        title=period.title,
        summary=digest.text,
        bullets=tuple(
            Bullet(
                text=bullet.text,
                grip_ids=tuple(GripId(grip) for grip in bullet.grip_ids),
                weight=bullet.weight,
            )
            for bullet in digest.bullets
        ),
        keywords=digest.keywords,
        child_ids=tuple(child.node_id for child in children),
        start_ms=period.start_ms,
        end_ms=period.end_ms,
    )


def to_child(node: TocNode) -> ChildSummary:
    """What a parent's summary is made from."""
    return ChildSummary(
        title=node.title,
        text=node.summary,
        bullets=tuple(
            ChildBullet(text=bullet.text, weight=bullet.weight, grip_ids=bullet.grip_ids)
            for bullet in node.bullets
        ),
        keywords=node.keywords,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWrite:
    """A node to be stored. `kept`: this version stays readable when a later one replaces it."""

    node: TocNode
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TocChange:
    """What one step does to the table of contents, all of it or nothing."""

    nodes: tuple[NodeWrite, ...] = ()
    gone: tuple[NodeId, ...] = ()  # leave the table; their kept versions stay
    grips: tuple[Grip, ...] = ()
    stale_grips: tuple[GripId, ...] = ()  # removed once no node can refer to them
    segments: tuple[Segment, ...] = ()
    sealed: frozenset[Segment] = frozenset()  # those of `segments` that are closed
    lost_segments: tuple[Segment, ...] = ()
    unfinished: frozenset[Segment] = frozenset()  # of `segments`: to be summarized again later
    dirty: frozenset[NodeId] = frozenset()
    clean: frozenset[NodeId] = frozenset()
    cursor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What leaves the table of contents for good."""

    versions: tuple[tuple[NodeId, int], ...] = ()
    grips: tuple[GripId, ...] = ()
    stale_grips: tuple[GripId, ...] = ()  # held by nobody any more; removed once nothing is dirty
    unpinned: tuple[GripId, ...] = ()  # of which no kept version of a period is left
