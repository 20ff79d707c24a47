"""Glob patterns for names and paths. No pattern can make matching exponential."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

MAX_CHARS = 1_000
MAX_ALTERNATIVES = 64
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Glob:
    """A parsed pattern.

    `*.py` matches a name at any depth, `src/*.py` and `src/**/test_*` match paths from the folder,
    `{a,b}` matches either.
    """

    alternatives: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, pattern: str) -> "Glob":
        """Parse a pattern. Raises ValueError with the reason."""
        if len(pattern) > MAX_CHARS:
            raise ValueError(f"the pattern has more than {MAX_CHARS:,} characters")
        return cls(tuple(_segments(alternative) for alternative in _expand_braces(pattern)))

    def matches(self, path: str) -> bool:
        parts = path.split("/")
        return any(is_match(segments, parts) for segments in self.alternatives)


def is_match(segments: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether the parts of a path match the segments of a pattern.

    After a mismatch only the last `**` is extended: trying all of them is exponential.
    """
    at = part = 0
    star, taken = -1, 0
    while part < len(parts):
        if at < len(segments) and segments[at] == "**":
            star, taken = at, part
            at += 1
        elif at < len(segments) and fnmatchcase(parts[part], segments[at]):
            at += 1
            part += 1
        elif star >= 0:
            taken += 1
            at, part = star + 1, taken
        else:
            return False
    return all(segment == "**" for segment in segments[at:])


def _segments(pattern: str) -> tuple[str, ...]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    return ("**", *parts) if "/" not in pattern else tuple(parts)


def _expand_braces(pattern: str) -> list[str]:
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        text = waiting.pop()
        braces = _BRACES.search(text)
        if braces is None:
            done.append(text)
        else:
            waiting += [
                text[: braces.start()] + choice + text[braces.end() :]
                for choice in braces[1].split(",")
            ]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise ValueError(f"the pattern has more than {MAX_ALTERNATIVES} alternatives")
    return done
