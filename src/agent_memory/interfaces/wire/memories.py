"""Memories on the wire: JSON of syncs and counts."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agent_memory.features.index.model import documents
from agent_memory.features.memories.services.remote_sync import DomainSyncOutcome
from agent_memory.features.memories.services.sync import SyncResult
from agent_memory.features.recall.services.memory_stats import MemoryCounts


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
