"""Differences of two texts: which of their words are not in the other."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from agent_memory.features.memories.model.memories import Memory

COMPARED_CHARS = 4_000  # of each text
MAX_TOKENS = 800  # of each text: comparing takes up to the cube of the time
PARTS = ("summary", "content", "spec")  # of a memory, in the order in which they are read
_TOKEN = re.compile(r"\w+|[^\w\s]")

Mark = tuple[int, int]  # the places of the first character and of the one after the last


def list_changed_parts(old: Memory, new: Memory) -> tuple[str, ...]:
    """Return the names of what differs between two versions of a memory."""
    texts = [name for name in PARTS if getattr(old, name) != getattr(new, name)]
    tags = ["tags"] if old.tags != new.tags else []
    relations = ["relations"] if set(old.relates_to) != set(new.relates_to) else []
    return (*texts, *tags, *relations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Where the words of two memories differ, by the name of the part."""

    old: Mapping[str, Sequence[Mark]]
    new: Mapping[str, Sequence[Mark]]


def compare(old: Memory, new: Memory) -> Comparison:
    marks = {name: mark_differences(getattr(old, name), getattr(new, name)) for name in PARTS}
    return Comparison(
        old={name: pair[0] for name, pair in marks.items()},
        new={name: pair[1] for name, pair in marks.items()},
    )


def mark_differences(one: str, other: str) -> tuple[list[Mark], list[Mark]]:
    """Return the parts of each text that the other does not have, word by word. Texts of too many
    words have no marks."""
    ours, theirs = _tokenize(one), _tokenize(other)
    if one == other or max(len(ours), len(theirs)) > MAX_TOKENS:
        return [], []
    matcher = SequenceMatcher(None, [text for text, _ in ours], [text for text, _ in theirs])
    mine: list[Mark] = []
    others: list[Mark] = []
    for operation, start, end, other_start, other_end in matcher.get_opcodes():
        if operation != "equal":
            mine += _cover(ours[start:end])
            others += _cover(theirs[other_start:other_end])
    return _join(mine), _join(others)


def _tokenize(text: str) -> list[tuple[str, Mark]]:
    compared = text[:COMPARED_CHARS]
    return [(match.group(), match.span()) for match in _TOKEN.finditer(compared)]


def _cover(tokens: Sequence[tuple[str, Mark]]) -> list[Mark]:
    return [(tokens[0][1][0], tokens[-1][1][1])] if tokens else []


def _join(marks: Sequence[Mark]) -> list[Mark]:
    """Join marks that touch."""
    joined = list(marks[:1])
    for (_, end), mark in pairwise(marks):
        if mark[0] <= end:
            joined[-1] = (joined[-1][0], mark[1])
        else:
            joined.append(mark)
    return joined
