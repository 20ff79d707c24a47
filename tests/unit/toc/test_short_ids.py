"""Short ids: the beginning of a ULID leads back to the id that has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.toc.model import periods, short_ids
from agent_memory.kernel import ulids
from agent_memory.kernel.ids import MAX_MILLIS, Millis


@given(st.integers(0, MAX_MILLIS).map(Millis), st.text())
def test_a_short_id_is_the_beginning_of_its_id(at_ms: Millis, content: str) -> None:
    ulid = ulids.derive_ulid(at_ms, content)
    segment, grip = periods.segment_node_id(at_ms, ulid), f"grip:{at_ms:013}:{ulid}"
    for name, expand in (
        (segment, short_ids.to_segment_prefix),
        (grip, short_ids.to_grip_prefix),
    ):
        short = short_ids.abbreviate(name)
        assert len(short) == short_ids.LENGTH
        assert name.startswith(expand(short))
        assert expand(ulid) == name


@pytest.mark.parametrize(
    "name",
    ["", "01KH7DPSR48", "01kh7dpsr489zp", "01KH7DPSR489ZU", "8463c716-a2ea", "ZZZZZZZZZZZZ"],
)
def test_other_names_stay_as_they_are(name: str) -> None:
    assert short_ids.to_segment_prefix(name) == name
    assert short_ids.to_grip_prefix(name) == name


@pytest.mark.parametrize("name", ["toc:year:2026", "toc:week:2026:W07", "toc:day:2026-02-11"])
def test_a_period_is_named_in_full(name: str) -> None:
    assert short_ids.abbreviate(name) == name
