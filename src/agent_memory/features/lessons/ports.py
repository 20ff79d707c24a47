"""Ports of lessons: where they are kept."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agent_memory.features.lessons.model.lessons import (
    Fingerprint,
    KnownLesson,
    Lesson,
    LessonId,
    LessonVerdict,
    Outcomes,
)
from agent_memory.kernel.ids import Position, SessionId


class LessonStore(Protocol):
    """The lessons of all sessions, what people say of them, and what came of them. Every method
    raises StorageFailed."""

    def cursor(self) -> int | None:
        """Return the last outbox entry that was learned from; None: none ever was."""
        ...

    def replace(
        self,
        session: SessionId,
        since: Position | None,
        lessons: Sequence[Lesson],
        /,
    ) -> None:
        """Replace the lessons of a session whose telling event is at `since` or later; all of
        them for None."""
        ...

    def advance(self, cursor: int, /) -> None:
        """Note how far the outbox is learned from."""
        ...

    def list_all(self, project: str = "", /) -> list[KnownLesson]:
        """List the lessons of a project, or of all, oldest first."""
        ...

    def set_vectors(self, vectors: Mapping[LessonId, tuple[bytes, ...]], /) -> None:
        """Keep the vectors of lessons; of those that are gone, none."""
        ...

    def set_verdict(self, verdict: LessonVerdict, /) -> None: ...

    def remove_verdict(self, fingerprint: Fingerprint, /) -> None: ...

    def set_outcomes(self, outcomes: Mapping[LessonId, Outcomes], /) -> None: ...

    def version(self) -> int:
        """Return a number that changes with every write, by any daemon of this store."""
        ...
