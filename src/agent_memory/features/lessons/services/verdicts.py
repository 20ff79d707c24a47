"""What people say of lessons. It holds for all lessons of a project that say the same, also for
those that are learned later."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_memory.features.lessons.model.lessons import (
    MAX_TEXT,
    KnownLesson,
    LessonId,
    LessonVerdict,
    VerdictState,
)
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.features.lessons.services.library import LessonLibrary
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import InvalidInput
from agent_memory.platform.ports import Clock

MAX_REASON = 400
SAID_OUTDATED = "the user said that it does not hold"  # the reason of what `retire` rejects
_WHERE = "lesson"
_FINGERPRINT = re.compile(r"[0-9a-f-]{36}")


@dataclass(frozen=True, slots=True)
class LessonVerdicts:
    """Every method takes the id of a lesson or its beginning, and raises NotFound, AmbiguousName
    and Forbidden."""

    store: LessonStore
    library: LessonLibrary
    secrets: SecretsFilter
    clock: Clock
    on_change: Callable[[], None]

    def accept(self, name: str) -> KnownLesson:
        """Say that a lesson holds. One that was rejected holds again."""
        return self._judge(name, VerdictState.ACCEPTED)

    def edit(self, name: str, text: str) -> KnownLesson:
        """Accept a lesson in other words. Raises InvalidInput and ContentBlocked."""
        text = " ".join(text.split())
        if not text:
            raise InvalidInput("the new text is empty")
        check_text(text)
        return self._judge(name, VerdictState.ACCEPTED, text=self._clean(text))

    def reject(self, name: str, reason: str = "", *, confirmed: bool) -> KnownLesson:
        """Retire a lesson at once. A rejection that no person has confirmed waits in the review.
        Raises ContentBlocked."""
        reason = self._clean(" ".join(reason.split())[:MAX_REASON])
        if reason == SAID_OUTDATED:  # only `retire` knows that
            reason = ""
        return self._judge(name, VerdictState.REJECTED, reason=reason, confirmed=confirmed)

    def retire(self, name: str) -> KnownLesson:
        """Reject a lesson by what the user said of it in a session, until they review it."""
        return self._judge(name, VerdictState.REJECTED, reason=SAID_OUTDATED, confirmed=False)

    def add(self, verdict: LessonVerdict) -> bool:
        """Add a verdict of an archive, unless there is one. Return whether it is new. Raises
        InvalidInput and ContentBlocked."""
        if not _FINGERPRINT.fullmatch(verdict.fingerprint):
            raise InvalidInput("the fingerprint of a lesson is not valid")
        check_text(verdict.text)
        if verdict.fingerprint in self.store.list_verdicts():
            return False
        text, reason = self._clean(verdict.text), self._clean(verdict.reason[:MAX_REASON])
        self.store.set_verdict(replace(verdict, text=text, reason=reason))
        self.on_change()
        return True

    def _judge(
        self,
        name: str,
        state: VerdictState,
        *,
        text: str = "",
        reason: str = "",
        confirmed: bool = True,
    ) -> KnownLesson:
        known = self.library.find_lesson(LessonId(name))
        before = known.verdict
        if before is not None and before.state is state:  # it adds to what was said before
            confirmed, reason = confirmed or before.confirmed, reason or before.reason
        verdict = LessonVerdict(
            fingerprint=known.lesson.fingerprint,
            state=state,
            at_ms=self.clock.now(),
            text=text or (before.text if before is not None else ""),
            reason=reason,
            confirmed=confirmed,
        )
        self.store.set_verdict(verdict)
        self.on_change()
        return self.library.find_lesson(known.lesson.id)

    def _clean(self, text: str) -> str:
        return self.secrets.clean(text, where=_WHERE)


def tell_rejection(known: KnownLesson) -> str:
    """Return who rejected a lesson that awaits review; nothing if nobody did."""
    if not known.is_rejected or known.verdict is None:
        return ""
    if known.verdict.reason == SAID_OUTDATED:
        return "retired by what you said in a session"
    return "rejected by an agent"


def check_text(text: str) -> None:
    """Raise InvalidInput for words of a lesson that are too many."""
    if len(text) > MAX_TEXT:
        raise InvalidInput(f"a lesson has at most {MAX_TEXT} characters, not {len(text):,}")
