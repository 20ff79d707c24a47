"""Embeddings: vectors, and the parts of a document that are embedded."""

from typing import NewType

from agent_memory.features.index.model.documents import Document, DocumentKind

Vector = NewType("Vector", bytes)
"""A unit vector of 32-bit floats, little-endian."""

PART_WORDS = 100  # a small model reads this much well, and it covers about one topic
MOST_PARTS = 6
_MOST_CHARS = 8_000
_PART_CHARS = 1_000  # bounds very long words such as base64


def split_parts(document: Document) -> list[str]:
    """Return the texts to embed: the bare text of a document, a long one in equal parts.

    Speaker and time are left out: names attract every text that mentions them.
    """
    text = document.text[:_MOST_CHARS]
    if document.kind is DocumentKind.MEMORY:
        text = f"{document.title}\n{text}"
    words = text.split()
    if document.tool:
        words = words[:PART_WORDS]  # the beginning of tool output shows what it is
    count = min(MOST_PARTS, -(-len(words) // PART_WORDS))
    words = words[: count * PART_WORDS]
    size = -(-len(words) // count) if count else 1
    parts = (" ".join(words[start : start + size]) for start in range(0, len(words), size))
    return [part[:_PART_CHARS] for part in parts]
