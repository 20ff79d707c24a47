"""Answers for agents: whatever is told is harmless, fits, and keeps its shape."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.interfaces import agent_answers

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=20,
)
ROWS = st.dictionaries(st.sampled_from(["a", "b", "c", "text", "content"]), VALUES, max_size=5)
SMALLEST = 120  # bytes: of names and numbers, which cannot be cut


@given(ROWS, st.integers(SMALLEST, 2_000))
def test_what_is_cut_fits_and_keeps_its_fields(row: dict[str, Any], most: int) -> None:
    cut = agent_answers.cut(row, most)
    assert agent_answers.size(cut) <= most
    assert cut.keys() - {agent_answers.TRUNCATED} == row.keys()
    assert all(type(cut[name]) is type(row[name]) for name in row)
    harmless = agent_answers.disarm_all(row)
    assert (cut == harmless) == (agent_answers.size(harmless) <= most)


@given(st.lists(ROWS, max_size=8), st.integers(2 * SMALLEST, 4_000))
def test_rows_that_are_kept_fit_together_and_one_always_does(
    rows: list[dict[str, Any]], most: int
) -> None:
    stored = agent_answers.take_fitting(rows, most)
    assert sum(map(agent_answers.size, stored)) <= most
    assert bool(stored) == bool(rows)


@given(st.lists(st.fixed_dictionaries({"text": st.text(max_size=2_000)}), min_size=1, max_size=9))
def test_all_get_a_share(rows: list[dict[str, Any]]) -> None:
    most = 100 * len(rows)
    shared = agent_answers.cut_evenly(rows, most)
    assert len(shared) == len(rows)
    assert agent_answers.size(shared) <= most + len(rows)
    for row, cut in zip(rows, shared, strict=True):
        harmless = agent_answers.disarm_all(row)
        whole = harmless["text"].encode("utf-8", "replace")
        assert whole.startswith(cut["text"].encode()) or harmless == cut
