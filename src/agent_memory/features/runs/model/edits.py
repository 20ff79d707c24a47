"""Edits: what a change makes of a text, and the difference as people read it."""

import difflib
import re
from collections.abc import Iterator, Sequence

from agent_memory.features.runs.model.workspaces import escape_hidden, quote_path
from agent_memory.kernel.errors import ToolFailed

MAX_COMPARED = 2_000  # lines; comparing takes up to the cube of them
CONTEXT = 3
NEAREST = 5  # lines that are shown of what may have been meant
_LOOKED_AT = 20_000  # lines
_WORDS = re.compile(r"\w+")
_LINE_CHARS = 300
_NOTE_CHARS = 60
_NO_END = "\\ No newline at end of file"


def replace_text(text: str, old: str, new: str, *, everywhere: bool) -> str:
    """The text with the one place changed that is meant, or all of them. Raises ToolFailed."""
    if old == new:
        raise ToolFailed("old_string and new_string are the same: nothing would change")
    count = text.count(old)
    if not count and "\r\n" in text and "\r" not in old:  # nobody sees how lines end
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        count = text.count(old)
    if not count:
        raise ToolFailed(f"old_string is not in the file{_instead(text, old)}")
    if count > 1 and not everywhere:
        raise ToolFailed(
            f"old_string is in the file {count} times ({_places(text, old)}): make it longer, so"
            " that it is there once, or set replace_all"
        )
    return text.replace(old, new)


def render_diff(path: str, before: str | None, after: str) -> str:
    """As a unified diff, with nothing in it that a terminal would obey. `before` is None of a file
    that is new."""
    name = quote_path(path)
    if before == after:
        return f"no change of {name}"
    head = (f"--- {'/dev/null' if before is None else 'a/' + name}", f"+++ b/{name}")
    if before is None and not after:
        return "\n".join((*head, "(an empty file)"))
    return "\n".join((*head, *_hunks(_lines(before or ""), _lines(after))))


def truncate_text(text: str, most: int) -> str:
    """So many characters at most, whole lines, and told where it was cut."""
    if len(text) <= most:
        return text
    room = max(0, most - _NOTE_CHARS)
    end = text.rfind("\n", 0, room)
    end = room if end < 0 else end
    left = text.count("\n", end) + (0 if text.startswith("\n", end) else 1)
    return f"{text[:end]}\n[cut here: {left:,} more lines are not shown]"


def _lines(text: str) -> list[str]:
    """Cut at line feeds alone: other signs that end lines for some are part of theirs."""
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n{_NO_END}"] if last else lines


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first, tail = max(0, start - CONTEXT), max(0, end - CONTEXT)
    a, b = old[first : len(old) - tail], new[first : len(new) - tail]
    if len(a) + len(b) > MAX_COMPARED:
        lead = min(CONTEXT, start)
        trail = min(CONTEXT, end)
        groups: Iterator[list[tuple[str, int, int, int, int]]] = iter([[
            ("equal", 0, lead, 0, lead),
            ("replace", lead, len(a) - trail, lead, len(b) - trail),
            ("equal", len(a) - trail, len(a), len(b) - trail, len(b)),
        ]])  # fmt: skip
    else:
        matcher = difflib.SequenceMatcher(None, a, b)
        groups = iter(matcher.get_grouped_opcodes(CONTEXT))
    for group in groups:
        yield _header(group, first)
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {_escape_line(each)}" for each in a[i1:i2])
                continue
            yield from (f"-{_escape_line(each)}" for each in a[i1:i2])
            yield from (f"+{_escape_line(each)}" for each in b[j1:j2])


def _header(group: Sequence[tuple[str, int, int, int, int]], first: int) -> str:
    old = _range(first + group[0][1], group[-1][2] - group[0][1])
    new = _range(first + group[0][3], group[-1][4] - group[0][3])
    return f"@@ -{old} +{new} @@"


def _range(start: int, length: int) -> str:
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _escape_line(line: str) -> str:
    text, mark, note = line.partition(f"\n{_NO_END}")
    return escape_hidden(text) + mark + note


def _places(text: str, old: str) -> str:
    lines: list[str] = []
    at = text.find(old)
    while at >= 0 and len(lines) < NEAREST:
        lines.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    more = ", ..." if at >= 0 else ""
    return f"lines {', '.join(lines)}{more}"


def _instead(text: str, old: str) -> str:
    """What may have been meant: the lines that are nearest to its first."""
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    if not wanted or not text.strip():
        return ": it is empty" if not text.strip() else ""
    lines = text.split("\n", _LOOKED_AT)[:_LOOKED_AT]
    at = next((number for number, line in enumerate(lines) if line.strip() == wanted), None)
    if at is None:
        at = _nearest(lines, wanted)
    if at is None:
        return ": read it first"
    some = [line[:_LINE_CHARS] for line in lines[at : at + min(NEAREST, old.count("\n") + 2)]]
    return (
        f". It must be exactly as there, also in blanks and line ends. From line {at + 1} on it"
        f" reads:\n{chr(10).join(some)}"
    )


def _nearest(lines: Sequence[str], wanted: str) -> int | None:
    words = set(_WORDS.findall(wanted))
    if not words:
        return None
    best, place = 0.4, None  # less in common is chance
    for number, line in enumerate(lines):
        there = set(_WORDS.findall(line[:_LINE_CHARS]))
        share = len(words & there) / len(words | there)
        if share > best:
            best, place = share, number
    return place
