"""Lessons: what a session teaches those after it, each with the events that say so.

A lesson is derived: it is made from the events of a session alone, and made again with them.
What people say about lessons (`LessonVerdict`) is kept apart, by what a lesson says, so that it
also holds when the same is said again.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import reduce
from typing import NewType

from agent_memory.kernel import ids
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId

LessonId = NewType("LessonId", str)
Fingerprint = NewType("Fingerprint", str)

EDITION = 1  # of what is extracted: raise it, and all sessions are learned again
MAX_TEXT = 400  # characters: an agent is given it whole
MAX_SITUATION = 400
MAX_NAMES = 20  # paths, commands, errors and words, each
_NEVER = Millis(0)
_NOT_WORDS = re.compile(r"[\W_]+")


class LessonKind(StrEnum):
    RULE = "rule"  # the user instructs, forbids, prefers or corrects
    DECISION = "decision"  # settled, with its reason and what was rejected
    FAILURE = "failure"  # an error, and what mended it
    DEAD_END = "dead end"  # tried and given up
    GOTCHA = "gotcha"  # what was surprising, and why
    OPEN = "open"  # left to do
    FACT = "fact"  # a value, a name or a place, and what it is of


class Trust(IntEnum):
    """Who said it. The least of what a lesson was made of counts."""

    OUTPUT = 1  # of a tool
    AGENT = 2
    USER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """Something that a session teaches.

    `text` says it in the words of the session, `situation` is what it was about: the request that
    led to it. `events` are those that say so, the telling one first. The rest is what it applies
    to: `paths` (files and folders), `commands` (such as "git push"), `errors` (signatures, see
    `errors.py`) and `avoids`, the words that a rule forbids.
    """

    id: LessonId
    kind: LessonKind
    text: str
    situation: str = ""
    trust: Trust
    project: str
    session_id: SessionId
    agent: str = ""
    at_ms: Millis  # of the telling event
    events: tuple[EventId, ...]
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    weight: float = 0.0  # how clearly the words say it

    @property
    def position(self) -> Position:
        """The place of the telling event."""
        return Position(at_ms=self.at_ms, event_id=self.events[0])

    @property
    def fingerprint(self) -> Fingerprint:
        """What stays the same if the same is said again."""
        words = _NOT_WORDS.sub(" ", self.text.casefold()).strip()
        return Fingerprint(ids.derive_id("lesson words", self.project, words))


class VerdictState(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonVerdict:
    """What a person says of a lesson. `text` replaces its own; empty: it stays. An agent may have
    passed it on: until a person confirms it, it waits in the review."""

    fingerprint: Fingerprint
    state: VerdictState
    at_ms: Millis
    text: str = ""
    reason: str = ""
    confirmed: bool = True


class LessonState(StrEnum):
    """What becomes of a lesson. One that is new acts as an active one does."""

    NEW = "new"  # a rule that no person has looked at
    ACTIVE = "active"
    SUPERSEDED = "superseded"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """How often a lesson was given, and what came of it."""

    given: int = 0
    heeded: int = 0  # the command then differed, or passed
    repeated: int = 0  # the failure came again
    last_given_ms: Millis = _NEVER

    def add(self, more: "Outcomes") -> "Outcomes":
        return Outcomes(
            given=self.given + more.given,
            heeded=self.heeded + more.heeded,
            repeated=self.repeated + more.repeated,
            last_given_ms=max(self.last_given_ms, more.last_given_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLesson:
    """A lesson with all that is known of it. `vectors` are those of its text and its situation (of
    its text again, if it has none); none: it is not embedded yet."""

    lesson: Lesson
    verdict: LessonVerdict | None = None
    superseded_by: LessonId | None = None
    outcomes: Outcomes = field(default_factory=Outcomes)
    vectors: tuple[bytes, ...] = ()

    @property
    def text(self) -> str:
        edited = "" if self.verdict is None else self.verdict.text
        return edited or self.lesson.text

    @property
    def is_rejected(self) -> bool:
        return self.verdict is not None and self.verdict.state is VerdictState.REJECTED

    @property
    def is_active(self) -> bool:
        """Whether an agent may be given it."""
        return not self.is_rejected and self.superseded_by is None

    @property
    def awaits_review(self) -> bool:
        """Whether a person should look at it: a rule from their words, or a rejection that an agent
        passed on. It holds meanwhile."""
        if self.verdict is not None:
            return not self.verdict.confirmed
        lesson = self.lesson
        return lesson.kind is LessonKind.RULE and lesson.trust is Trust.USER and self.is_active

    @property
    def state(self) -> LessonState:
        if self.is_rejected:
            return LessonState.REJECTED
        if self.superseded_by is not None:
            return LessonState.SUPERSEDED
        return LessonState.NEW if self.awaits_review else LessonState.ACTIVE


def sum_outcomes(several: Iterable[Outcomes]) -> Outcomes:
    return reduce(Outcomes.add, several, Outcomes())


def derive_lesson_id(kind: LessonKind, session: SessionId, event: EventId, place: int) -> LessonId:
    """Return the id of the lesson of a kind at a place in the text of an event."""
    return LessonId(ids.derive_id("lesson", kind.value, session, event, str(place)))
