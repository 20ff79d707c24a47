"""What came of a lesson that was given: did the next command or edit go by it?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent_memory.features.lessons.model.commands import read_commands
from agent_memory.features.lessons.model.errors import find_signatures
from agent_memory.features.lessons.model.lessons import Lesson, LessonKind
from agent_memory.features.lessons.model.tool_gate import compare_commands, find_words

# A command that looks for a word, or removes what it names, does not use it.
_USES_NOTHING = re.compile(r"\b(?:grep|rg|ag|find|uninstall|remove|rm|purge)\b")


class LessonOutcome(StrEnum):
    HEEDED = "heeded"  # the command passed, or the text is without what the rule forbids
    REPEATED = "repeated"  # the same failure, or what the rule forbids


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A call of a tool that a lesson is given for, or judged by: a command, or an edit of files."""

    name: str = ""  # its id, or what tells it from other calls
    command: str = ""
    files: tuple[str, ...] = ()

    def is_like(self, other: "JudgedCall") -> bool:
        """Return whether two calls are about the same file, or run the same kind of command: a
        program alone, such as git, does too much to tell."""
        if not set(self.files).isdisjoint(other.files):
            return True
        own = set(read_commands(self.command))
        has_parts = any(" " in key for key in own)
        common = own.intersection(read_commands(other.command))
        return any(" " in key or not has_parts for key in common)


NO_CALL = JudgedCall()


def judge_command(
    lesson: Lesson, given_for: JudgedCall, ran: JudgedCall, output: str, *, failed: bool
) -> LessonOutcome | None:
    """Return what a command that has run says of a lesson; None: nothing."""
    if lesson.kind is not LessonKind.FAILURE:
        outcome = _judge_words(lesson, given_for, ran, ran.command)
        is_unclear = failed if outcome is LessonOutcome.HEEDED else _uses_nothing(lesson, ran)
        return None if is_unclear else outcome
    if failed and not set(lesson.errors).isdisjoint(find_signatures(output)):
        return LessonOutcome.REPEATED
    if not failed and compare_commands(lesson, read_commands(ran.command)):
        return LessonOutcome.HEEDED
    return None


def judge_edit(
    lesson: Lesson, given_for: JudgedCall, edited: JudgedCall, written: str
) -> LessonOutcome | None:
    """Return what an edit says of a lesson; None: nothing."""
    return _judge_words(lesson, given_for, edited, written) if written else None


def _judge_words(
    lesson: Lesson, given_for: JudgedCall, call: JudgedCall, text: str
) -> LessonOutcome | None:
    """Judge by the words that a lesson forbids. To be without them says something only where the
    lesson was given for such a call: most calls are about something else."""
    if _list_forbidden(lesson.avoids, text):
        return LessonOutcome.REPEATED
    if lesson.avoids and given_for.is_like(call):
        return LessonOutcome.HEEDED
    return None


def _list_forbidden(avoids: Sequence[str], text: str) -> list[str]:
    """Return which of the words that a lesson forbids are in a text."""
    words = find_words(text) if avoids else frozenset()
    return [each for each in avoids if find_words(each) <= words]


def _uses_nothing(lesson: Lesson, ran: JudgedCall) -> bool:
    found = _USES_NOTHING.search(ran.command)
    return found is not None and not _list_forbidden([found[0]], " ".join(lesson.avoids))
