"""Edits of texts, and readable differences."""

import difflib
import re
from collections.abc import Iterator, Sequence

from agent_memory.features.runs.model.workspaces import escape_hidden, quote_path
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import ToolFailed

MAX_COMPARED = 2_000  # lines; difflib may take cubic time
CONTEXT = 3
NEAREST = 5  # lines shown as a suggestion
_LOOKED_AT = 20_000  # lines
_WORDS = re.compile(r"\w+")
_LINE_CHARS = 300
_NOTE_CHARS = 60
_NO_END = "\\ No newline at end of file"


def replace_text(text: str, old: str, new: str, *, everywhere: bool) -> str:
    """Replace the only occurrence, or all if `everywhere`. Raises ToolFailed."""
    if old == new:
        raise ToolFailed("old_string and new_string are the same: nothing would change")
    count = text.count(old)
    if not count and "\r\n" in text and "\r" not in old:  # models do not see line endings
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        count = text.count(old)
    if not count:
        raise ToolFailed(f"old_string is not in the file{_instead(text, old)}")
    if count > 1 and not everywhere:
        raise ToolFailed(
            f"old_string occurs {count} times ({_places(text, old)}): make it longer, so that it"
            " occurs once, or set replace_all"
        )
    return text.replace(old, new)


def render_diff(path: str, before: str | None, after: str) -> str:
    """Render a unified diff without terminal control characters. `before` is None for a new
    file."""
    name = quote_path(path)
    if before == after:
        return f"no change in {name}"
    head = (f"--- {'/dev/null' if before is None else 'a/' + name}", f"+++ b/{name}")
    if before is None and not after:
        return "\n".join((*head, "(an empty file)"))
    return "\n".join((*head, *_hunks(_lines(before or ""), _lines(after))))


def truncate_text(text: str, most: int) -> str:
    """Cut a text to whole lines of at most this many characters, and note the cut."""
    if len(text) <= most:
        return text
    room = max(0, most - _NOTE_CHARS)
    end = text.rfind("\n", 0, room)
    end = room if end < 0 else end
    left = text.count("\n", end) + (0 if text.startswith("\n", end) else 1)
    verb = "is" if left == 1 else "are"
    return f"{text[:end]}\n[cut here: {format_count(left, 'more line')} {verb} not shown]"


def _lines(text: str) -> list[str]:
    """Split at line feeds only: other line separators are part of a line."""
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
                yield from (f" {_escape_line(line)}" for line in a[i1:i2])
                continue
            yield from (f"-{_escape_line(line)}" for line in a[i1:i2])
            yield from (f"+{_escape_line(line)}" for line in b[j1:j2])


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
    """Suggest the lines that are most similar to the first line of `old`."""
    target = next((line.strip() for line in old.split("\n") if line.strip()), "")
    if not target or not text.strip():
        return ": the file is empty" if not text.strip() else ""
    lines = text.split("\n", _LOOKED_AT)[:_LOOKED_AT]
    at = next((number for number, line in enumerate(lines) if line.strip() == target), None)
    if at is None:
        at = _nearest(lines, target)
    if at is None:
        return ": read the file first"
    some = [line[:_LINE_CHARS] for line in lines[at : at + min(NEAREST, old.count("\n") + 2)]]
    return (
        ". It must match exactly, including blanks and line endings. The file has from line"
        f" {at + 1}:\n{chr(10).join(some)}"
    )


def _nearest(lines: Sequence[str], target: str) -> int | None:
    words = set(_WORDS.findall(target))
    if not words:
        return None
    best, place = 0.4, None  # less in common is a coincidence
    for number, line in enumerate(lines):
        others = set(_WORDS.findall(line[:_LINE_CHARS]))
        share = len(words & others) / len(words | others)
        if share > best:
            best, place = share, number
    return place
