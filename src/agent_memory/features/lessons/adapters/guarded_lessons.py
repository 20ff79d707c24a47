"""The lessons of a team server: each caller sees those of their projects."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from agent_memory.features.lessons.model.lessons import (
    Fingerprint,
    KnownLesson,
    Lesson,
    LessonId,
    LessonVerdict,
    Outcomes,
)
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.kernel import access
from agent_memory.kernel.errors import Forbidden
from agent_memory.kernel.ids import Position, SessionId

_JOB = "the job that learns uses it, on nobody's behalf"


class GuardedLessons:
    """A LessonStore."""

    OPEN: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("cursor", "advance", "history", "set_history", "replace"), _JOB),
        **dict.fromkeys(("edition", "set_edition"), _JOB),
        **dict.fromkeys(("list_unembedded", "count_unembedded", "set_vectors"), _JOB),
        "find": "ids say nothing, and are read with `get`",
        "list_verdicts": "the archive of everything has them, which its owner alone may make",
        "list_days": "numbers of all projects, which only the owner of a memory is shown",
        "set_outcomes": "they count what was given to agents, by ids that these were shown",
        "version": "the number of changes is shown to nobody; caches compare it",
    }

    def __init__(self, store: LessonStore) -> None:
        self._store = store

    def cursor(self) -> int | None:
        return self._store.cursor()

    def advance(self, cursor: int, /) -> None:
        self._store.advance(cursor)

    def history(self) -> Position | None:
        return self._store.history()

    def set_history(self, at: Position | None, /) -> None:
        self._store.set_history(at)

    def edition(self) -> int:
        return self._store.edition()

    def set_edition(self, edition: int, /) -> None:
        self._store.set_edition(edition)

    def replace(
        self,
        session: SessionId,
        since: Position | None,
        until: Position | None,
        lessons: Sequence[Lesson],
        /,
    ) -> None:
        self._store.replace(session, since, until, lessons)

    def list_all(self, project: str | None = None, /) -> list[KnownLesson]:
        return [each for each in self._store.list_all(project) if _sees(each.lesson)]

    def list_session(self, session: SessionId, /) -> list[Lesson]:
        return [each for each in self._store.list_session(session) if _sees(each)]

    def get(self, ids: Sequence[LessonId], /) -> list[KnownLesson | None]:
        found = self._store.get(ids)
        return [each if each is not None and _sees(each.lesson) else None for each in found]

    def find(self, prefix: str, /, *, limit: int) -> list[LessonId]:
        return self._store.find(prefix, limit=limit)

    def list_unembedded(self, *, limit: int) -> list[Lesson]:
        return self._store.list_unembedded(limit=limit)

    def count_unembedded(self) -> int:
        return self._store.count_unembedded()

    def set_vectors(self, vectors: Mapping[LessonId, tuple[bytes, ...]], /) -> None:
        self._store.set_vectors(vectors)

    def set_verdict(self, verdict: LessonVerdict, /) -> None:
        """Keep what a person says of a lesson. Raises Forbidden."""
        self._check(verdict.fingerprint)
        self._store.set_verdict(verdict)

    def remove_verdict(self, fingerprint: Fingerprint, /) -> None:
        """Forget what a person said. Raises Forbidden."""
        self._check(fingerprint)
        self._store.remove_verdict(fingerprint)

    def list_verdicts(self) -> dict[Fingerprint, LessonVerdict]:
        return self._store.list_verdicts()

    def set_outcomes(
        self, outcomes: Mapping[LessonId, Outcomes], days: Mapping[int, Outcomes], /
    ) -> None:
        self._store.set_outcomes(outcomes, days)

    def list_days(self, since: int, /) -> dict[int, Outcomes]:
        return self._store.list_days(since)

    def version(self, project: str, /) -> int:
        return self._store.version(project)

    def _check(self, fingerprint: Fingerprint) -> None:
        """Raise Forbidden unless the caller sees a lesson that says this."""
        caller = access.get_caller()
        if caller is not None and not any(
            each.lesson.fingerprint == fingerprint for each in self.list_all()
        ):
            raise Forbidden(f"you see no such lesson: {access.describe_scope(caller)}")


def _sees(lesson: Lesson) -> bool:
    caller = access.get_caller()
    return caller is None or caller.sees_project(lesson.project)
