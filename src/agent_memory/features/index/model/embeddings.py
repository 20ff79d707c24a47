"""Embeddings: vectors, the parts of a document that are embedded, and what is embedded first."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NewType

from agent_memory.features.index.model.documents import (
    Document,
    DocumentKind,
    Owner,
    event_owner,
    is_noise,
)
from agent_memory.features.log.model.outbox import EventChanged, OutboxEntry, SegmentChanged

Vector = NewType("Vector", bytes)
"""A unit vector of 32-bit floats, little-endian."""

PART_WORDS = 100  # a small model reads this much well, and it covers about one topic
MOST_PARTS = 6
_MOST_CHARS = 8_000
_PART_CHARS = 1_000  # bounds very long words such as base64
_WORD = re.compile(r"\S+")


class Priority(IntEnum):
    """Which documents are embedded first: the highest. The numbers are stored: never change
    them."""

    TOOL_RESULTS = 1  # and whatever else is no message
    SEGMENTS = 2
    ANSWERS = 3
    PROMPTS = 4
    MEMORIES = 5  # and facts


_BY_ROLE = {"user": Priority.PROMPTS, "assistant": Priority.ANSWERS}


def prioritize(
    entries: Iterable[OutboxEntry], owned: Mapping[Owner, Sequence[Document]]
) -> dict[OutboxEntry, Priority]:
    """Map each entry to its priority. `owned` has the documents of its record; a record without
    any comes last."""

    def choose(entry: OutboxEntry) -> Priority:
        match entry:
            case EventChanged(at=at):
                held = owned.get(event_owner(at.event_id), ())
                roles = (_BY_ROLE.get(each.role) for each in held)
                return next(filter(None, roles), Priority.TOOL_RESULTS)
            case SegmentChanged():
                return Priority.SEGMENTS
            case _:
                return Priority.MEMORIES

    return {entry: choose(entry) for entry in entries}


def count_chars(document: Document) -> int:
    """Return about how many characters of a document are embedded, without splitting it."""
    most = _PART_CHARS if document.tool else MOST_PARTS * _PART_CHARS
    return min(most, len(document.text))


def split_parts(document: Document) -> list[str]:
    """Return the texts to embed: the bare text of a document, a long one in equal parts. A tool
    result that says nothing has none.

    Speaker and time are left out: names attract every text that mentions them.
    """
    if is_noise(document):
        return []
    words = _get_embedded_text(document).split()
    kept, size = _divide(document, len(words))
    parts = (" ".join(words[start : start + size]) for start in range(0, kept, size))
    return [part[:_PART_CHARS] for part in parts]


def locate_part(document: Document, number: int) -> tuple[int, int]:
    """Return the range of characters in `document.text` that part `number` was made from."""
    text = _get_embedded_text(document)
    words = [word.span() for word in _WORD.finditer(text)]
    kept, size = _divide(document, len(words))
    part = words[:kept][number * size : (number + 1) * size] or [(0, 0)]
    ahead = len(text) - len(document.text[:_MOST_CHARS])  # the title of a memory
    return max(0, part[0][0] - ahead), max(0, part[-1][1] - ahead)


def _get_embedded_text(document: Document) -> str:
    text = document.text[:_MOST_CHARS]
    return f"{document.title}\n{text}" if document.kind is DocumentKind.MEMORY else text


def _divide(document: Document, words: int) -> tuple[int, int]:
    """Return how many of the words are embedded, and how many make a part."""
    if document.tool:
        words = min(words, PART_WORDS)  # the beginning of tool output shows what it is
    count = min(MOST_PARTS, -(-words // PART_WORDS))
    words = min(words, count * PART_WORDS)
    return words, -(-words // count) if count else 1
