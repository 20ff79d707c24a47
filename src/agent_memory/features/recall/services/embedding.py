"""Embed documents from the queue into the vector index, live conversations before the backlog."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from agent_memory.features.index.model import embeddings
from agent_memory.features.index.model.documents import Document, Owner
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.ports import (
    Embedder,
    EmbeddingQueue,
    PendingEmbedding,
    VectorCopies,
    VectorIndex,
)
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.kernel.errors import EmbedderRefused

# Characters and records per batch: about a second of work on an idle machine. Each batch is synced,
# so smaller ones are slower.
BATCH_CHARS = 16_000
BATCH_RECORDS = 128

Owned = Mapping[Owner, Sequence[Document]]


class _MadeVectors(NamedTuple):
    """The vectors of documents. `copied` are those that were made earlier."""

    vectors: Mapping[Document, Sequence[Vector]]
    copied: set[Document]


@dataclass(frozen=True, slots=True)
class EmbeddingWriter:
    documents: DocumentReader
    queue: EmbeddingQueue
    embedder: Embedder
    vectors: VectorIndex
    copies: VectorCopies | None = None  # of vectors that other daemons have made
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while vectors change
    live_step: threading.Lock = field(default_factory=threading.Lock)
    past_step: threading.Lock = field(default_factory=threading.Lock)

    def step(self, *, live: bool | None = None) -> int:
        """Embed the next batch and return its size: of live records, of past ones, or of both, live
        ones first. Raises EmbedderFailed."""
        with self.live_step if live else self.past_step:
            batch = self._next(live)
            self._embed(batch, live=live is not False)
        return len(batch)

    def embed(self, entries: Sequence[OutboxEntry]) -> None:
        """Embed live records that are not queued yet. Raises EmbedderFailed."""
        if entries:
            made = self._make_vectors(self.documents.read_owned(entries), live=True)
            with self.lock:
                self._store(entries, made)

    def fill(self, on_progress: Callable[[int], None]) -> int:
        """Queue every record and return their number. What is embedded already is not embedded
        again."""
        count = 0
        self.queue.clear()
        for entries in self.documents.list_entries():
            owned = self.documents.read_owned(entries)
            self.queue.add(embeddings.prioritize(entries, owned), live=False)
            count += len(entries)
            on_progress(count)
        self.vectors.mark_complete()
        return count

    def drop(self, entries: Sequence[OutboxEntry]) -> None:
        """Remove the vectors that these entries' records no longer have, without waiting for the
        queue. New documents are embedded in their turn."""
        with self.lock:
            owned = self.documents.read_owned(entries)
            documents = [document for held in owned.values() for document in held]
            known = dict(zip(documents, self.vectors.get_vectors(documents), strict=True))
            self.vectors.replace(
                {
                    owner: [(each, known[each]) for each in held if known[each]]
                    for owner, held in owned.items()
                }
            )
            self._copy(owned, known)

    def purge(self) -> None:
        with self.lock:
            self.vectors.purge()

    def _next(self, live: bool | None) -> list[PendingEmbedding]:
        """Return the next records, until their texts fill a batch."""
        batch: list[PendingEmbedding] = []
        size = 0
        for pending in self.queue.list_pending(limit=BATCH_RECORDS, live=live):
            owned = self.documents.read_owned([pending.entry])
            size += sum(embeddings.count_chars(each) for held in owned.values() for each in held)
            if batch and size > BATCH_CHARS:
                break
            batch.append(pending)
        return batch

    def _embed(self, batch: Sequence[PendingEmbedding], *, live: bool) -> None:
        """Embed records, without the lock: a backlog may take long. Then store the vectors of
        what is still the same. What has changed meanwhile is in the queue again."""
        if not batch:
            return
        entries = [pending.entry for pending in batch]
        try:
            made = self._make_vectors(self.documents.read_owned(entries), live=live)
        except EmbedderRefused:
            if len(batch) > 1:  # one by one, so that this text does not hold up the others
                for pending in batch:
                    self._embed([pending], live=live)
                return
            made = _MadeVectors({}, set())
        with self.lock:
            self._store(entries, made)
            self.queue.mark_done([pending.ticket for pending in batch])

    def _store(self, entries: Sequence[OutboxEntry], made: _MadeVectors) -> None:
        """Store the vectors of the records as they are now."""
        owned = self.documents.read_owned(entries)
        self.vectors.replace(
            {
                owner: [(each, made.vectors[each]) for each in held if each in made.vectors]
                for owner, held in owned.items()
            }
        )
        self._copy(
            {
                owner: held
                for owner, held in owned.items()
                if not (held and made.copied.issuperset(held))
            },
            made.vectors,
        )

    def _copy(self, owned: Owned, made: Mapping[Document, Sequence[Vector]]) -> None:
        """Keep copies for other daemons, and none of what the records no longer hold."""
        if self.copies is not None:
            self.copies.replace(
                {
                    owner: {each: made[each] for each in held if made.get(each)}
                    for owner, held in owned.items()
                }
            )

    def _make_vectors(self, owned: Owned, *, live: bool) -> _MadeVectors:
        """Return the vectors of the documents. Only those that have none yet are embedded."""
        documents = [document for held in owned.values() for document in held]
        vectors = dict(zip(documents, self.vectors.get_vectors(documents), strict=True))
        if self.copies is not None:
            missing = [each for each, known in vectors.items() if not known]
            vectors |= zip(missing, self.copies.get(missing), strict=True)
        copied = {each for each, known in vectors.items() if known}
        new = {each: embeddings.split_parts(each) for each, known in vectors.items() if not known}
        texts = [part for parts in new.values() for part in parts]
        made = iter(self.embedder.embed(texts, live=live))
        vectors |= {each: list(islice(made, len(parts))) for each, parts in new.items()}
        return _MadeVectors(vectors, copied)
