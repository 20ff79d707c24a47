"""What search needs: an index of words, one of meanings, and what fills them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from agent_memory.features.index.model.documents import Document, DocumentKey, Owner
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import Found, Scope, Statistics
from agent_memory.features.log.model.outbox import Entry
from agent_memory.kernel.status import IndexStats
from agent_memory.platform.ports import Ticket


class Waiting(NamedTuple):
    """Something in the embedding queue."""

    ticket: Ticket
    entry: Entry


class EmbeddingQueue(Protocol):
    """What has yet to be embedded. Live entries come before all others, newest first."""

    def add(self, entries: Sequence[Entry], /, *, live: bool) -> None: ...

    def newest(self, *, limit: int) -> list[Waiting]:
        """The next ones; they stay until they are done."""
        ...

    def done(self, tickets: Sequence[Ticket], /) -> None: ...

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

    def find(self, terms: Sequence[str], scope: Scope, /, *, limit: int) -> list[Found]:
        """Documents in scope with any of the terms, best first."""
        ...

    def newest(self, scope: Scope, /, *, limit: int) -> tuple[list[Found], int]:
        """Documents in scope by time, and how many there are."""
        ...

    def statistics(self, terms: Sequence[str], /) -> Statistics: ...

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

    def damaged_files(self) -> list[str]:
        """Those that differ from their checksums."""
        ...

    @property
    def complete(self) -> bool:
        """Whether all that there is has been queued for it. Not so where it is new."""
        ...

    def mark_complete(self) -> None: ...

    def replace(
        self, owned: Mapping[Owner, Sequence[tuple[Document, Sequence[Vector]]]], /
    ) -> None:
        """Give these owners just these documents, each with the vectors of its parts; durable and
        visible on return."""
        ...

    def known(self, documents: Sequence[Document], /) -> list[list[Vector]]:
        """The vectors of those that are there with this same text."""
        ...

    def nearest(self, query: Vector, scope: Scope, /, *, limit: int) -> list[Found]:
        """Documents in scope, nearest first."""
        ...

    def cosines(self, query: Vector, keys: Sequence[DocumentKey], /) -> list[float | None]:
        """How near these are, where they are known."""
        ...

    def reset(self) -> None: ...

    def purge(self) -> None:
        """Leave nothing of what was removed in the files. Raises IndexFailed."""
        ...

    def stats(self) -> IndexStats: ...
