"""Globs: names and paths by pattern, in time that no pattern can blow up."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

MAX_CHARS = 1_000
MAX_ALTERNATIVES = 64
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Glob:
    """`*.py` is a name at any depth, `src/*.py` and `src/**/test_*` are paths from the folder;
    `{a,b}` is either."""

    alternatives: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, pattern: str) -> "Glob":
        """Raises ValueError, with what is wrong."""
        if len(pattern) > MAX_CHARS:
            raise ValueError(f"the pattern has more than {MAX_CHARS:,} characters")
        return cls(tuple(_segments(each) for each in _expand_braces(pattern)))

    def matches(self, path: str) -> bool:
        parts = path.split("/")
        return any(is_match(each, parts) for each in self.alternatives)


def is_match(segments: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a path is as a pattern says, part by part. After a part that does not fit only the
    last `**` is tried anew: to try all of them could take for ever."""
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
    return all(each == "**" for each in segments[at:])


def _segments(pattern: str) -> tuple[str, ...]:
    parts = [each for each in pattern.split("/") if each not in ("", ".")]
    return ("**", *parts) if "/" not in pattern else tuple(parts)


def _expand_braces(pattern: str) -> list[str]:
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        each = waiting.pop()
        found = _BRACES.search(each)
        if found is None:
            done.append(each)
        else:
            waiting += [
                each[: found.start()] + choice + each[found.end() :]
                for choice in found[1].split(",")
            ]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise ValueError(f"the pattern has more than {MAX_ALTERNATIVES} alternatives")
    return done
