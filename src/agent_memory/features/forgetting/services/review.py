"""Review of what was noted automatically, memories and lessons: accept it, in other words too, or
discard it for good."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.index.model import documents
from agent_memory.features.lessons.model.lessons import KnownLesson
from agent_memory.features.lessons.services.library import LessonLibrary
from agent_memory.features.lessons.services.verdicts import LessonVerdicts
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Draft, Home, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.kernel.errors import ContentBlocked, InvalidInput, NotFound
from agent_memory.kernel.ids import PROJECT, Domain, EventId
from agent_memory.kernel.progress import OnPhase

MAX_LISTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMemory:
    """A memory that awaits review, the event with the words that it comes from, and the repository
    whose notes get it when it is accepted."""

    memory: Memory
    event: Event | None
    home: Home | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLesson:
    """A lesson that awaits review, and the event that says it. It holds meanwhile, or is rejected
    meanwhile if an agent passed that on."""

    known: KnownLesson
    event: Event | None

    @property
    def uri(self) -> str:
        return documents.format_uri(documents.LESSONS, self.known.lesson.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonDecision:
    """What becomes of a lesson."""

    known: KnownLesson
    is_accepted: bool
    text: str = ""  # the words to accept it in; empty: its own


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDecision:
    """What becomes of a memory that awaits review."""

    memory: Memory
    is_accepted: bool
    summary: str = ""  # the words to accept it in; empty: its own


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    """What a review did. `skipped` says why a decision was not carried out, and `found_in` where
    something of a discarded memory is left."""

    accepted: tuple[Memory, ...] = ()
    discarded: tuple[Memory, ...] = ()
    skipped: tuple[str, ...] = ()
    found_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReviewInbox:
    """What awaits review. Only the user's own interface may give decisions."""

    editor: MemoryEditor
    capture: Capture
    log: EventLog
    forgetting: MemoryForgetting
    library: LessonLibrary
    verdicts: LessonVerdicts

    def list_newest(self, domains: Sequence[Domain] | None) -> tuple[list[PendingMemory], int]:
        """Return the newest that await review, and the number of all."""
        found, total = self.editor.list_newest(
            domains, (MemoryStatus.PENDING,), namespace=None, limit=MAX_LISTED
        )
        return [self._describe(memory) for memory in found], total

    def list_lessons(self, domains: Sequence[Domain] | None) -> list[PendingLesson]:
        """List the lessons of these projects that await review, newest first."""
        projects = None
        if domains is not None:
            named = (domain.partition(":") for domain in domains)
            projects = [name for family, _, name in named if family == PROJECT]
        return [self._describe_lesson(each) for each in self.library.list_to_review(projects)]

    def find_lesson(self, name: str) -> PendingLesson:
        """Return the lesson of this name. Raises NotFound, AmbiguousName, and InvalidInput if it
        does not await review."""
        known = self.library.find_lesson(name)
        if not known.awaits_review:
            raise InvalidInput(
                f"the lesson {known.lesson.id} does not await review: it is {known.state}"
            )
        return self._describe_lesson(known)

    def judge(self, decisions: Sequence[LessonDecision]) -> tuple[list[KnownLesson], list[str]]:
        """Carry out the decisions on lessons. Return these, and why some were not carried out."""
        judged: list[KnownLesson] = []
        skipped: list[str] = []
        for decision in decisions:
            name, text = decision.known.lesson.id, decision.text
            try:
                if not decision.is_accepted:
                    judged.append(self.verdicts.reject(name, confirmed=True))
                elif text in ("", decision.known.text):
                    judged.append(self.verdicts.accept(name))
                else:
                    judged.append(self.verdicts.edit(name, text))
            except (InvalidInput, NotFound, ContentBlocked) as exc:
                skipped.append(str(exc))
        return judged, skipped

    def count(self) -> int:
        groups = self.editor.outlines.count_groups()
        return sum(count for group, count in groups.items() if group.status is MemoryStatus.PENDING)

    def find(self, name: str, here: MemoryLocation) -> PendingMemory:
        """Return the memory of this name. Raises InvalidInput if it does not await review."""
        memory = self.editor.find(name, here)
        if not memory.is_pending:
            raise InvalidInput(f"{memory.id} does not await review: it is {memory.status}")
        return self._describe(memory)

    def apply(
        self, decisions: Sequence[ReviewDecision], here: MemoryLocation, on_progress: OnPhase
    ) -> ReviewResult:
        """Carry out the decisions. Those on memories that someone changed meanwhile are skipped."""
        accepted: list[Memory] = []
        discarded: list[Memory] = []
        reworded: list[Memory] = []
        skipped: list[str] = []
        for decision in decisions:
            memory = decision.memory
            try:
                if not decision.is_accepted:
                    discarded.append(self._check_pending(memory))
                elif decision.summary in ("", memory.summary):
                    accepted.append(self.editor.accept(memory, here))
                else:
                    accepted.append(self._accept_reworded(decision, here))
                    reworded.append(memory)
            except (InvalidInput, NotFound, ContentBlocked) as exc:
                skipped.append(str(exc))
        # All at once, and last: forgetting searches the whole store for remains.
        gone = [*discarded, *reworded]
        found_in: tuple[str, ...] = ()
        if gone:
            report = self.forgetting.forget(
                gone, here, rewrite_notes=False, by_user=True, on_progress=on_progress
            )
            found_in = report.proof.found_in
        return ReviewResult(
            accepted=tuple(accepted),
            discarded=tuple(discarded),
            skipped=tuple(skipped),
            found_in=found_in,
        )

    def _accept_reworded(self, decision: ReviewDecision, here: MemoryLocation) -> Memory:
        memory = self._check_pending(decision.memory)
        draft = reword(memory, decision.summary)
        place = here
        if here.domain != memory.domain:
            home = self.editor.resolver.find_home(memory.domain) or NOWHERE
            place = MemoryLocation(domain=memory.domain, home=home)
        return self.capture.capture(draft, place).memory

    def _check_pending(self, memory: Memory) -> Memory:
        stored = self.editor.memories.get(memory.key)
        if stored is None or not stored.is_pending:
            raise InvalidInput(f"{memory.id} does not await review any more")
        return stored

    def _describe_lesson(self, known: KnownLesson) -> PendingLesson:
        return PendingLesson(known=known, event=self.log.get(known.lesson.events[0]))

    def _describe(self, memory: Memory) -> PendingMemory:
        event = self.log.get(EventId(memory.event_id)) if memory.event_id else None
        return PendingMemory(
            memory=memory, event=event, home=self.editor.resolver.find_home(memory.domain)
        )


def reword(memory: Memory, summary: str) -> Draft:
    """Return the draft of a memory in other words, at its own time. Details that only repeat the
    old summary are left out. Raises InvalidInput."""
    return replace(
        memories.to_draft(memory),
        summary=summary,
        content="" if memory.content == memory.summary else memory.content,
        created_ms=memory.created_ms,
    )
