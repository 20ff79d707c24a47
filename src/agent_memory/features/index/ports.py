"""Ports of search: the lexical index, term vectors, the vector index, the embedder, its queue."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from agent_memory.features.index.model.documents import Document, DocumentKey, Owner
from agent_memory.features.index.model.embeddings import Priority, Vector
from agent_memory.features.index.model.queries import IndexHit, SearchScope, TermStatistics
from agent_memory.features.index.model.term_vectors import TermVector
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.kernel.access import Principal
from agent_memory.kernel.status import IndexStats
from agent_memory.platform.ports import Ticket


class PendingEmbedding(NamedTuple):
    """An entry of the embedding queue. `ticket` identifies it in `mark_done`."""

    ticket: Ticket
    entry: OutboxEntry


class EmbeddingQueue(Protocol):
    """The records that still have to be embedded: live ones first, then past ones, each by
    priority."""

    def add(self, entries: Mapping[OutboxEntry, Priority], /, *, live: bool) -> None:
        """Queue records durably. `live` is for new ones, otherwise they are of the past."""
        ...

    def list_pending(self, *, limit: int, live: bool | None = None) -> list[PendingEmbedding]:
        """Return the next entries, the newest of a priority first; they stay queued until
        `mark_done`. Unless `live` is None, only live ones or only past ones."""
        ...

    def mark_done(self, tickets: Sequence[Ticket], /) -> None:
        """Remove entries from the queue."""
        ...

    def clear(self) -> None:
        """Remove all entries."""
        ...

    def size(self) -> int:
        """Return the number of entries."""
        ...

    def count(self) -> Mapping[Priority, int]:
        """Return the number of entries of each priority that has any."""
        ...


class Embedder(Protocol):
    """A model that embeds texts as unit vectors. Similar texts have near vectors.

    Both methods raise EmbedderFailed, or its subclass EmbedderRefused if a text is at fault.
    """

    model: str  # only vectors of the same model are comparable
    unrelated: float  # the cosine of two texts that have nothing to do with each other

    def embed(self, texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:
        """Return a unit vector for each text, in order. It does not depend on the other texts.

        Texts that are not `live` may take long: they get what other programs leave of the machine.
        """
        ...

    def embed_question(self, text: str, /) -> Vector:
        """Return the unit vector that is near those of texts which answer this question."""
        ...


class LexicalIndex(Protocol):
    """An index of documents by their words. It is derived and can be filled again at any time.

    Every method but `cursor` raises IndexFailed if the index cannot be read or written.
    """

    def cursor(self) -> int | None:
        """Return the number of the last indexed outbox entry.

        None means that the index is new or damaged and must be filled.
        """
        ...

    def replace(
        self, owned: Mapping[Owner, Sequence[Document]], /, *, cursor: int | None = None
    ) -> None:
        """Replace all documents of these owners; durable and visible on return."""
        ...

    def find(self, terms: Sequence[str], scope: SearchScope, /, *, limit: int) -> list[IndexHit]:
        """Return the documents in scope with any of the terms, best first, then newest first.

        On a team server, documents that the caller does not see have no part in the order.
        """
        ...

    def find_newest(self, scope: SearchScope, /, *, limit: int) -> tuple[list[IndexHit], int]:
        """Return the newest documents in scope, newest first, and the number of all in scope."""
        ...

    def get_statistics(
        self, terms: Sequence[str], caller: Principal | None = None, /
    ) -> TermStatistics:
        """Return the statistics that weigh these terms, on a team server of the documents that
        the caller sees. Without a caller, counts may include deleted documents."""
        ...

    def begin(self, *, afresh: bool = False) -> None:
        """Start filling the index: every document is replaced from here on.

        If `afresh`, the files keep nothing of the old content, not even of removed documents.
        """
        ...

    def finish(self, *, cursor: int) -> None:
        """End the filling: remove every document that was not replaced since `begin`."""
        ...

    def stats(self) -> IndexStats:
        """Return the number of documents and the size of the files."""
        ...


class TermVectors(Protocol):
    """The term vector of each owner's first document. They are derived, and any may be missing.

    Every method raises StorageFailed if the store cannot be read or written.
    """

    def replace(self, owned: Mapping[Owner, Sequence[Document]], /) -> None:
        """Replace the vectors of these owners; an owner without documents loses its vector.

        The change is durable on return.
        """
        ...

    def get(self, owners: Sequence[Owner], /) -> list[TermVector | None]:
        """Return the vectors of the owners, in order; None if one is missing or damaged."""
        ...

    def clear(self) -> None:
        """Remove all vectors."""
        ...


class VectorCopies(Protocol):
    """Vectors that one of several daemons has made, for the indexes of the others.

    Every method raises StorageFailed if the store cannot be read or written.
    """

    def get(self, documents: Sequence[Document], /) -> list[list[Vector]]:
        """Return the vectors of each document; none if nobody has made them."""
        ...

    def replace(self, owned: Mapping[Owner, Mapping[Document, Sequence[Vector]]], /) -> None:
        """Replace the copies of these owners; an owner without documents loses all of them."""
        ...


class PartCosines(NamedTuple):
    """The cosines of a query and the parts of a document."""

    nearest: float
    average: float
    part: int  # the number of the nearest part


class VectorIndex(Protocol):
    """An index of documents by their meaning. It is derived and can be filled again at any time."""

    def list_damaged_files(self) -> list[str]:
        """Return the names of files that do not match their checksums."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether every record was queued for it. False for a new index."""
        ...

    @property
    def is_empty(self) -> bool:
        """True only if nothing can be found. It may turn False at any time."""
        ...

    def mark_complete(self) -> None:
        """Record durably that every record was queued."""
        ...

    def replace(
        self, owned: Mapping[Owner, Sequence[tuple[Document, Sequence[Vector]]]], /
    ) -> None:
        """Replace all documents of these owners, each with the vectors of its parts.

        The change is durable and visible on return. Raises IndexFailed if it cannot be written.
        """
        ...

    def get_vectors(self, documents: Sequence[Document], /) -> list[list[Vector]]:
        """Return the vectors of each document; none if it is missing or has another text."""
        ...

    def find_nearest(self, query: Vector, scope: SearchScope, /, *, limit: int) -> list[IndexHit]:
        """Return the documents in scope, nearest first.

        Raises IndexFailed if the query has another dimension than the index.
        """
        ...

    def compute_cosines(
        self, query: Vector, keys: Sequence[DocumentKey], /
    ) -> list[PartCosines | None]:
        """Return the cosines of the query and each document, or None if it is not indexed."""
        ...

    def reset(self) -> None:
        """Remove everything; the index is then not complete."""
        ...

    def purge(self) -> None:
        """Erase removed documents from the files too. Raises IndexFailed if that fails."""
        ...

    def stats(self) -> IndexStats:
        """Return the number of documents and the size of the files."""
        ...
