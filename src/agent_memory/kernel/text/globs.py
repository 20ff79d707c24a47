"""Glob patterns for names and paths. No pattern can make matching exponential."""

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

MAX_CHARS = 1_000
MAX_ALTERNATIVES = 64
_WILD = re.compile(r"[*?\[]")
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


@dataclass(frozen=True, slots=True)
class FolderGlob:
    """A parsed pattern of folders: it matches a folder and everything below it.

    `text` is the pattern as it was written. `forms` are its segments, more than one if a link
    gives its beginning another name.
    """

    text: str
    forms: tuple[tuple[str, ...], ...]

    def matches(self, folder: str) -> bool:
        """Return whether it matches an absolute path."""
        parts = _split_path(folder)
        return any(is_match((*segments, "**"), parts) for segments in self.forms)


def is_folder_glob(text: str) -> bool:
    """Return whether a text is a pattern of folders: from the root, the home folder, or any."""
    starts = text in ("/", "~") or text.startswith(("/", "~/", "**/"))
    return starts and len(text) <= MAX_CHARS and "\0" not in text


def parse_folder_glob(text: str, home: str, resolve: Callable[[str], str]) -> FolderGlob:
    """Parse a pattern of folders. `resolve` returns where the links in a path lead: the user may
    name a folder by a link, and an agent by what it leads to."""
    path = home + text[1:] if text == "~" or text.startswith("~/") else text
    segments = _split_path(path)
    if ".." in segments:
        segments = _split_path(posixpath.normpath(path))
    plain = next((n for n, part in enumerate(segments) if _WILD.search(part)), len(segments))
    forms = {segments: None}
    if plain:
        real = _split_path(resolve("/" + "/".join(segments[:plain])))
        forms[(*real, *segments[plain:])] = None
    return FolderGlob(text, tuple(forms))


def escape_folder(folder: str) -> str:
    """Return the pattern that matches this folder, whatever characters it has."""
    return _WILD.sub(lambda wild: f"[{wild[0]}]", folder)


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


def _split_path(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


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
