"""Earlier layouts: entries that other tools left in git notes, as what someone wants kept.

An entry begins at a line `---` right before `type:` and a known namespace, and its front matter
holds a time and a summary; whatever else looks like one belongs to the text around it. Notes that
git's `cat_sort_uniq` has sorted line by line hold no entries any more.
"""

import re

from agent_memory.features.memories.adapters.git import front_matter
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Draft, MemoryStatus
from agent_memory.kernel.errors import InvalidInput

MAX_FRONT_CHARS = 64 << 10

_START = re.compile(
    rf"^---\n(?P<front>type: *['\"]?(?:{'|'.join(memories.NAMESPACES)})['\"]?\n(?:(?!---\n).*\n)*?)"
    r"---(?:\n|\Z)",
    re.MULTILINE,
)
_REFERENCE = re.compile(r"(?:user:)?(?P<name>[a-z]+:[0-9A-Za-z._-]{1,64}:[0-9]{1,4})")


def drafts(data: bytes) -> list[Draft]:
    """The entries of a text, each once, in order. What no memory can be made of is left out, and
    so is what was deleted."""
    text = data.decode("utf-8", "replace")
    starts = [each for each in _START.finditer(text) if _is_front(each["front"])]
    found: dict[Draft, None] = {}
    ends = [*(each.start() for each in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=False):  # without a start there is an end too many
        try:
            draft = _draft(start["front"], text[start.end() : end])
        except (InvalidInput, ValueError):
            continue
        if draft is not None:
            found[draft] = None
    return list(found)


def _is_front(front: str) -> bool:
    return "\ntimestamp:" in front and "\nsummary:" in front and len(front) <= MAX_FRONT_CHARS


def _draft(front: str, body: str) -> Draft | None:
    values = front_matter.load(front, folded=True)
    status = _text(values.get("status"))
    if status == MemoryStatus.TOMBSTONE:
        return None
    return Draft(
        namespace=_text(values["type"]),
        summary=_line(values["summary"], memories.MAX_SUMMARY_CHARS),
        content=body.removeprefix("\n").rstrip("\n"),
        spec=""
        if _text(values.get("spec")) == "null"
        else _line(values.get("spec"), memories.MAX_SPEC_CHARS),
        tags=frozenset(_tags(values.get("tags"))),
        relates_to=tuple(_parse_related(values.get("relates_to"))),
        created_ms=front_matter.parse_time(_text(values["timestamp"])),
        status=MemoryStatus(status)
        if status in (MemoryStatus.RESOLVED, MemoryStatus.ARCHIVED)
        else MemoryStatus.ACTIVE,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [each for each in value if isinstance(each, str)]
    return [each for each in _text(value).split(",") if each.strip()]


def _line(value: object, limit: int) -> str:
    words = "".join(char if char.isprintable() else " " for char in _text(value)).split()
    line = " ".join(words)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _tags(value: object) -> list[str]:
    """A comma is part of a tag there, and cannot be here."""
    tags = (_line(each.replace(",", " "), memories.MAX_TAG_CHARS) for each in _texts(value))
    return [each for each in tags if each][: memories.MAX_TAGS]


def _parse_related(value: object) -> list[str]:
    """The names that may be given here; those that end in a time are left out."""
    names = (_REFERENCE.fullmatch(each.strip()) for each in _texts(value))
    return [each["name"] for each in names if each][: memories.MAX_RELATED]
