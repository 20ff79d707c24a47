"""Tiers: recency, use and importance add up as documented."""

import pytest

from agent_memory.features.memories.model import tiers
from agent_memory.features.memories.model.memories import NAMESPACES, MemoryStatus
from agent_memory.features.memories.model.tiers import MemoryUse, Tier
from agent_memory.kernel.ids import Millis
from tests.memory_values import memory

DAY = 86_400_000
NOW = Millis(1_700_000_000_000)


def aged(days: int, **fields: object) -> float:
    return tiers.score(memory(at=NOW - days * DAY, **fields), MemoryUse(), NOW)  # type: ignore[arg-type]


def test_a_new_decision_is_as_present_as_can_be_without_use() -> None:
    assert aged(0) == pytest.approx(0.8)


def test_half_of_the_recency_is_gone_after_thirty_days() -> None:
    assert aged(30) == pytest.approx(0.6)
    assert aged(60) == pytest.approx(0.5)


def test_use_counts_up_to_twenty_times() -> None:
    used = [tiers.score(memory(at=NOW), MemoryUse(count=n), NOW) for n in (0, 1, 20, 1000)]
    assert used[0] == pytest.approx(0.8)
    assert used[0] < used[1] < used[2] == pytest.approx(1.0)
    assert used[3] == used[2]


def test_what_is_superseded_keeps_a_fifth() -> None:
    assert aged(0, superseded_by="decisions:0123456789ab:0") == pytest.approx(0.16)


@pytest.mark.parametrize(
    ("days", "fields", "tier"),
    [
        (0, {}, Tier.HOT),
        (29, {}, Tier.HOT),
        (31, {}, Tier.WARM),
        (0, {"superseded_by": "decisions:0123456789ab:0"}, Tier.COLD),
        (3650, {"superseded_by": "decisions:0123456789ab:0"}, Tier.ARCHIVED),
        (0, {"status": MemoryStatus.ARCHIVED}, Tier.ARCHIVED),
        (0, {"namespace": "progress"}, Tier.HOT),
        (3650, {"namespace": "progress"}, Tier.COLD),
    ],
)
def test_the_score_decides_the_tier(days: int, fields: dict[str, object], tier: Tier) -> None:
    created = memory(at=NOW - days * DAY, **fields)  # type: ignore[arg-type]
    assert tiers.assign_tier(created, MemoryUse(), NOW) is tier


def test_a_time_in_the_future_is_now() -> None:
    assert aged(-5) == aged(0)


def test_every_namespace_has_its_importance() -> None:
    assert set(tiers.IMPORTANCES) == set(NAMESPACES)
