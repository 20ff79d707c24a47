"""Tiers: how recently and often a memory was used, weighted by its namespace."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agent_memory.features.memories.model.memories import OFTEN, Memory, MemoryOutline, MemoryStatus
from agent_memory.kernel.ids import Millis

RECENCY, ACTIVATION, IMPORTANCE = 0.4, 0.2, 0.4
HALF_LIFE_DAYS = 30.0
SUPERSEDED = 0.2

IMPORTANCES: Mapping[str, float] = {
    "decisions": 1.0,
    "blockers": 0.9,
    "patterns": 0.8,
    "learnings": 0.8,
    "elicitation": 0.6,
    "inception": 0.6,
    "retrospective": 0.6,
    "research": 0.5,
    "reviews": 0.5,
    "progress": 0.5,
}
_DAY_MS = 86_400_000
_NEVER = Millis(0)


class Tier(StrEnum):
    HOT = "hot"
    WARM = "warm"
    COLD = "cold"
    ARCHIVED = "archived"


_LEAST = ((Tier.HOT, 0.6), (Tier.WARM, 0.3), (Tier.COLD, 0.1))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """How often a memory was recalled, when last (0: never), and its last tier; new ones are
    hot."""

    count: int = 0
    last_ms: Millis = _NEVER
    tier: Tier = Tier.HOT


def score(memory: Memory | MemoryOutline, use: MemoryUse, now: Millis) -> float:
    age = max(0, now - memory.created_ms) / _DAY_MS
    recency = math.exp2(-age / HALF_LIFE_DAYS)
    activation = min(1.0, math.log1p(use.count) / math.log1p(OFTEN))
    total = RECENCY * recency + ACTIVATION * activation + IMPORTANCE * IMPORTANCES[memory.namespace]
    return total * SUPERSEDED if memory.superseded else total


def assign_tier(memory: Memory | MemoryOutline, use: MemoryUse, now: Millis) -> Tier:
    if memory.status is MemoryStatus.ARCHIVED:
        return Tier.ARCHIVED
    value = score(memory, use, now)
    return next((tier for tier, least in _LEAST if value >= least), Tier.ARCHIVED)
