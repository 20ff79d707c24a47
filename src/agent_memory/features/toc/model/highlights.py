"""Highlights: what came of a conversation, which rises from segments to days, weeks and years.

A segment's bullets are its highlights. A period selects among those of its children, keeps them,
and shows them as bullets in the form of its level.
"""

from dataclasses import dataclass
from enum import IntEnum

from agent_memory.kernel.ids import Millis

NEVER = Millis(0)
MAX_FILES = 200  # names that a node keeps; of more, only that there are more is known
ASKED = "Asked: "  # how the bullet of a request begins
PLANNED = "Planned: "  # and that of a plan


class HighlightKind(IntEnum):
    """What a bullet says. The numbers are stored: never change them."""

    NOTE = 0  # something said; it rises only from conversations without better
    ASKED = 1  # what the user wants
    PLANNED = 2  # what comes next; it never rises
    FINISHED = 3  # a task, as a whole
    DONE = 4
    DECIDED = 5
    FOUND = 6
    BROKEN = 7  # a failure; it rises only if nothing later mends it
    OPEN = 8  # left to do
    STATE = 9  # a measurement, such as passing tests, which a later one replaces

    @property
    def word(self) -> str:
        """The word for it that people, agents and programs read."""
        return self.name.lower()


READING_ORDER = (
    HighlightKind.FINISHED,
    HighlightKind.ASKED,
    HighlightKind.DONE,
    HighlightKind.DECIDED,
    HighlightKind.FOUND,
    HighlightKind.BROKEN,
    HighlightKind.OPEN,
    HighlightKind.STATE,
    HighlightKind.NOTE,
    HighlightKind.PLANNED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Highlight:
    """A highlight with the grips that support it, and where and when it was said.

    `session` is the id of a main session: a subagent's highlights belong to the session that
    started it. `reported` is True for the words of a report, which has the last word on its task.
    """

    text: str
    grip_ids: tuple[str, ...]
    weight: float
    kind: HighlightKind = HighlightKind.NOTE
    at_ms: Millis = NEVER
    session: str = ""
    project: str = ""
    reported: bool = False
    corrects: bool = False  # it contradicts something said before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How much was done in the time of a node.

    `begun` counts the sessions that start in it, `sessions` those with any event in it. Tasks and
    decisions are counted by the day.
    """

    sessions: int = 0
    begun: int = 0
    prompts: int = 0
    commits: int = 0
    seconds: int = 0
    finished: int = 0  # tasks
    decided: int = 0
    files: tuple[str, ...] = ()  # that were changed, at most MAX_FILES


NO_WORK = Work()
