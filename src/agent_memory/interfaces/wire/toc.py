"""The table of contents on the wire: protobuf, and JSON with the same names."""

from typing import Any

from agent_memory.features.toc.model.highlights import HighlightKind, Work
from agent_memory.features.toc.model.toc import Grip, TocNode
from agent_memory.features.toc.services.contents import Expansion, GrippedSegment, TocBranch
from agent_memory.interfaces.wire.events import event_json, event_to_proto
from agent_memory.proto import memory_pb2 as pb


def node_to_proto(node: TocNode) -> pb.TocNode:
    return pb.TocNode(**{**node_json(node), "level": int(node.level)})


def expansion_to_proto(expansion: Expansion) -> pb.ExpandGripResponse:
    return pb.ExpandGripResponse(
        grip=None if expansion.grip is None else pb.Grip(**grip_json(expansion.grip)),
        events_before=[event_to_proto(event) for event in expansion.before],
        excerpt_events=[event_to_proto(event) for event in expansion.excerpt],
        events_after=[event_to_proto(event) for event in expansion.after],
    )


def grip_json(grip: Grip) -> dict[str, Any]:
    return {
        "grip_id": grip.grip_id,
        "excerpt": grip.excerpt,
        "event_id_start": grip.event_id_start,
        "event_id_end": grip.event_id_end,
        "timestamp_ms": grip.at_ms,
        "source": grip.source,
        "toc_node_id": grip.node_id,
    }


def node_json(node: TocNode) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "level": node.level.name.lower(),
        "title": node.title,
        "summary": node.summary,
        "bullets": [
            {
                "text": bullet.text,
                "grip_ids": list(bullet.grip_ids),
                "kind": format_kind(bullet.kind),
            }
            for bullet in node.bullets
        ],
        "keywords": list(node.keywords),
        "child_node_ids": list(node.child_ids),
        "start_time_ms": node.start_ms,
        "end_time_ms": node.end_ms,
        "version": node.version,
        "session_id": node.session,
        "project": node.project,
        "work": work_json(node.work),
    }


def work_json(work: Work) -> dict[str, Any]:
    return {
        "sessions": work.sessions,
        "prompts": work.prompts,
        "commits": work.commits,
        "seconds": work.seconds,
        "files": list(work.files),
    }


def format_kind(kind: HighlightKind) -> str:
    return kind.name.lower()


def parse_kind(name: str) -> HighlightKind:
    """Return the kind of this name; one that only a newer daemon knows is a note."""
    return HighlightKind.__members__.get(name.upper(), HighlightKind.NOTE)


def version_json(node: TocNode) -> dict[str, Any]:
    """Render a version of a node with the time it was written, which protobuf does not have."""
    return {**node_json(node), "created_at_ms": node.created_ms}


def branch_json(branch: TocBranch) -> dict[str, Any]:
    return {**node_json(branch.node), "children": [branch_json(child) for child in branch.branches]}


def segment_json(segment: GrippedSegment) -> dict[str, Any]:
    return {**node_json(segment.node), "grips": [grip_json(grip) for grip in segment.grips]}


def expansion_json(expansion: Expansion) -> dict[str, Any]:
    return {
        "grip": None if expansion.grip is None else grip_json(expansion.grip),
        "events_before": [event_json(event) for event in expansion.before],
        "excerpt_events": [event_json(event) for event in expansion.excerpt],
        "events_after": [event_json(event) for event in expansion.after],
    }
