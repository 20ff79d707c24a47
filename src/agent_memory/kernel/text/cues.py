"""Cues: expressions that are searched only in texts with a literal which they need.

Most texts have none, and looking for it takes a tenth of the time of a search. The literals are
derived from the expression, so the two cannot drift apart.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from typing import Any

_parser: Any = import_module("re._parser")  # has no types
_WITHOUT_WIDTH = ("AT", "ASSERT", "ASSERT_NOT")
_ANY = frozenset({""})  # is in every text


class Cue:
    """An expression in any case. Compiled at its first use: to compile all delays a start."""

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.source, re.IGNORECASE)

    @cached_property
    def literals(self) -> tuple[str, ...]:
        """Literals in lower case of which every text that matches has one."""
        found = _find_literals(_parser.parse(self.source, re.IGNORECASE))
        return tuple(each for each in found if not any(other in each for other in found - {each}))

    def search(self, text: str, lower: str) -> re.Match[str] | None:
        """Search a text. `lower` is the text in lower case."""
        for literal in self.literals:
            if literal in lower:
                return self.pattern.search(text)
        return None

    def is_in(self, text: str, lower: str) -> bool:
        return self.search(text, lower) is not None


def _find_literals(parts: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Return the literals of the most telling part: its shortest literal is the longest."""
    best, run = _ANY, ""
    for operator, value in (*parts, (None, None)):
        name = str(operator)
        if name == "LITERAL":
            run += chr(value).lower()
        elif name not in _WITHOUT_WIDTH:
            found = _find_in_part(name, value)
            best = max(best, frozenset({run}), found, key=_count_least)
            run = ""
    return best


def _find_in_part(name: str, value: Any) -> frozenset[str]:
    if name == "SUBPATTERN" or (name.endswith("_REPEAT") and value[0] > 0):
        return _find_literals(value[-1])
    if name == "BRANCH":
        return frozenset().union(*map(_find_literals, value[1]))
    return _ANY


def _count_least(literals: frozenset[str]) -> int:
    return min(map(len, literals))
