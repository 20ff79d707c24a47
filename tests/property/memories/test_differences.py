"""Differences: what is not marked is the same in both texts."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.memories.model.differences import (
    COMPARED_CHARS,
    MAX_TOKENS,
    Mark,
    mark_differences,
)

WORDS = st.sampled_from(["keep", "logs", "7", "30", "days", "<b>", "\u202e", "\n", "é", "😀"])
TEXTS = st.lists(WORDS, max_size=30).map(" ".join)


def drop(text: str, marks: list[Mark]) -> list[str]:
    """Return the words of a text without its marked parts."""
    for start, end in reversed(marks):
        text = f"{text[:start]} {text[end:]}"
    return re.findall(r"\w+|[^\w\s]", text)


@given(TEXTS, TEXTS)
def test_the_rest_is_the_same_in_the_same_order(one: str, other: str) -> None:
    ours, theirs = mark_differences(one, other)
    assert drop(one, ours) == drop(other, theirs)
    for text, marks in ((one, ours), (other, theirs)):
        ends = [place for mark in marks for place in mark]
        assert ends == sorted(set(ends))
        assert all(0 <= place <= len(text) for place in ends)


@given(TEXTS)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    assert mark_differences(text, text) == ([], [])


def test_a_text_of_too_many_words_has_no_marks() -> None:
    words = ["#"] * MAX_TOKENS  # signs need no blanks: 4,000 of them are 4,000 words
    assert mark_differences("".join(words), "x") == ([(0, MAX_TOKENS)], [(0, 1)])
    assert mark_differences("".join([*words, "#"]), "x") == ([], [])
    assert mark_differences("x", "".join([*words, "#"])) == ([], [])


def test_the_rest_of_a_very_long_text_is_not_compared() -> None:
    long = "word " * COMPARED_CHARS
    ours, theirs = mark_differences(long, f"{long}more")
    assert (ours, theirs) == ([], [])
