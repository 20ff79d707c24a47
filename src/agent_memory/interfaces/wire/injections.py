"""The ledger of injections as JSON, for commands and REST."""

from collections.abc import Iterable, Mapping
from typing import Any

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document
from agent_memory.features.injections.model.injections import DayCount, LedgerEntry, LedgerPage
from agent_memory.features.injections.services.provenance import (
    DerivedRecords,
    Explanation,
    RecordOrigin,
)
from agent_memory.features.log.model.tokens import format_offset
from agent_memory.features.memories.model.memories import Memory
from agent_memory.interfaces.wire.events import event_json
from agent_memory.interfaces.wire.toc import grip_json, node_json


def ledger_page_json(page: LedgerPage, items: Mapping[str, Document]) -> dict[str, Any]:
    return {
        "injections": injections_json(page.entries, items),
        "continuation_token": format_offset(page.next),
    }


def injections_json(
    entries: Iterable[LedgerEntry], items: Mapping[str, Document]
) -> list[dict[str, Any]]:
    return [
        {**_entry_json(entry), "items": [_item_json(*pair) for pair in find_items(entry, items)]}
        for entry in entries
    ]


def find_items(entry: LedgerEntry, items: Mapping[str, Document]) -> list[tuple[str, Document]]:
    """Return the records of an entry that still exist, with their URIs."""
    return [(uri, items[uri]) for uri in entry.items if uri in items]


def get_title(document: Document) -> str:
    return document.title or document.text


def day_count_json(count: DayCount) -> dict[str, Any]:
    return {
        "date": count.day.isoformat(),
        "injections": count.injections,
        "tokens": count.tokens,
        "sessions": count.sessions,
    }


def explanation_json(explained: Explanation) -> dict[str, Any]:
    given = explained.given
    return {
        **_origin_json(explained.origin),
        "given": {
            "count": explained.count,
            "last_ms": given[0].at_ms if given else None,
            "injections": [_entry_json(entry) for entry in given],
        },
    }


def derivation_json(derived: DerivedRecords) -> dict[str, Any]:
    """Render what was made from an event."""
    segment = derived.segment
    return {
        "event": event_json(derived.event),
        "segment": None if segment is None else node_json(segment),
        "grips": [grip_json(grip) for grip in derived.grips],
        "memories": [
            {**_memory_json(each), "status": each.status.value} for each in derived.memories
        ],
        "facts": [
            {
                "id": fact.id,
                "uri": documents.format_uri(documents.FACTS, fact.id),
                "key": fact.key,
                "value": fact.value,
            }
            for fact in derived.facts
        ],
    }


def _origin_json(origin: RecordOrigin) -> dict[str, Any]:
    memory, successor = origin.memory, origin.superseded_by
    return {
        "kind": origin.kind,
        "uri": origin.uri,
        "title": origin.title,
        "timestamp_ms": origin.at_ms,
        "project": origin.project,
        "session_id": origin.session_id,
        "events": [event_json(event) for event in origin.words],
        "memory": None
        if memory is None
        else {
            **_memory_json(memory),
            "domain": memory.domain,
            "status": memory.status.value,
            "captured": "automatically" if origin.is_automatic else "on request",
            "author": memory.author or None,
            "agent": memory.agent or None,
            "interface": memory.interface or None,
            "commit": memory.commit or None,
            "supersedes": [_memory_json(each) for each in origin.supersedes],
            "superseded_by": None if successor is None else _memory_json(successor),
        },
    }


def _memory_json(memory: Memory) -> dict[str, Any]:
    return {"id": memory.id, "uri": memory.urn, "summary": memory.summary}


def _entry_json(entry: LedgerEntry) -> dict[str, Any]:
    return {
        "timestamp_ms": entry.at_ms,
        "hook": entry.hook,
        "agent": entry.agent,
        "project": entry.project,
        "session_id": entry.session_id,
        "tokens": entry.tokens,
    }


def _item_json(uri: str, document: Document) -> dict[str, Any]:
    return {"uri": uri, "kind": document.kind.value, "title": get_title(document)}
