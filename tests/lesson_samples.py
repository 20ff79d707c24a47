"""Lessons for tests."""

from typing import Any

from agent_memory.features.lessons.model.lessons import Lesson, LessonKind, Trust, derive_lesson_id
from agent_memory.kernel.ids import EventId, Millis, SessionId


def build_lesson(number: int, text: str = "", **fields: Any) -> Lesson:
    """Build the lesson of the event `e{number}` at that second."""
    session = fields.pop("session_id", "s1/agent:é")
    event = EventId(f"e{number}")
    kind = fields.pop("kind", LessonKind.RULE)
    defaults = {
        "id": derive_lesson_id(kind, SessionId(session), event, 0),
        "kind": kind,
        "text": text or f"Never use pandas in part {number}.",
        "situation": f"write report {number}",
        "trust": Trust.USER,
        "project": "shop",
        "session_id": SessionId(session),
        "agent": "claude-code",
        "at_ms": Millis(1_000 * number),
        "events": (event, EventId(f"e{number}-answer")),
        "paths": ("reports/daily.py",),
        "commands": ("git push",),
        "errors": ("ImportError: pandas",),
        "avoids": ("pandas",),
    }
    return Lesson(**{**defaults, **fields})
