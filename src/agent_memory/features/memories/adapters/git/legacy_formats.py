"""Legacy formats: entries that earlier tools left in git notes, read as drafts.

An entry begins at a line `---` right before `type:` and a known namespace, and its front matter
holds a time and a summary. Anything else that looks like one belongs to the text around it. Notes
that git's `cat_sort_uniq` sorted line by line hold no entries any more.
"""

import re

from agent_memory.features.memories.adapters.git import front_matter
from agent_memory.features.memories.model import memories, record_times
from agent_memory.features.memories.model.memories import Draft, MemoryStatus
from agent_memory.kernel.errors import InvalidInput

MAX_FRONT_CHARS = 64 << 10

_START = re.compile(
    rf"^---\n(?P<front>type: *['\"]?(?:{'|'.join(memories.NAMESPACES)})['\"]?\n(?:(?!---\n).*\n)*?)"
    r"---(?:\n|\Z)",
    re.MULTILINE,
)
_REFERENCE = re.compile(r"(?:user:)?(?P<name>[a-z]+:[0-9A-Za-z._-]{1,64}:[0-9]{1,4})")


def parse_drafts(data: bytes) -> list[Draft]:
    """Return the distinct entries of a text, in order, without deleted and invalid ones."""
    text = data.decode("utf-8", "replace")
    starts = [match for match in _START.finditer(text) if _is_front(match["front"])]
    drafts: dict[Draft, None] = {}
    ends = [*(match.start() for match in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=False):  # without starts there is one end too many
        try:
            draft = _draft(start["front"], text[start.end() : end])
        except (InvalidInput, ValueError):
            continue
        if draft is not None:
            drafts[draft] = None
    return list(drafts)


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
        created_ms=record_times.parse_time(_text(values["timestamp"])),
        status=MemoryStatus(status)
        if status in (MemoryStatus.RESOLVED, MemoryStatus.ARCHIVED)
        else MemoryStatus.ACTIVE,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [text for text in value if isinstance(text, str)]
    return [text for text in _text(value).split(",") if text.strip()]


def _line(value: object, limit: int) -> str:
    words = "".join(char if char.isprintable() else " " for char in _text(value)).split()
    line = " ".join(words)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _tags(value: object) -> list[str]:
    """Return the tags. Commas are allowed there but not here."""
    tags = (_line(tag.replace(",", " "), memories.MAX_TAG_CHARS) for tag in _texts(value))
    return [tag for tag in tags if tag][: memories.MAX_TAGS]


def _parse_related(value: object) -> list[str]:
    """Return the references that are valid here; those that end in a time are left out."""
    matches = (_REFERENCE.fullmatch(text.strip()) for text in _texts(value))
    return [match["name"] for match in matches if match][: memories.MAX_RELATED]
