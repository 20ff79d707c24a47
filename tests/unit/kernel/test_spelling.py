"""Names as people type them."""

import pytest

from agent_memory.kernel import spelling

KNOWN = ("decisions", "progress", "memories", "claude-code")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("decisions", "decisions"),
        ("decision", "decisions"),
        (" Decision ", "decisions"),
        ("MEMORY", "memories"),
        ("memories", "memories"),
        ("progress", "progress"),
        ("progres", None),
        ("decision s", None),
        ("decisionss", None),
        ("", None),
        ("s", None),
    ],
)
def test_number_and_case_do_not_matter(typed: str, name: str | None) -> None:
    assert spelling.find_same(typed, KNOWN) == name


def test_the_nearest_name_is_suggested() -> None:
    assert spelling.suggest_nearest("decisons", KNOWN) == "; did you mean 'decisions'?"
    assert spelling.suggest_nearest("zebra", KNOWN) == ""
