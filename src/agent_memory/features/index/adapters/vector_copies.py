"""Copies of vectors on an ordered store, in half precision: two bytes for each number."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent_memory.features.index.model import embeddings
from agent_memory.features.index.model.documents import Document, Owner
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.kernel.late_package import LatePackage
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families, keys
from agent_memory.platform.store.batches import DeleteRange, Operation, Put
from agent_memory.platform.store.rows import write

if TYPE_CHECKING:
    import numpy as np
else:
    np = LatePackage("numpy")

_FULL, _HALF = "<f4", "<f2"


class StoredVectorCopies:
    def __init__(self, store: OrderedStore, model: str) -> None:
        self._store = store
        self._model = model

    def get(self, documents: Sequence[Document], /) -> list[list[Vector]]:
        if not documents:
            return []
        places = [self._key(document) for document in documents]
        return [
            [] if value is None else _decode(value)
            for value in self._store.get_many(families.VECTOR_COPIES, places)
        ]

    def replace(self, owned: Mapping[Owner, Mapping[Document, Sequence[Vector]]], /) -> None:
        operations: list[Operation] = []
        for owner, vectors in owned.items():
            prefix = _prefix(owner)
            operations.append(DeleteRange(families.VECTOR_COPIES, prefix, keys.end_of(prefix)))
            operations += [
                Put(families.VECTOR_COPIES, self._key(document), _encode(made))
                for document, made in vectors.items()
                if made
            ]
        if operations:
            write(self._store, *operations)

    def _key(self, document: Document) -> bytes:
        """Return a key that changes with the words that are embedded, and with the model."""
        words = "\0".join((self._model, *embeddings.split_parts(document)))
        digest = hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16)
        return _prefix(document.owner) + digest.hexdigest().encode()


def _prefix(owner: Owner) -> bytes:
    name = owner.encode("utf-8", "surrogateescape")
    return hashlib.blake2b(name, digest_size=16).hexdigest().encode() + b":"


def _encode(vectors: Sequence[Vector]) -> bytes:
    rows = [np.frombuffer(each, _FULL).astype(_HALF).tobytes() for each in vectors]
    return len(rows).to_bytes(2, "big") + b"".join(rows)


def _decode(value: bytes) -> list[Vector]:
    """Return unit vectors again: half precision has changed their length a little."""
    count = int.from_bytes(value[:2], "big")
    rows = np.frombuffer(value, _HALF, offset=2).astype(_FULL).reshape(count, -1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return [Vector(row.tobytes()) for row in rows]
