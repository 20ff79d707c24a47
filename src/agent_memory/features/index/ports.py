"""What search needs: an index of words, one of meanings, and what fills them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from agent_memory.features.index.model.documents import Document, DocumentKey, Owner
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import IndexHit, SearchScope, TermStatistics
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.kernel.status import IndexStats
from agent_memory.platform.ports import Ticket


class PendingEmbedding(NamedTuple):
    """Something in the embedding queue."""

    ticket: Ticket
    entry: OutboxEntry


class EmbeddingQueue(Protocol):
    """What has yet to be embedded. Live entries come before all others, newest first."""

    def add(self, entries: Sequence[OutboxEntry], /, *, live: bool) -> None: ...

    def list_pending(self, *, limit: int) -> list[PendingEmbedding]:
        """The next ones; they stay until they are done."""
        ...

    def mark_done(self, tickets: Sequence[Ticket], /) -> None: ...

    def clear(self) -> None: ...

    def size(self) -> int: ...


class Embedder(Protocol):
    """Gives texts a direction: the nearer two are, the more alike is what they mean."""

    model: str  # vectors of different models cannot be compared

    def embed(self, texts: Sequence[str], /) -> list[Vector]:
        """A vector of length one for each. Raises EmbedderFailed."""
        ...


class LexicalIndex(Protocol):
    """Finds documents by their words. It is derived, and can be filled again at any time."""

    def cursor(self) -> int | None:
        """The outbox entry up to which everything is in it. None: it must be filled first."""
        ...

    def replace(
        self, owned: Mapping[Owner, Sequence[Document]], /, *, cursor: int | None = None
    ) -> None:
        """Give these owners just these documents; durable and visible on return."""
        ...

    def find(self, terms: Sequence[str], scope: SearchScope, /, *, limit: int) -> list[IndexHit]:
        """Documents in scope with any of the terms, best first."""
        ...

    def find_newest(self, scope: SearchScope, /, *, limit: int) -> tuple[list[IndexHit], int]:
        """Documents in scope by time, and how many there are."""
        ...

    def get_statistics(self, terms: Sequence[str], /) -> TermStatistics: ...

    def begin(self, *, afresh: bool = False) -> None:
        """From here on everything is replaced. Afresh: nothing of what was there before stays in
        the files, not even of what was removed earlier."""
        ...

    def finish(self, *, cursor: int) -> None:
        """Remove what was not replaced since."""
        ...

    def stats(self) -> IndexStats: ...


class VectorIndex(Protocol):
    """Finds documents by what they mean. It is derived, and can be filled again at any time."""

    def list_damaged_files(self) -> list[str]:
        """Those that differ from their checksums."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether all that there is has been queued for it. Not so where it is new."""
        ...

    def mark_complete(self) -> None: ...

    def replace(
        self, owned: Mapping[Owner, Sequence[tuple[Document, Sequence[Vector]]]], /
    ) -> None:
        """Give these owners just these documents, each with the vectors of its parts; durable and
        visible on return."""
        ...

    def get_vectors(self, documents: Sequence[Document], /) -> list[list[Vector]]:
        """The vectors of those that are there with this same text."""
        ...

    def find_nearest(self, query: Vector, scope: SearchScope, /, *, limit: int) -> list[IndexHit]:
        """Documents in scope, nearest first."""
        ...

    def compute_cosines(self, query: Vector, keys: Sequence[DocumentKey], /) -> list[float | None]:
        """How near these are, where they are known."""
        ...

    def reset(self) -> None: ...

    def purge(self) -> None:
        """Leave nothing of what was removed in the files. Raises IndexFailed."""
        ...

    def stats(self) -> IndexStats: ...
