"""What a `.gitignore` leaves out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_memory.kernel.text.globs import is_match

NAME = ".gitignore"
MAX_BYTES = 64 << 10
MAX_RULES = 1_000
_WILD = re.compile(r"[*?\[]")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRule:
    segments: tuple[str, ...]
    name: str = ""  # of a rule that is no more than a name: quicker to compare
    negated: bool = False
    folders: bool = False

    def matches(self, parts: Sequence[str], *, folder: bool) -> bool:
        if self.folders and not folder:
            return False
        return self.name == parts[-1] if self.name else is_match(self.segments, parts)


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one file, the last one first: the last that fits is what counts."""

    rules: tuple[IgnoreRule, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "IgnoreFile":
        lines = text[:MAX_BYTES].removeprefix("\ufeff").split("\n")[:MAX_RULES]
        found = [rule for rule in map(_rule, lines) if rule is not None]
        return cls(tuple(reversed(found)))

    def verdict(self, parts: Sequence[str], *, folder: bool) -> bool | None:
        """Whether a path from this file's folder is left out; None where no rule is about it."""
        for rule in self.rules:
            if rule.matches(parts, folder=folder):
                return not rule.negated
        return None


def is_ignored(stack: Sequence[IgnoreFile], parts: Sequence[str], *, folder: bool) -> bool:
    """`stack` has the rules of each folder on the way, the outermost first; `parts` is the path
    from that one. The innermost that says something is heard."""
    for depth in range(len(stack) - 1, -1, -1):
        verdict = stack[depth].verdict(parts[depth:], folder=folder)
        if verdict is not None:
            return verdict
    return False


def _rule(line: str) -> IgnoreRule | None:
    line = _trim_line(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line.removeprefix("!")
    folders = line.endswith("/")
    line = line.rstrip("/")
    anchored = "/" in line
    parts = tuple(_to_glob(each) for each in line.split("/") if each)
    if not parts:
        return None
    if parts[-1] == "**":
        parts = (*parts, "*")  # all that is in a folder, which is not the folder itself
    return IgnoreRule(
        segments=parts if anchored else ("**", *parts),
        name="" if anchored or _WILD.search(parts[0]) else parts[0],
        negated=negated,
        folders=folders,
    )


def _trim_line(line: str) -> str:
    """Without the blanks at its end, unless one is escaped."""
    bare = line.rstrip(" ")
    return f"{bare} " if bare.endswith("\\") and bare != line else bare


def _to_glob(part: str) -> str:
    """As globs have it, in which nothing is escaped and only `!` negates a class."""
    return _ESCAPED.sub(_unescape, part).replace("[^", "[!")


def _unescape(escaped: "re.Match[str]") -> str:
    return f"[{escaped[1]}]" if escaped[1] in "*?[" else escaped[1]
