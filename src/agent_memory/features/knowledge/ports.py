"""What knowledge needs from storage."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from agent_memory.kernel.ids import KnowledgeId, Millis


class KnowledgeRecord(Protocol):
    """Something that is known: a fact, an episode, ... It is listed by when it was made."""

    @property
    def id(self) -> KnowledgeId: ...

    @property
    def made_ms(self) -> Millis: ...


R = TypeVar("R", bound=KnowledgeRecord)


class KnowledgeChange(NamedTuple):
    """A record as it was, if it was, and as it is to be, if it is."""

    before: KnowledgeRecord | None
    after: KnowledgeRecord | None


class KnowledgeStore(Protocol):
    """Facts, episodes, procedures, users, and the sessions they were learned from."""

    def get(self, kind: type[R], names: Sequence[str], /) -> list[R | None]: ...

    def list_page(
        self, kind: type[R], /, *, limit: int, offset: int, **wanted: str | None
    ) -> tuple[list[R], int]:
        """Records with these values, the newest first, and how many there are in all."""
        ...

    def list_after(self, kind: type[R], name: str, /, *, limit: int) -> list[R]:
        """In the order of their ids, from the one after this."""
        ...

    def commit(
        self, changes: Sequence[KnowledgeChange], /, *, cursor: int | None = None, wait: bool = True
    ) -> bool:
        """All of it or nothing: False where a record is not, or no longer, as it was. Durable on
        return, unless nobody waits."""
        ...

    def version(self, kind: type[KnowledgeRecord], /) -> int:
        """It changes with whatever is written of this kind: what was read before may be out of date
        where it is another one."""
        ...

    def cursor(self) -> int | None:
        """The outbox entry up to which everything was learned from. None: nothing was."""
        ...
