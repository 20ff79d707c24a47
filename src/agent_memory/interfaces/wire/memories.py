"""Memories on the wire: JSON of syncs and counts."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agent_memory.features.memories.services.remote_sync import DomainSyncOutcome
from agent_memory.features.memories.services.sync import SyncResult


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
