"""Sessions and days of the journal as JSON."""

from typing import Any

from agent_memory.features.index.model import documents
from agent_memory.features.toc.model.highlights import Highlight
from agent_memory.features.toc.model.journal_entries import DayEntry, SessionEntry
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.interfaces.wire.toc import work_json


def day_json(entry: DayEntry) -> dict[str, Any]:
    return {
        "date": entry.day.isoformat(),
        "start_time_ms": entry.start_ms,
        "end_time_ms": entry.end_ms,
        "summary": entry.summary,
        "work": work_json(entry.work),
        "sessions": [session_json(session) for session in entry.sessions],
    }


def session_json(entry: SessionEntry) -> dict[str, Any]:
    return {
        "session_id": entry.session_id,
        "short_id": entry.short_id,
        "uri": documents.format_uri(documents.SESSIONS, entry.session_id),
        "project": entry.project,
        "agent": entry.agent,
        "title": entry.title,
        "start_time_ms": entry.start_ms,
        "end_time_ms": entry.end_ms,
        "active": entry.active,
        "work": work_json(entry.work),
        "highlights": [highlight_json(highlight) for highlight in entry.highlights],
        "segments": [outline_json(node) for node in entry.segments],
    }


def highlight_json(highlight: Highlight) -> dict[str, Any]:
    return {
        "kind": highlight.kind.word,
        "text": highlight.text,
        "timestamp_ms": highlight.at_ms,
        "grip_ids": list(highlight.grip_ids),
    }


def outline_json(node: TocNode) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "uri": documents.format_uri(documents.CONTENTS, node.node_id),
        "title": node.title,
        "start_time_ms": node.start_ms,
        "end_time_ms": node.end_ms,
    }
