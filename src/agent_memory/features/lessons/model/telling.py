"""What an agent reads of lessons: plain lines, each with what it is, who said it, when, and its id.

Words of a session stand in quotation marks: they are data, also where they are imperatives.
"""

from collections.abc import Iterable
from datetime import datetime, tzinfo

from agent_memory.features.lessons.model.lessons import (
    KnownLesson,
    LessonId,
    LessonKind,
    Trust,
)
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.kernel.text.untrusted import disarm

MARKER = "memory_context"  # as of all contexts: what we gave is not recorded as said
NOTICE = "From earlier sessions of this project, as information:"
MAX_LINE = 1_000  # characters
LEAST_CHARS = 80  # of a lesson that is cut to fit
SHORT_ID = 8  # characters: enough to open it
_WHAT = {
    LessonKind.RULE: "rule",
    LessonKind.DECISION: "decided",
    LessonKind.FAILURE: "failed before",
    LessonKind.DEAD_END: "tried and given up",
    LessonKind.GOTCHA: "found",
    LessonKind.OPEN: "left open",
    LessonKind.FACT: "fact",
}
_WHO = {Trust.USER: "the user", Trust.AGENT: "an agent", Trust.OUTPUT: "output of a tool"}


def tell(
    lessons: Iterable[KnownLesson], zone: tzinfo, *, most: int, tokens: int
) -> tuple[str, list[KnownLesson]]:
    """Return the text with as many of the first lessons as fit, and these."""
    head, foot = (f"<{MARKER}>", NOTICE), (f"</{MARKER}>",)
    room = tokens - estimate_tokens("\n".join((*head, *foot))) - 1
    lines, told = tell_lines(lessons, zone, most=most, tokens=room)
    return ("\n".join((*head, *lines, *foot)) if lines else ""), told


def tell_lines(
    lessons: Iterable[KnownLesson],
    zone: tzinfo,
    *,
    most: int,
    tokens: int,
    longest: int = MAX_LINE,
) -> tuple[list[str], list[KnownLesson]]:
    """Return the lines of as many of the first lessons as fit, and these; long ones are cut."""
    left = 4 * tokens
    lines: list[str] = []
    told: list[KnownLesson] = []
    for known in lessons:
        if len(told) >= most:
            break
        line = _tell_lesson(known, zone, min(left, longest))
        if line:
            left -= len(line) + 1
            lines.append(line)
            told.append(known)
    return lines, told


def _tell_lesson(known: KnownLesson, zone: tzinfo, chars: int) -> str:
    """Return the line of a lesson, in at most so many characters; nothing if too few are left."""
    lesson = known.lesson
    day = datetime.fromtimestamp(lesson.at_ms / 1000, zone).date().isoformat()
    what = _WHAT[lesson.kind]
    head, tail = f'- {what}, {_WHO[lesson.trust]}, {day}: "', f'" ({shorten(lesson.id)})'
    room = chars - len(head) - len(tail)
    said = disarm(" ".join(known.text.split()))
    if len(said) > room:
        if room < LEAST_CHARS:
            return ""
        said = said[: said.rfind(" ", 0, room - 3)].rstrip(" ,;:") + "..."
    return f"{head}{said}{tail}"


def shorten(lesson_id: LessonId) -> str:
    """Return the beginning of an id, by which a lesson can be opened."""
    return lesson_id[:SHORT_ID]
