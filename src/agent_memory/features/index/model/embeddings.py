"""Embeddings: which parts of a document are embedded, and what comes of it."""

from typing import NewType

from agent_memory.features.index.model.documents import Document, DocumentKind

Vector = NewType("Vector", bytes)
"""32-bit floats, little-endian; of length one."""

PART_WORDS = 100  # what a small model reads well, and what one topic fills
MOST_PARTS = 6
_MOST_CHARS = 8_000
_PART_CHARS = 1_000  # for words that are none: base64 and the like


def split_parts(document: Document) -> list[str]:
    """What stands for a document when its meaning is compared: its bare text, a long one in parts
    of equal length. Who said it and when is left out: names attract whatever mentions them."""
    text = document.text[:_MOST_CHARS]
    if document.kind is DocumentKind.MEMORY:
        text = f"{document.title}\n{text}"
    words = text.split()
    if document.tool:
        words = words[:PART_WORDS]  # of tool output, the beginning tells what it is
    count = min(MOST_PARTS, -(-len(words) // PART_WORDS))
    words = words[: count * PART_WORDS]
    size = -(-len(words) // count) if count else 1
    parts = (" ".join(words[start : start + size]) for start in range(0, len(words), size))
    return [part[:_PART_CHARS] for part in parts]
