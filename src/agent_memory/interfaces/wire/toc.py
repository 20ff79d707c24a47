"""The table of contents on the wire: protobuf, and JSON with the same names."""

from typing import Any

from agent_memory.features.toc.model.toc import Grip, TocNode
from agent_memory.features.toc.services.contents import Expansion, TocBranch
from agent_memory.interfaces.wire.events import event_json, event_to_proto
from agent_memory.proto import memory_pb2 as pb


def node_to_proto(node: TocNode) -> pb.TocNode:
    return pb.TocNode(
        node_id=node.node_id,
        level=int(node.level),  # type: ignore[arg-type]
        title=node.title,
        summary=node.summary,
        bullets=[
            pb.TocBullet(text=bullet.text, grip_ids=bullet.grip_ids) for bullet in node.bullets
        ],
        keywords=node.keywords,
        child_node_ids=node.child_ids,
        start_time_ms=node.start_ms,
        end_time_ms=node.end_ms,
        version=node.version,
    )


def expansion_to_proto(expansion: Expansion) -> pb.ExpandGripResponse:
    return pb.ExpandGripResponse(
        grip=None if expansion.grip is None else grip_to_proto(expansion.grip),
        events_before=[event_to_proto(event) for event in expansion.before],
        excerpt_events=[event_to_proto(event) for event in expansion.excerpt],
        events_after=[event_to_proto(event) for event in expansion.after],
    )


def grip_to_proto(grip: Grip) -> pb.Grip:
    return pb.Grip(
        grip_id=grip.grip_id,
        excerpt=grip.excerpt,
        event_id_start=grip.event_id_start,
        event_id_end=grip.event_id_end,
        timestamp_ms=grip.at_ms,
        source=grip.source,
        toc_node_id=grip.node_id,
    )


def node_json(node: TocNode) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "level": node.level.name.lower(),
        "title": node.title,
        "summary": node.summary,
        "bullets": [
            {"text": bullet.text, "grip_ids": list(bullet.grip_ids)} for bullet in node.bullets
        ],
        "keywords": list(node.keywords),
        "child_node_ids": list(node.child_ids),
        "start_time_ms": node.start_ms,
        "end_time_ms": node.end_ms,
        "version": node.version,
    }


def version_json(node: TocNode) -> dict[str, Any]:
    """Render a version of a node with the time it was written, which protobuf does not have."""
    return {**node_json(node), "created_at_ms": node.created_ms}


def branch_json(branch: TocBranch) -> dict[str, Any]:
    return {**node_json(branch.node), "children": [branch_json(child) for child in branch.branches]}


def expansion_json(expansion: Expansion) -> dict[str, Any]:
    grip = expansion.grip
    return {
        "grip": None
        if grip is None
        else {
            "grip_id": grip.grip_id,
            "excerpt": grip.excerpt,
            "event_id_start": grip.event_id_start,
            "event_id_end": grip.event_id_end,
            "timestamp_ms": grip.at_ms,
            "source": grip.source,
            "toc_node_id": grip.node_id,
        },
        "events_before": [event_json(event) for event in expansion.before],
        "excerpt_events": [event_json(event) for event in expansion.excerpt],
        "events_after": [event_json(event) for event in expansion.after],
    }
