"""The lessons as people look them up: filtered, by their id, and those that await review."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_memory.features.index.model import documents
from agent_memory.features.lessons.model.lessons import (
    KnownLesson,
    LessonId,
    LessonKind,
    LessonState,
)
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.features.lessons.services.catalog import LessonCatalog
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import EventLog
from agent_memory.features.recall.model.records import OpenedRecord
from agent_memory.kernel.errors import AmbiguousName, NotFound
from agent_memory.kernel.ids import MAX_MILLIS

MIN_PREFIX = 4  # characters of an id
LISTED = 10  # lessons that a beginning may mean


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonScope:
    """Filters; an empty one admits everything. `words` are all in the lesson. Those that are new
    are active as well."""

    project: str | None = None
    kind: LessonKind | None = None
    session: str = ""
    state: LessonState | None = None
    words: str = ""
    since: int = 0
    until: int = MAX_MILLIS

    def admits(self, known: KnownLesson) -> bool:
        lesson, state = known.lesson, known.state
        text = f"{known.text} {lesson.situation}".casefold()
        return (
            self.kind in (None, lesson.kind)
            and self.since <= lesson.at_ms <= self.until
            and (not self.session or lesson.session_id.startswith(self.session))
            and (
                self.state in (None, state)
                or (self.state is LessonState.ACTIVE and state is LessonState.NEW)
            )
            and all(word in text for word in self.words.casefold().split())
        )


@dataclass(frozen=True, slots=True)
class LessonLibrary:
    """A RecordSource of `memory://lessons`."""

    store: LessonStore
    catalog: LessonCatalog
    log: EventLog
    area: str = documents.LESSONS

    def list_lessons(self, scope: LessonScope) -> list[KnownLesson]:
        """List lessons, newest first."""
        found = self._mark(self.store.list_all(scope.project))
        return [each for each in reversed(found) if scope.admits(each)]

    def list_to_review(self, projects: Iterable[str] | None = None) -> list[KnownLesson]:
        """List the lessons of some projects or of all that await review, newest first."""
        chosen = [None] if projects is None else projects
        found = [each for name in chosen for each in self.list_lessons(LessonScope(project=name))]
        return [each for each in found if each.awaits_review]

    def find_lesson(self, name: str) -> KnownLesson:
        """Return the lesson with this id, this URI, or the only one whose id begins so. Raises
        NotFound and AmbiguousName."""
        written = name.strip()
        if written.startswith(documents.SCHEME):
            area, written = documents.parse_uri(written)
            written = written if area == self.area else ""
        found = self._get([LessonId(written)]) if written else []
        if not found and len(written) >= MIN_PREFIX:
            found = self._get(self.store.find(written, limit=LISTED))
        if len(found) > 1:
            listed = "\n".join(f"  {each.lesson.id}  {each.text}" for each in found)
            raise AmbiguousName(f"{name[:80]!r} may mean any of these lessons:\n{listed}")
        if not found:
            raise NotFound(f"there is no lesson {name[:80]!r}: `memory lessons` lists them")
        return found[0]

    def read_events(self, known: KnownLesson) -> list[Event]:
        """Return the events that say it, the telling one first."""
        found = (self.log.get(name) for name in known.lesson.events)
        return [event for event in found if event is not None]

    def get(self, name: str, /) -> OpenedRecord | None:
        found = self._get([LessonId(name)])
        return self._open(found[0]) if found else None

    def list_beginning(self, prefix: str, /, *, limit: int) -> list[OpenedRecord]:
        return [self._open(each) for each in self._get(self.store.find(prefix, limit=limit))]

    def _open(self, known: KnownLesson) -> OpenedRecord:
        lesson, outcomes = known.lesson, known.outcomes
        successor = known.superseded_by
        return OpenedRecord(
            uri=documents.format_uri(self.area, lesson.id),
            kind="lesson",
            title=known.text,
            at_ms=lesson.at_ms,
            session_id=lesson.session_id,
            project=lesson.project,
            details={
                "lesson": lesson.kind.value,
                "state": known.state.value,
                "situation": lesson.situation,
                "superseded_by": documents.format_uri(self.area, successor) if successor else "",
                "given": outcomes.given,
                "heeded": outcomes.heeded,
                "repeated": outcomes.repeated,
            },
            words=tuple(self.read_events(known)),
        )

    def _get(self, ids: Sequence[LessonId]) -> list[KnownLesson]:
        """Return those of these lessons that exist, with what superseded them."""
        found = [each for each in self.store.get(ids) if each is not None]
        projects = dict.fromkeys(each.lesson.project for each in found)
        marked = {
            each.lesson.id: each
            for project in projects
            for each in self._mark(self.store.list_all(project))
        }
        return [marked.get(each.lesson.id, each) for each in found]

    def _mark(self, lessons: Sequence[KnownLesson]) -> list[KnownLesson]:
        """Say which of the lessons others supersede."""
        by_project: defaultdict[str, list[KnownLesson]] = defaultdict(list)
        for each in lessons:
            by_project[each.lesson.project].append(each)
        marked = {
            each.lesson.id: each
            for group in by_project.values()
            for each in self.catalog.mark_superseded(group)
        }
        return [marked[each.lesson.id] for each in lessons]
