"""A memory as a small document for an editor: front matter of one line a field, then the details.

It is no YAML: a summary may hold colons, quotes and anything else that a line can have.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import MAX_SUMMARY_CHARS
from agent_memory.kernel.errors import InvalidInput

RULE = "---"
FIELDS = ("summary", "tags", "spec", "relates_to")
HELP = (
    f"# The summary is one line of at most {MAX_SUMMARY_CHARS} characters. Commas separate tags,",
    "# and the ids of related memories.",
    "# Details, in Markdown, go below the second line of dashes. Save and close to go on; empty",
    "# the file to change nothing. Lines like this one, up here, are left out.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorDocument:
    """What a user may write of a memory."""

    summary: str = ""
    content: str = ""
    spec: str = ""
    tags: frozenset[str] = frozenset()
    relates_to: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    """The lines of a document, by field, and what is wrong with them."""

    values: dict[str, tuple[int, str]] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def check(self, line: int, check: Callable[[], object]) -> None:
        try:
            check()
        except InvalidInput as exc:
            self.problems.append((line, str(exc)))

    def get(self, name: str) -> tuple[int, str]:
        return self.values.get(name, (1, ""))


def render(document: EditorDocument) -> str:
    values = {
        "summary": document.summary,
        "tags": ", ".join(sorted(document.tags)),
        "spec": document.spec,
        "relates_to": ", ".join(document.relates_to),
    }
    fields = (f"{name}: {values[name]}".rstrip() for name in FIELDS)
    return "\n".join((RULE, *HELP, *fields, RULE, f"{document.content}\n"))


def parse(text: str, before: EditorDocument) -> EditorDocument | None:
    """Parse what the user saved. Return None for an empty text.

    Details that differ from those before only in blank lines at their ends are those before.
    Raises InvalidInput, with a line of text for each line that is wrong.
    """
    if not text.strip():
        return None
    lines = text.split("\n")
    reading = _Reading()
    start = _read_front(lines, reading)
    body = "\n".join(lines[start:])
    content = before.content if body.strip() == before.content.strip() else body.strip("\r\n ")
    summary_line, summary = reading.get("summary")
    tags_line, tags = reading.get("tags")
    spec_line, spec = reading.get("spec")
    related_line, related = reading.get("relates_to")
    found = EditorDocument(
        summary=summary,
        content=content,
        spec=spec,
        tags=frozenset(_split(tags)),
        relates_to=tuple(dict.fromkeys(_split(related))),
    )
    reading.check(summary_line, lambda: memories.check_content(summary, "", ""))
    reading.check(tags_line, lambda: memories.check_tags(found.tags))
    reading.check(spec_line, lambda: memories.check_content("a", "", spec))
    reading.check(related_line, lambda: memories.check_related(found.relates_to))
    reading.check(start + 1, lambda: memories.check_content("a", content, ""))
    if reading.problems:
        raise InvalidInput(
            "\n".join(f"line {line}: {what}" for line, what in sorted(reading.problems))
        )
    return found


def _read_front(lines: list[str], reading: _Reading) -> int:
    """Read the fields. Return the number of lines up to the second rule."""
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].strip() != RULE:
        raise InvalidInput(f"line {first + 1}: the text must begin with a line {RULE}")
    for number, line in enumerate(lines[first + 1 :], first + 2):
        words = line.strip()
        if words == RULE:
            return number
        if words and not words.startswith("#"):
            _read_field(number, words, reading)
    raise InvalidInput(
        f"line {len(lines)}: the line {RULE} that ends the fields is missing: put it before the"
        " details"
    )


def _read_field(number: int, words: str, reading: _Reading) -> None:
    name, colon, value = words.partition(":")
    key = name.strip().lower().replace(" ", "_").replace("-", "_")
    if not colon:
        reading.problems.append((number, f"{words[:40]!r} is no field: write it as `name: value`"))
    elif key not in FIELDS:
        near = difflib.get_close_matches(key, FIELDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the fields are {', '.join(FIELDS)}"
        reading.problems.append((number, f"there is no field {name.strip()[:40]!r}: {hint}"))
    elif key in reading.values:
        reading.problems.append((number, f"{key} is given twice"))
    else:
        reading.values[key] = (number, value.strip())


def _split(value: str) -> Iterable[str]:
    def words() -> Iterator[str]:
        yield from (word.strip() for word in value.split(","))

    return filter(None, words())
