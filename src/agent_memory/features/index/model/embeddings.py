"""Embeddings: vectors, and the parts of a document that are embedded."""

import re
from typing import NewType

from agent_memory.features.index.model.documents import Document, DocumentKind

Vector = NewType("Vector", bytes)
"""A unit vector of 32-bit floats, little-endian."""

PART_WORDS = 100  # a small model reads this much well, and it covers about one topic
MOST_PARTS = 6
_MOST_CHARS = 8_000
_PART_CHARS = 1_000  # bounds very long words such as base64
_WORD = re.compile(r"\S+")


def split_parts(document: Document) -> list[str]:
    """Return the texts to embed: the bare text of a document, a long one in equal parts.

    Speaker and time are left out: names attract every text that mentions them.
    """
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
