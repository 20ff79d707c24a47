"""An Embedder without a model, for tests: texts that share words have near vectors."""

import math
import re
import struct
from collections.abc import Sequence
from hashlib import blake2b

from agent_memory.features.index.model.embeddings import Vector

DIMENSION = 64
_WORD = re.compile(r"\w+")


class HashingEmbedder:
    """An embedder in which each word of a text adds its own direction."""

    model = f"hashing/{DIMENSION}"
    unrelated = 0.0

    def embed(self, texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:  # noqa: ARG002
        return [_vector(text) for text in texts]

    def embed_question(self, text: str, /) -> Vector:
        return _vector(text)


def _vector(text: str) -> Vector:
    summed = [0.0] * DIMENSION
    # Even a text without words has a direction, and no two words can cancel all of it.
    for word in ("", *_WORD.findall(text.lower())):
        weight = 0.1 if not word else 1.0
        for number, byte in enumerate(blake2b(word.encode(), digest_size=DIMENSION).digest()):
            summed[number] += weight * (byte - 127.5)
    size = math.sqrt(sum(value * value for value in summed))
    return Vector(struct.pack(f"<{DIMENSION}f", *(value / size for value in summed)))
