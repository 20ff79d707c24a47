"""Operations on lessons: list them, look at one, and say what holds."""

from typing import Annotated, Any, Literal, Self

from msgspec import Meta, Struct

from agent_memory.features.index.model import documents
from agent_memory.features.injections.operations import Time
from agent_memory.features.lessons.model.lessons import (
    MAX_TEXT,
    KnownLesson,
    LessonKind,
    LessonState,
)
from agent_memory.features.lessons.services.catalog import LessonCatalog
from agent_memory.features.lessons.services.library import LessonLibrary, LessonScope
from agent_memory.features.lessons.services.verdicts import MAX_REASON, LessonVerdicts
from agent_memory.features.log.operations import LoggedEvent
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import Forbidden
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.operations import operation
from agent_memory.kernel.structs import Limit, Offset, copy_fields

PATH = "/api/v1/lessons"
ONE = f"{PATH}/{{lesson_id}}"
WEEK = 7  # days

Word = Annotated[str, Meta(max_length=256)]
KindName = Literal["rule", "decision", "failure", "dead end", "gotcha", "open", "fact"]
StateName = Literal["new", "active", "superseded", "rejected"]
LessonName = Annotated[
    str, Meta(min_length=1, max_length=256, description="Its id, its URI, or the beginning of it.")
]


class LessonFilter(Struct, frozen=True, kw_only=True):
    project: Annotated[str, Meta(max_length=256, description="Only of this project.")] = ""
    kind: Annotated[KindName | None, Meta(description="Only of this kind.")] = None
    session_id: Annotated[str, Meta(max_length=256, description="Only of this session.")] = ""
    state: Annotated[
        StateName | None, Meta(description="Only of this state; `active` has the new ones too.")
    ] = None
    words: Annotated[str, Meta(max_length=256, description="Words that are all in it.")] = ""
    from_timestamp_ms: Time = 0
    to_timestamp_ms: Time = MAX_MILLIS
    limit: Limit = 50
    offset: Offset = 0


class LessonAnswer(Struct, frozen=True, kw_only=True):
    """A lesson. `trust` says whose words it is made of; the counts, how often agents were given it,
    then did otherwise or succeeded, or failed in the same way again."""

    id: str
    uri: str
    kind: KindName
    state: StateName
    text: str
    situation: str
    trust: Annotated[str, Meta(description="user, agent or output")]
    project: str
    session_id: str
    agent: str
    timestamp_ms: int
    paths: list[str]
    commands: list[str]
    errors: list[str]
    avoids: list[str]
    to_review: bool
    reason: Annotated[str, Meta(description="Why it was rejected.")]
    superseded_by: Annotated[str | None, Meta(description="The URI of a newer lesson.")]
    given: int
    heeded: int
    repeated: int
    last_given_ms: int | None

    @classmethod
    def from_known(cls, known: KnownLesson, **values: Any) -> Self:
        lesson, outcomes, successor = known.lesson, known.outcomes, known.superseded_by
        return cls(
            id=lesson.id,
            uri=_format_uri(lesson.id),
            kind=lesson.kind.value,
            state=known.state.value,
            text=known.text,
            situation=lesson.situation,
            trust=lesson.trust.name.lower(),
            project=lesson.project,
            session_id=lesson.session_id,
            agent=lesson.agent,
            timestamp_ms=lesson.at_ms,
            paths=list(lesson.paths),
            commands=list(lesson.commands),
            errors=list(lesson.errors),
            avoids=list(lesson.avoids),
            to_review=known.awaits_review,
            reason="" if known.verdict is None else known.verdict.reason,
            superseded_by=None if successor is None else _format_uri(successor),
            given=outcomes.given,
            heeded=outcomes.heeded,
            repeated=outcomes.repeated,
            last_given_ms=outcomes.last_given_ms or None,
            **values,
        )


class LessonsAnswer(Struct, frozen=True, kw_only=True):
    lessons: list[LessonAnswer]
    total: int


