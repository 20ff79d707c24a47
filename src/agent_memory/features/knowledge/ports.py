"""Ports of knowledge: storage."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from agent_memory.kernel.ids import KnowledgeId


class KnowledgeRecord(Protocol):
    """A record such as a fact or an episode."""

    @property
    def id(self) -> KnowledgeId: ...


R = TypeVar("R", bound=KnowledgeRecord)


class KnowledgeChange(NamedTuple):
    """A record before and after a change: None before is new, None after is removed."""

    before: KnowledgeRecord | None
    after: KnowledgeRecord | None


class KnowledgeStore(Protocol):
    """Facts, episodes, procedures, users, and the sessions they were learned from."""

    def get(self, kind: type[R], names: Sequence[str], /) -> list[R | None]: ...

    def list_page(
        self, kind: type[R], /, *, limit: int, offset: int, **filters: str | None
    ) -> tuple[list[R], int]:
        """Return records with these values, newest first, and their total number."""
        ...

    def list_after(self, kind: type[R], name: str, /, *, limit: int) -> list[R]:
        """List records in the order of their ids, from the one after `name`."""
        ...

    def commit(
        self, changes: Sequence[KnowledgeChange], /, *, cursor: int | None = None, wait: bool = True
    ) -> bool:
        """Apply all changes or none: False if a record is not as `before`. `wait` until durable."""
        ...

    def version(self, kind: type[KnowledgeRecord], /) -> int:
        """Return a number that changes with every write of this kind."""
        ...

    def cursor(self) -> int | None:
        """Return the last outbox entry that was learned from; None if there is none."""
        ...


class RemovalFinder(Protocol):
    """Finds out when a fact was removed on another machine; 0 if it was not."""

    def __call__(self, fact: KnowledgeId, scope: str, /) -> int: ...
