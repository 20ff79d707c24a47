"""Opened records as JSON, for commands and MCP."""

from typing import Any, assert_never

import msgspec

from agent_memory.features.index.model import documents
from agent_memory.features.knowledge.operations import FactAnswer, FormerAnswer
from agent_memory.features.recall.model.records import OpenedRecord
from agent_memory.features.recall.services.opening import (
    Opened,
    OpenedEvent,
    OpenedFact,
    OpenedGrip,
    OpenedNode,
    OpenedSession,
)
from agent_memory.interfaces.wire.events import event_json
from agent_memory.interfaces.wire.journal import highlight_json, outline_json
from agent_memory.interfaces.wire.toc import expansion_json, node_json, work_json


def render_opened(opened: Opened) -> dict[str, Any]:
    match opened:
        case OpenedEvent():
            return {
                "kind": "event",
                "uri": opened.uri,
                "event": event_json(opened.event),
                "before": [event_json(event) for event in opened.before],
                "after": [event_json(event) for event in opened.after],
            }
        case OpenedNode(node=node):
            return {
                "kind": node.level.name.lower(),
                "uri": opened.uri,
                **node_json(node),
                "children": [outline_json(child) for child in opened.children],
                "grips": [
                    {"grip_id": each, "uri": documents.format_uri(documents.GRIPS, each)}
                    for each in sorted(node.grip_ids())
                ],
            }
        case OpenedGrip():
            return {"kind": "grip", "uri": opened.uri, **expansion_json(opened.expansion)}
        case OpenedSession():
            return {
                "kind": "session",
                "uri": opened.uri,
                "session_id": opened.session_id,
                "project": opened.project or None,
                "agent": opened.agent or None,
                "start_time_ms": opened.start_ms,
                "end_time_ms": opened.end_ms,
                "events": opened.events,
                "title": None if opened.entry is None else opened.entry.title,
                "work": None if opened.entry is None else work_json(opened.entry.work),
                "highlights": []
                if opened.entry is None
                else [highlight_json(each) for each in opened.entry.highlights],
                "segments": [outline_json(node) for node in opened.segments],
                "first_prompt": None if opened.prompt is None else event_json(opened.prompt),
                "last_answer": None if opened.answer is None else event_json(opened.answer),
            }
        case OpenedFact():
            return {
                "kind": "fact",
                "uri": opened.uri,
                **msgspec.to_builtins(FactAnswer.from_fact(opened.fact)),
                "history": msgspec.to_builtins(
                    [FormerAnswer.from_former(each) for each in opened.history]
                ),
            }
        case OpenedRecord():
            return {
                "kind": opened.kind,
                "uri": opened.uri,
                "text": opened.title,
                "timestamp_ms": opened.at_ms,
                "project": opened.project,
                "session_id": opened.session_id,
                **opened.details,
                "excerpt_events": [event_json(event) for event in opened.words],
            }
        case _:
            assert_never(opened)
