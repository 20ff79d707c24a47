"""The lessons of each project in memory: hooks look through all of them in every call."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent_memory.features.lessons.model.lessons import (
    KnownLesson,
    Lesson,
    LessonId,
    Outcomes,
    sum_outcomes,
)
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.kernel import access
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import Clock

_DAY_MS = 86_400_000
_NEVER = Millis(0)

FindSuperseded = Callable[[Sequence[Lesson]], Mapping[LessonId, LessonId]]


class _LoadedLessons(NamedTuple):
    version: int  # of the store, read before the lessons
    lessons: tuple[KnownLesson, ...]


@dataclass(frozen=True, slots=True)
class LessonCatalog:
    """All callers share what is loaded: `list_lessons` checks what they may see. `run_soon` runs a
    function beside the caller: a hook must not wait for thousands of lessons to be read again."""

    store: LessonStore
    find_superseded: FindSuperseded
    clock: Clock
    run_soon: Callable[[Callable[[], None]], None]
    loaded: dict[str, _LoadedLessons] = field(default_factory=dict)
    outcomes: dict[LessonId, Outcomes] = field(default_factory=dict)  # newer than those loaded
    loading: threading.Lock = field(default_factory=threading.Lock)
    days: dict[int, Outcomes] = field(default_factory=dict)
    counting: threading.Lock = field(default_factory=threading.Lock)

    def list_lessons(self, project: str) -> tuple[KnownLesson, ...]:
        """Return all lessons of a project, oldest first: the same object until one changes. Their
        outcomes are those of the last change.

        Whoever changes lessons calls `refresh`. What another daemon has changed is seen soon.
        """
        caller = access.get_caller()
        if caller is not None and not caller.sees_project(project):
            return ()
        known = self.loaded.get(project)
        if known is None:
            with self.loading:
                return self._load(project)
        if known.version != self.store.version(project) and not self.loading.locked():
            self.run_soon(self._refresh_soon)
        return self.loaded[project].lessons

    def mark_superseded(self, lessons: Sequence[KnownLesson]) -> tuple[KnownLesson, ...]:
        """Say of the lessons of a project, oldest first, which replaced them. One that a person
        rejected replaces none, and one that was edited counts with its new words."""
        counted = [
            replace(each.lesson, text=each.text)
            for each in lessons
            if not each.is_rejected or each.awaits_review  # an agent does not revive the old one
        ]
        superseded = self.find_superseded(counted)
        return tuple(
            replace(each, superseded_by=superseded.get(each.lesson.id)) if superseded else each
            for each in lessons
        )

    def refresh(self) -> None:
        """Load what has changed again, so that no hook has to wait for it."""
        for project in list(self.loaded):
            with self.loading:
                self._load(project)

    def _refresh_soon(self) -> None:
        with suppress(AgentMemoryError):  # the next call tries again
            self.refresh()

    def note_outcome(
        self, name: LessonId, given: int = 0, heeded: int = 0, repeated: int = 0
    ) -> None:
        """Count what came of a lesson. It is kept soon; a count that cannot be kept is lost."""
        with suppress(AgentMemoryError), access.lift_restrictions(), self.counting:
            before, now = self._get_outcomes(name), self.clock.now()
            if before is not None:
                more = Outcomes(
                    given=given,
                    heeded=heeded,
                    repeated=repeated,
                    last_given_ms=now if given else _NEVER,
                )
                day = now // _DAY_MS
                self.outcomes[name] = before.add(more)
                self.days[day] = self._get_day(day).add(more)
                self.store.set_outcomes({name: self.outcomes[name]}, {day: self.days[day]})

    def count_days(self, days: int) -> Outcomes:
        """Return the outcomes of all lessons today and on the days before, as many as that."""
        since = self.clock.now() // _DAY_MS - days + 1
        with self.counting:
            kept = self.store.list_days(since) | self.days
        return sum_outcomes(each for day, each in kept.items() if day >= since)

    def _get_day(self, day: int) -> Outcomes:
        return self.days.get(day) or self.store.list_days(day).get(day, Outcomes())

    def _get_outcomes(self, name: LessonId) -> Outcomes | None:
        """Return the outcomes so far; None for a lesson that is gone."""
        if name in self.outcomes:
            return self.outcomes[name]
        (known,) = self.store.get([name])
        return None if known is None else known.outcomes

    def _load(self, project: str) -> tuple[KnownLesson, ...]:
        known, version = self.loaded.get(project), self.store.version(project)
        if known is not None and known.version == version:
            return known.lessons
        with access.lift_restrictions():
            lessons = self.mark_superseded(self.store.list_all(project))
        if known is not None and list(map(_drop_outcomes, known.lessons)) == list(
            map(_drop_outcomes, lessons)
        ):
            lessons = known.lessons
        self.loaded[project] = _LoadedLessons(version, lessons)
        return lessons


def _drop_outcomes(known: KnownLesson) -> KnownLesson:
    return replace(known, outcomes=Outcomes())
