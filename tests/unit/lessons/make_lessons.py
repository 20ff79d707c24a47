"""Lessons for tests."""

from agent_memory.features.lessons.model.lessons import (
    KnownLesson,
    Lesson,
    LessonId,
    LessonKind,
    Trust,
)
from agent_memory.kernel.ids import EventId, Millis, SessionId

DAY = 86_400_000


def make_lesson(
    text: str,
    kind: LessonKind = LessonKind.RULE,
    *,
    name: str = "",
    situation: str = "",
    session: str = "before",
    trust: Trust = Trust.USER,
    day: int = 1,
    vectors: tuple[bytes, ...] = (),
    superseded_by: str = "",
    paths: tuple[str, ...] = (),
    commands: tuple[str, ...] = (),
    errors: tuple[str, ...] = (),
    avoids: tuple[str, ...] = (),
) -> KnownLesson:
    """Make a lesson of the shop."""
    lesson = Lesson(
        id=LessonId(name or text),
        kind=kind,
        text=text,
        situation=situation,
        trust=trust,
        project="shop",
        session_id=SessionId(session),
        at_ms=Millis(day * DAY),
        events=(EventId(f"{session}-1"),),
        paths=paths,
        commands=commands,
        errors=errors,
        avoids=avoids,
    )
    return KnownLesson(
        lesson=lesson,
        vectors=vectors,
        superseded_by=LessonId(superseded_by) if superseded_by else None,
    )
