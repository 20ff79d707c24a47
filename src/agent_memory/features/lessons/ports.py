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
from agent_memory.features.log.model.events import Event
from agent_memory.kernel.ids import Position, SessionId


class LessonExtractor(Protocol):
    """Finds what events teach."""

    def extract(self, events: Sequence[Event], /) -> list[Lesson]:
        """Return the lessons of successive events of one session. What cannot be read teaches
        nothing. Raises WorkerClosed."""
        ...


class LessonStore(Protocol):
    """The lessons of all sessions, what people say of them, and what came of them. Every method
    raises StorageFailed."""

    def cursor(self) -> int | None:
        """Return the last outbox entry that was learned from; None: none ever was."""
        ...

    def advance(self, cursor: int, /) -> None:
        """Note how far the outbox is learned from."""
        ...

    def history(self) -> Position | None:
        """Return how far the events of a store that predates lessons are learned from; None: there
        are no such events left."""
        ...

    def set_history(self, at: Position | None, /) -> None: ...

    def edition(self) -> int:
        """Return the edition that sessions were learned with; 0 if none ever was."""
        ...

    def set_edition(self, edition: int, /) -> None: ...

    def replace(
        self,
        session: SessionId,
        since: Position | None,
        until: Position | None,
        lessons: Sequence[Lesson],
        /,
    ) -> None:
        """Replace the lessons of a session whose telling event is at `since` or later and before
        `until`; None sets no limit. One that stays keeps its outcomes, and while its words stay its
        vectors."""
        ...

    def list_all(self, project: str | None = None, /) -> list[KnownLesson]:
        """List the lessons of a project, or of all for None, oldest first."""
        ...

    def list_session(self, session: SessionId, /) -> list[Lesson]:
        """List the lessons of a session, oldest first."""
        ...

    def get(self, ids: Sequence[LessonId], /) -> list[KnownLesson | None]:
        """Return the lessons with these ids, in order; None for those that are gone."""
        ...

    def find(self, prefix: str, /, *, limit: int) -> list[LessonId]:
        """List ids that begin so, in their order."""
        ...

    def list_unembedded(self, *, limit: int) -> list[Lesson]:
        """List lessons that have no vectors of the present model, newest first."""
        ...

    def count_unembedded(self) -> int: ...

    def set_vectors(self, vectors: Mapping[LessonId, tuple[bytes, ...]], /) -> None:
        """Keep the vectors of lessons; of those that are gone, none."""
        ...

    def set_verdict(self, verdict: LessonVerdict, /) -> None: ...

    def remove_verdict(self, fingerprint: Fingerprint, /) -> None: ...

    def list_verdicts(self) -> dict[Fingerprint, LessonVerdict]:
        """List what people say, by the words of lessons."""
        ...

    def set_outcomes(
        self, outcomes: Mapping[LessonId, Outcomes], days: Mapping[int, Outcomes], /
    ) -> None:
        """Keep the outcomes of lessons, and those of all on a day since 1970, in UTC. Do not wait
        until they are durable."""
        ...

    def list_days(self, since: int, /) -> dict[int, Outcomes]:
        """List the outcomes of the days from one on."""
        ...

    def version(self, project: str, /) -> int:
        """Return a number that changes with every change of the lessons of a project, by any
        daemon of this store. Their outcomes do not count."""
        ...
