"""Term vectors on an ordered store, one row for each owner."""

import hashlib
from collections.abc import Mapping, Sequence

from agent_memory.features.index.adapters.analysis_worker import AnalysisWorker
from agent_memory.features.index.model import term_vectors
from agent_memory.features.index.model.documents import Document, Owner
from agent_memory.features.index.model.term_vectors import TermVector
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families, keys
from agent_memory.platform.store.batches import Delete, DeleteRange, Put
from agent_memory.platform.store.rows import write

_LONGEST_KEY = 200  # bytes; a longer owner is replaced by its hash


class StoredTermVectors:
    def __init__(self, store: OrderedStore, analysis: AnalysisWorker | None = None) -> None:
        self._store = store
        self._analysis = analysis or AnalysisWorker()

    def replace(self, owned: Mapping[Owner, Sequence[Document]], /) -> None:
        if owned:
            first = [held[0] for held in owned.values() if held]
            values = iter(self._analysis.run(_encode_vectors, first))
            changes = (
                Put(families.TERM_VECTORS, _key(owner), next(values))
                if held
                else Delete(families.TERM_VECTORS, _key(owner))
                for owner, held in owned.items()
            )
            write(self._store, *changes)

    def get(self, owners: Sequence[Owner], /) -> list[TermVector | None]:
        values = self._store.get_many(families.TERM_VECTORS, [_key(owner) for owner in owners])
        return [None if value is None else _decode(value) for value in values]

    def clear(self) -> None:
        write(self._store, DeleteRange(families.TERM_VECTORS, b"", keys.LAST))


def _encode_vectors(documents: Sequence[Document]) -> list[bytes]:
    return [term_vectors.encode(term_vectors.build(document)) for document in documents]


def _decode(value: bytes) -> TermVector | None:
    try:
        return term_vectors.decode(value)
    except ValueError:
        return None  # ranking reads the text instead


def _key(owner: Owner) -> bytes:
    name = owner.encode("utf-8", "surrogateescape")
    if len(name) <= _LONGEST_KEY:
        return name
    return b"sha256:" + hashlib.sha256(name).hexdigest().encode()
