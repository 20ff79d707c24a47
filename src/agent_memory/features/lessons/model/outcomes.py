"""What came of a lesson that was given: did the next command or edit go by it?"""

from enum import StrEnum

from agent_memory.features.lessons.model.commands import read_commands
from agent_memory.features.lessons.model.errors import find_signatures
from agent_memory.features.lessons.model.lessons import Lesson, LessonKind
from agent_memory.features.lessons.model.tool_gate import compare_commands, find_words


class LessonOutcome(StrEnum):
    HEEDED = "heeded"  # the command passed, or the text is without what the rule forbids
    REPEATED = "repeated"  # the same failure, or what the rule forbids


def judge_command(
    lesson: Lesson, command: str, output: str, *, failed: bool
) -> LessonOutcome | None:
    """Return what a command that has run says of a lesson; None: nothing."""
    if lesson.kind is not LessonKind.FAILURE:
        return _judge_words(lesson, command)
    if failed and not set(lesson.errors).isdisjoint(find_signatures(output)):
        return LessonOutcome.REPEATED
    if not failed and compare_commands(lesson, read_commands(command)):
        return LessonOutcome.HEEDED
    return None


def judge_edit(lesson: Lesson, written: str) -> LessonOutcome | None:
    """Return what an edit says of a lesson; None: nothing."""
    return _judge_words(lesson, written) if written else None


def _judge_words(lesson: Lesson, text: str) -> LessonOutcome | None:
    if not lesson.avoids:
        return None
    forbidden = find_words(" ".join(lesson.avoids))
    return (
        LessonOutcome.HEEDED if forbidden.isdisjoint(find_words(text)) else LessonOutcome.REPEATED
    )
