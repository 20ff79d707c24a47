"""Memories on the wire: JSON of captures, syncs, consolidations and changes."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from agent_memory.features.forgetting.model.forgetting import ForgettingReport
from agent_memory.features.forgetting.services.review import PendingMemory, ReviewResult
from agent_memory.features.index.model import documents
from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.model import differences, memory_fields
from agent_memory.features.memories.model.changes import ChangeEntry
from agent_memory.features.memories.model.consolidations import (
    ConsolidationPlan,
    ConsolidationRun,
    Merge,
)
from agent_memory.features.memories.model.differences import Comparison
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.services.bulk_editing import BulkRefusal
from agent_memory.features.memories.services.capture import CaptureResult
from agent_memory.features.memories.services.editing import MemoryDetails
from agent_memory.features.memories.services.remote_sync import DomainSyncOutcome
from agent_memory.features.memories.services.sync import SyncResult
from agent_memory.features.memories.services.undo import UndoPlan
from agent_memory.features.memories.services.versions import MemoryVersion
from agent_memory.features.recall.services.memory_stats import MemoryCounts
from agent_memory.interfaces.wire.events import event_json
from agent_memory.kernel import access

_PATH = re.compile(r"(?<![\w:/])/[^\s:,;]+")

PAGE = "page"  # the interface of memories that were written in the page
WORDS_CHARS = 1_200  # shown of the words that a memory comes from


def capture_json(captured: CaptureResult, *, indexed: bool) -> dict[str, Any]:
    return {
        "success": True,
        "memory_id": captured.memory.id,
        "uri": captured.memory.urn,
        "indexed": indexed,
        "created": captured.created,
        "warning": captured.warning,
    }


def memory_json(memory: Memory, *, content: bool = True) -> dict[str, Any]:
    fields = memory_fields.to_fields(memory, documents.format_iso)
    shown = {
        name: value if name in ("summary", "content") or value != "" else None
        for name, value in fields.items()
        if name not in ("tag_changes", "relation_changes")
    }
    if not content:
        del shown["content"]
    return shown


def memory_details_json(details: MemoryDetails, *, content: bool = True) -> dict[str, Any]:
    """Render a memory with its tier and use, which only this machine has."""
    use = details.use
    return {
        **memory_json(details.memory, content=content),
        "tier": details.tier.value,
        "activation_count": use.count,
        "last_accessed": documents.format_iso(use.last_ms) if use.count else None,
    }


def pending_json(pending: PendingMemory) -> dict[str, Any]:
    """Render a memory that awaits review, with the words that it comes from."""
    event = pending.event
    return {
        **memory_json(pending.memory),
        "source": None
        if event is None
        else {
            "event_id": event.event_id,
            "session_id": event.session_id,
            "timestamp": documents.format_iso(event.at_ms),
            "role": event.role.name.lower(),
            "text": shorten(event.text, WORDS_CHARS),
        },
        "home": pending.home,
    }


def shorten(text: str, limit: int) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def sync_json(synced: SyncResult) -> dict[str, Any]:
    return {
        "domain": synced.place.domain,
        "imported": synced.imported,
        "written": synced.written,
        "moved": synced.moved,
        "fetched": synced.fetched,
        "pushed": synced.pushed,
        "problems": [asdict(problem) for problem in synced.problems],
    }


def sync_outcomes_json(outcomes: Sequence[DomainSyncOutcome]) -> dict[str, Any]:
    return {
        "success": all(outcome.failure is None for outcome in outcomes),
        "domains": [sync_json(outcome.synced) for outcome in outcomes if outcome.synced],
        "failed": [
            {"domain": outcome.place.domain, "reason": str(outcome.failure)}
            for outcome in outcomes
            if outcome.failure is not None
        ],
    }


def plan_json(plan: ConsolidationPlan, *, applied: bool) -> dict[str, Any]:
    return {
        "applied": applied,
        "considered": plan.considered,
        "merges": [
            {
                "kept": None if merge.written else merge.cluster.kept.id,
                "summary": (merge.written or merge.cluster.kept).summary,
                "superseded": [memory.id for memory in merge.superseded],
            }
            for merge in plan.merges
        ],
        "moves": [
            {"id": move.memory.id, "from": move.before.value, "to": move.after.value}
            for move in plan.moves
        ],
        "skipped": list(plan.skipped),
    }


def duplicates_json(plan: ConsolidationPlan, limit: int) -> dict[str, Any]:
    """Render the groups of a plan side by side, with the words that differ from the one to keep."""
    return {
        "considered": plan.considered,
        "total": len(plan.merges),
        "merges": [_merge_json(merge) for merge in plan.merges[:limit]],
        "skipped": list(plan.skipped),
    }


def _merge_json(merge: Merge) -> dict[str, Any]:
    kept = merge.cluster.kept
    return {
        "kept": _cut_json(kept),
        "superseded": [_comparison_json(*pair) for pair in merge.compare()],
    }


def _cut_json(memory: Memory) -> dict[str, Any]:
    """Render a memory with as much of its content as is compared."""
    shown = memory_json(memory)
    return {**shown, "content": memory.content[: differences.COMPARED_CHARS]}


def _comparison_json(old: Memory, comparison: Comparison) -> dict[str, Any]:
    """Render a memory with the places of the words that differ from another, and those of the
    other, which has other words there."""
    return {
        **_cut_json(old),
        "marks": dict(comparison.old),
        "kept_marks": dict(comparison.new),
    }


def version_json(version: MemoryVersion) -> dict[str, Any]:
    """Render a version. `changed` and `marks` compare it with the one that superseded it."""
    memory, comparison = version.memory, version.comparison
    return {
        **(_cut_json(memory) if comparison is None else _comparison_json(memory, comparison)),
        "changed": list(version.changed),
        "tag_changes": [
            {
                "name": change.name,
                "at_ms": change.at_ms,
                "present": change.name in memory.tags,
            }
            for change in memory.tag_changes
        ],
    }


def refusals_json(refused: Sequence[BulkRefusal]) -> list[dict[str, Any]]:
    return [{"id": each.name, "reason": str(each.error)} for each in refused]


def forgetting_json(report: ForgettingReport) -> dict[str, Any]:
    """Render what was forgotten, what is left of it, and what was searched for it."""
    proof = report.proof
    return {
        "memories": report.memories,
        "events": report.events,
        "segments": report.segments,
        "nodes": report.nodes,
        "versions": report.versions,
        "grips": report.grips,
        "found_in": hide_places(proof.found_in),
        "unreachable": hide_places(report.unreachable),
        "waits_until_ms": report.waits_until_ms,
        "searched": {
            "pieces": proof.needles,
            "files": proof.files,
            "bytes": proof.size_bytes,
            "unreadable": hide_places(proof.unreadable),
        },
    }


def hide_places(texts: Sequence[str]) -> list[str]:
    """Return texts without the files and folders in them if a person of a team asks: those of the
    server are nothing to them."""
    if access.get_caller() in (None, access.OWNER):
        return list(texts)
    return list(dict.fromkeys(_PATH.sub("the server", text) for text in texts))


def review_json(result: ReviewResult) -> dict[str, Any]:
    return {
        "accepted": [memory_json(memory, content=False) for memory in result.accepted],
        "discarded": [memory.id for memory in result.discarded],
        "skipped": list(result.skipped),
        "found_in": list(result.found_in),
    }


def change_json(change: ChangeEntry | ConsolidationRun | None) -> dict[str, Any]:
    """Render the name by which a change can be undone; null if nothing was recorded for it."""
    return {"change": None if change is None else change.name}


def undo_json(plan: UndoPlan, *, undone: bool) -> dict[str, Any]:
    return {
        **change_json(plan.source),
        "action": plan.action.value,
        "changed_at": documents.format_iso(plan.at_ms),
        "changed_at_ms": plan.at_ms,
        "undone": undone,
        "restored": [memory.id for memory in plan.restored],
        "archived": [memory.id for memory in plan.archived],
        "left": [memory.id for memory in plan.left],
    }


def counts_json(counted: MemoryCounts) -> dict[str, Any]:
    last = counted.last_sync_ms
    return {
        "total": counted.total,
        "by_domain": dict(counted.by_domain),
        "by_namespace": dict(counted.by_namespace),
        "by_tier": dict(counted.by_tier),
        "by_status": dict(counted.by_status),
        "index_bytes": counted.index_bytes,
        "last_sync": None if last is None else documents.format_iso(last),
        "notes_waiting": counted.waiting,
        "to_review": counted.to_review,
        "feature_tier": counted.features,
        "contents": None if counted.contents is None else asdict(counted.contents),
    }


def record_text(record: Event | Memory) -> str:
    """Render an event or a memory as the JSON text that followers of changes get."""
    shown = event_json(record) if isinstance(record, Event) else memory_json(record)
    return msgspec.json.encode(shown).decode()
