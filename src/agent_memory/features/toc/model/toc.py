"""The table of contents: nodes with bullets, and grips from a bullet to its events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NewType

from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.editions import EditionRecord
from agent_memory.features.toc.model.highlights import (
    NEVER,
    NO_WORK,
    Highlight,
    HighlightKind,
    Work,
)
from agent_memory.features.toc.model.periods import Level, NodeId, Period
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.summaries import ChildSummary, Digest, Summary
from agent_memory.kernel import ulids
from agent_memory.kernel.ids import EventId, Millis

GripId = NewType("GripId", str)
SUBAGENT = 0.6  # of the weight of what a subagent found: its main session says what came of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullet:
    """A bullet of a node. `weight` ranks it when a parent selects among its children's.

    `reported` is True if a final report says it, `corrects` if it contradicts what was said before.
    """

    text: str
    grip_ids: tuple[GripId, ...]
    weight: float
    kind: HighlightKind = HighlightKind.NOTE
    reported: bool = False
    corrects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grip:
    """A verbatim excerpt, and the events that contain it."""

    grip_id: GripId
    excerpt: str
    event_id_start: EventId
    event_id_end: EventId
    at_ms: Millis
    source: str
    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class TocNode:
    """An entry of the table of contents. `version` counts its rewrites.

    `session` and `project` are those of a segment. `highlights` are those of a period; a segment's
    are its bullets.
    """

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
    session: str = ""
    project: str = ""
    highlights: tuple[Highlight, ...] = ()
    work: Work = NO_WORK

    def same_content(self, other: "TocNode | None") -> bool:
        """Return whether the nodes differ at most in version and creation time."""
        return other is not None and self == replace(
            other, version=self.version, created_ms=self.created_ms
        )

    def grip_ids(self) -> frozenset[GripId]:
        return frozenset(grip for bullet in self.bullets for grip in bullet.grip_ids)


def build_segment_node(
    segment: Segment, summary: Summary, *, project: str = "", work: Work = NO_WORK
) -> tuple[TocNode, list[Grip]]:
    """Build the node of a segment, and the grips of its bullets."""
    grips: dict[GripId, Grip] = {}
    bullets: list[Bullet] = []
    for point in summary.points:
        grip_ids: list[GripId] = []
        for support in point.support:
            ulid = ulids.derive_ulid(support.at_ms, support.event_id, support.excerpt)
            grip_id = GripId(f"grip:{support.at_ms:013}:{ulid}")
            grip_ids.append(grip_id)
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
            Bullet(
                text=point.text,
                grip_ids=tuple(dict.fromkeys(grip_ids)),
                weight=point.weight,
                kind=point.kind,
                reported=point.reported,
                corrects=point.corrects,
            )
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
        session=segment.session_id,
        project=project,
        work=work,
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
                kind=bullet.kind,
            )
            for bullet in digest.bullets
        ),
        keywords=digest.keywords,
        child_ids=tuple(child.node_id for child in children),
        start_ms=period.start_ms,
        end_ms=period.end_ms,
        highlights=digest.highlights,
        work=digest.work,
    )


def to_child(node: TocNode) -> ChildSummary:
    """Return the node as input for its parent's summary."""
    return ChildSummary(
        title=node.title,
        text=node.summary,
        highlights=node.highlights or _to_highlights(node),
        keywords=node.keywords,
        session=get_main_session(node.session),
        project=node.project,
        start_ms=node.start_ms,
        end_ms=node.end_ms,
        work=node.work,
    )


def _to_highlights(node: TocNode) -> tuple[Highlight, ...]:
    session = get_main_session(node.session)
    factor = 1.0 if session == node.session else SUBAGENT
    return tuple(
        Highlight(
            text=bullet.text,
            grip_ids=bullet.grip_ids,
            weight=round(bullet.weight * factor, 4),
            kind=bullet.kind,
            at_ms=_get_time(bullet.grip_ids, node.start_ms),
            session=session,
            project=node.project,
            reported=bullet.reported,
            corrects=bullet.corrects,
        )
        for bullet in node.bullets
    )


def _get_time(grip_ids: Sequence[str], otherwise: Millis) -> Millis:
    """Return the time of the latest grip, which is in its id."""
    times = [int(grip_id.split(":")[1]) for grip_id in grip_ids]
    return Millis(max(times)) if times else otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWrite:
    """A node to store. If `kept`, this version stays readable after a later one replaces it."""

    node: TocNode
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TocChange:
    """A change of the table of contents, applied whole or not at all."""

    nodes: tuple[NodeWrite, ...] = ()
    gone: tuple[NodeId, ...] = ()  # removed nodes; their kept versions stay
    grips: tuple[Grip, ...] = ()
    stale_grips: tuple[GripId, ...] = ()  # removed once no node can refer to them
    segments: tuple[Segment, ...] = ()
    sealed: frozenset[Segment] = frozenset()  # those of `segments` that are closed
    lost_segments: tuple[Segment, ...] = ()
    redrafted: tuple[Segment, ...] = ()  # only their nodes change, not the segments themselves
    unfinished: frozenset[Segment] = frozenset()  # those of `segments` to summarize again later
    dirty: frozenset[NodeId] = frozenset()
    clean: frozenset[NodeId] = frozenset()
    cursor: int | None = None
    edition: EditionRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Versions and grips to remove from the table of contents for good."""

    versions: tuple[tuple[NodeId, int], ...] = ()
    grips: tuple[GripId, ...] = ()
    stale_grips: tuple[GripId, ...] = ()  # no node has them; removed once nothing is dirty
    unpinned: tuple[GripId, ...] = ()  # no kept version of a period has them
