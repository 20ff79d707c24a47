"""The rules of `.gitignore` files."""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_memory.kernel.text.globs import is_match

NAME = ".gitignore"
MAX_BYTES = 64 << 10
MAX_RULES = 1_000
_WILD = re.compile(r"[*?\[]")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRule:
    segments: tuple[str, ...]
    negated: bool = False
    folders: bool = False

    def matches(self, parts: Sequence[str], *, folder: bool) -> bool:
        return (folder or not self.folders) and is_match(self.segments, parts)


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one file, last rule first: the last matching rule decides."""

    rules: tuple[IgnoreRule, ...] = ()
    # A path can match only if its last part matches the last segment of a rule. Most paths match
    # no rule, so this one test makes a walk about 20 times faster.
    _names: frozenset[str] = field(init=False)
    _globs: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        last = {rule.segments[-1] for rule in self.rules}
        globs = sorted(segment for segment in last if _WILD.search(segment))
        pattern = re.compile("|".join(map(fnmatch.translate, globs))) if globs else None
        object.__setattr__(self, "_names", frozenset(last.difference(globs)))
        object.__setattr__(self, "_globs", pattern)

    @classmethod
    def parse(cls, text: str) -> "IgnoreFile":
        lines = text[:MAX_BYTES].removeprefix("\ufeff").split("\n")[:MAX_RULES]
        rules = [rule for rule in map(_parse_rule, lines) if rule is not None]
        return cls(tuple(reversed(rules)))

    def verdict(self, parts: Sequence[str], *, folder: bool) -> bool | None:
        """Return whether a path from this file's folder is ignored, or None if no rule matches."""
        name = parts[-1]
        if name not in self._names and not (self._globs and self._globs.match(name)):
            return None
        for rule in self.rules:
            if rule.matches(parts, folder=folder):
                return not rule.negated
        return None


def is_ignored(stack: Sequence[IgnoreFile], parts: Sequence[str], *, folder: bool) -> bool:
    """Return whether git ignores a path. `stack` holds the rules of each folder on the path, the
    outermost first; `parts` is the path from there. The innermost file with a match decides."""
    for depth in range(len(stack) - 1, -1, -1):
        verdict = stack[depth].verdict(parts[depth:], folder=folder)
        if verdict is not None:
            return verdict
    return False


def _parse_rule(line: str) -> IgnoreRule | None:
    line = _trim_line(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line.removeprefix("!")
    folders = line.endswith("/")
    line = line.rstrip("/")
    segments = tuple(_to_glob(part) for part in line.split("/") if part)
    if not segments:
        return None
    if segments[-1] == "**":
        segments = (*segments, "*")  # the content of a folder, but not the folder itself
    if "/" not in line:
        segments = ("**", *segments)
    return IgnoreRule(segments=segments, negated=negated, folders=folders)


def _trim_line(line: str) -> str:
    """Remove trailing blanks, except an escaped one."""
    bare = line.rstrip(" ")
    return f"{bare} " if bare.endswith("\\") and bare != line else bare


def _to_glob(part: str) -> str:
    """Convert to the syntax of fnmatch, which has no escapes and negates a class with `!` only."""
    return _ESCAPED.sub(_unescape, part).replace("[^", "[!")


def _unescape(escaped: "re.Match[str]") -> str:
    return f"[{escaped[1]}]" if escaped[1] in "*?[" else escaped[1]
