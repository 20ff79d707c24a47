"""Embed documents from the queue into the vector index, live conversations before the backlog."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from agent_memory.features.index.model import embeddings
from agent_memory.features.index.model.documents import Document, Owner
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.ports import Embedder, EmbeddingQueue, VectorIndex
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.kernel.errors import EmbedderRefused
from agent_memory.platform.ports import Ticket

# Characters and records per batch: about a second of work, then live entries get their turn. A
# smaller batch is slower, because fewer texts are of similar length and each batch is synced.
BATCH_CHARS = 16_000
BATCH_RECORDS = 128

Owned = Mapping[Owner, Sequence[Document]]


@dataclass(frozen=True, slots=True)
class EmbeddingWriter:
    documents: DocumentReader
    queue: EmbeddingQueue
    embedder: Embedder
    vectors: VectorIndex
    lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self) -> int:
        """Embed the next batch and return its size. Raises EmbedderFailed."""
        with self.lock:
            batch = self._next()
            try:
                self._put([owned for _, owned in batch])
            except EmbedderRefused:
                self._put_singly([owned for _, owned in batch])
            self.queue.mark_done([ticket for ticket, _ in batch])
            return len(batch)

    def fill(self, on_progress: Callable[[int], None]) -> int:
        """Queue every record and return their number. What is embedded already is not embedded
        again."""
        count = 0
        with self.lock:
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

    def purge(self) -> None:
        with self.lock:
            self.vectors.purge()

    def _next(self) -> list[tuple[Ticket, Owned]]:
        """Return the next records, until their texts fill a batch."""
        batch: list[tuple[Ticket, Owned]] = []
        size = 0
        for ticket, entry in self.queue.list_pending(limit=BATCH_RECORDS):
            owned = self.documents.read_owned([entry])
            size += sum(embeddings.count_chars(each) for held in owned.values() for each in held)
            if batch and size > BATCH_CHARS:
                break
            batch.append((ticket, owned))
        return batch

    def _put_singly(self, records: Sequence[Owned]) -> None:
        """Embed texts one by one, so that a text the embedder refuses does not hold up the
        others."""
        for owned in records:
            try:
                self._put([owned])
            except EmbedderRefused:
                self.vectors.replace({owner: [] for owner in owned})

    def _put(self, records: Sequence[Owned]) -> None:
        owned = {owner: held for record in records for owner, held in record.items()}
        documents = [document for held in owned.values() for document in held]
        vectors = dict(zip(documents, self.vectors.get_vectors(documents), strict=True))
        new = {each: embeddings.split_parts(each) for each, known in vectors.items() if not known}
        made = iter(self.embedder.embed([part for parts in new.values() for part in parts]))
        found: dict[Document, list[Vector]] = vectors | {
            each: list(islice(made, len(parts))) for each, parts in new.items()
        }
        self.vectors.replace(
            {owner: [(each, found[each]) for each in held] for owner, held in owned.items()}
        )