@operation("lessons.list", role=Role.READER, scoped=True, http=f"GET {PATH}/")
def list_lessons(lessons: LessonLibrary, request: LessonFilter) -> LessonsAnswer:
    """List what sessions taught, newest first."""
    found = lessons.list_lessons(
        LessonScope(
            project=request.project or None,
            kind=None if request.kind is None else LessonKind(request.kind),
            session=request.session_id,
            state=None if request.state is None else LessonState(request.state),
            words=request.words,
            since=Millis(request.from_timestamp_ms),
            until=Millis(request.to_timestamp_ms),
        )
    )
    page = found[request.offset : request.offset + request.limit]
    return LessonsAnswer(lessons=list(map(LessonAnswer.from_known, page)), total=len(found))


class LessonToShow(Struct, frozen=True, kw_only=True):
    lesson_id: LessonName


class LessonDetails(LessonAnswer, frozen=True, kw_only=True):
    """`said` is what the session says, if the text was edited since. `events` say so, the telling
    one first."""

    said: str
    events: list[LoggedEvent]


@operation("lessons.show", role=Role.READER, scoped=True, http=f"GET {ONE}/")
def show_lesson(lessons: LessonLibrary, request: LessonToShow) -> LessonDetails:
    """Show a lesson, the events that say it, and what came of it."""
    return _describe(lessons, lessons.find_lesson(request.lesson_id))


class LessonEdit(LessonToShow, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, description="The new words.")]


@operation(
    "lessons.edit",
    http=f"PATCH {ONE}/",
    example={"text": "Never use pandas in this repository; polars is fine"},
)
def edit_lesson(
    verdicts: LessonVerdicts, lessons: LessonLibrary, caller: Caller, request: LessonEdit
) -> LessonDetails:
    """Accept a lesson in other words."""
    _check_person(caller)
    return _describe(lessons, verdicts.edit(request.lesson_id, request.text))


class LessonRejection(LessonToShow, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(max_length=MAX_REASON, description="Why it does not hold.")] = ""


@operation(
    "lessons.reject",
    role=Role.WRITER,
    scoped=True,
    http=f"POST {ONE}/reject/",
    example={"reason": "we moved to polars"},
)
def reject_lesson(
    verdicts: LessonVerdicts, lessons: LessonLibrary, caller: Caller, request: LessonRejection
) -> LessonDetails:
    """Reject a lesson that does not hold.

    Agents are not given it any more, even if it is said again. What a program or an agent rejects
    is retired as well, and waits for you in `memory review`.
    """
    known = verdicts.reject(request.lesson_id, request.reason, confirmed=caller.is_person)
    return _describe(lessons, known)


@operation("lessons.accept", http=f"POST {ONE}/accept/")
def accept_lesson(
    verdicts: LessonVerdicts, lessons: LessonLibrary, caller: Caller, request: LessonToShow
) -> LessonDetails:
    """Accept a lesson, also one that was rejected."""
    _check_person(caller)
    return _describe(lessons, verdicts.accept(request.lesson_id))


class LessonWeek(Struct, frozen=True, kw_only=True):
    """What became of lessons in the last seven days, and how many await review."""

    given: int
    heeded: int
    repeated: int
    to_review: int

    @classmethod
    def count(cls, catalog: LessonCatalog, lessons: LessonLibrary) -> "LessonWeek":
        return copy_fields(cls, catalog.count_days(WEEK), to_review=len(lessons.list_to_review()))


def _check_person(caller: Caller) -> None:
    """Raise Forbidden for a program: an agent must not make its own words a rule."""
    caller.require_person("say that a lesson holds", "memory lessons")
    if not caller.may_accept:
        raise Forbidden(
            "only you can say that a lesson holds, and this page was not opened from a terminal:"
            " run `memory ui` or `memory lessons` in one"
        )


def _describe(lessons: LessonLibrary, known: KnownLesson) -> LessonDetails:
    return LessonDetails.from_known(
        known,
        said=known.lesson.text if known.text != known.lesson.text else "",
        events=[LoggedEvent.from_event(event) for event in lessons.read_events(known)],
    )


def _format_uri(name: str) -> str:
    return documents.format_uri(documents.LESSONS, name)
