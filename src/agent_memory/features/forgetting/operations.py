"""Operations on the inbox, and what forgets memories and events."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from msgspec import UNSET, Meta, Struct

from agent_memory.features.forgetting.model.forgetting import (
    ErasureProof,
    ForgettingReport,
    Selection,
)
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.forgetting.services.review import (
    MAX_LISTED,
    LessonDecision,
    PendingLesson,
    PendingMemory,
    ReviewDecision,
    ReviewInbox,
    ReviewResult,
)
from agent_memory.features.index.model import documents
from agent_memory.features.lessons.model.lessons import MAX_TEXT
from agent_memory.features.lessons.operations import LessonAnswer
from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS, Event
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.features.memories.model.changes import ChangeAction
from agent_memory.features.memories.model.memories import MAX_SUMMARY_CHARS, Memory, check_content
from agent_memory.features.memories.operations import (
    EXAMPLE_ID,
    ONE,
    PATH,
    DomainName,
    MemoryAnswer,
    MemoryName,
    Reference,
    References,
    RefusalAnswer,
    name_change,
)
from agent_memory.features.memories.services.bulk_editing import BulkEditor
from agent_memory.features.memories.services.undo import ChangeHistory
from agent_memory.kernel import access
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import Forbidden, InvalidInput, NotFound
from agent_memory.kernel.ids import Domain, EventId
from agent_memory.kernel.operations import operation
from agent_memory.kernel.progress import OnPhase, OnProgress
from agent_memory.kernel.structs import copy_fields

INBOX = "/api/v1/inbox/"
WORDS_CHARS = 1_200  # shown of the words that a memory comes from
_PATH = re.compile(r"(?<![\w:/])/[^\s:,;]+")

Confirm = Annotated[bool, Meta(description="It cannot be undone.", extra={"in": "query"})]


class SourceAnswer(Struct, frozen=True, kw_only=True):
    """The event with the words that a memory comes from."""

    event_id: str
    session_id: str
    timestamp: str
    role: str
    text: str

    @classmethod
    def from_event(cls, event: Event) -> "SourceAnswer":
        return cls(
            event_id=event.event_id,
            session_id=event.session_id,
            timestamp=documents.format_iso(event.at_ms),
            role=event.role.name.lower(),
            text=_shorten(event.text),
        )


class PendingMemoryAnswer(MemoryAnswer, frozen=True, kw_only=True):
    """A memory that awaits review. `home` is the repository whose notes get it when you accept."""

    source: SourceAnswer | None
    home: str | None

    @classmethod
    def from_pending(cls, pending: PendingMemory) -> Self:
        event = pending.event
        return cls.from_memory(
            pending.memory,
            source=None if event is None else SourceAnswer.from_event(event),
            home=pending.home,
        )


class InboxFilter(Struct, frozen=True, kw_only=True):
    domain: DomainName = ""


class PendingLessonAnswer(LessonAnswer, frozen=True, kw_only=True):
    """A lesson that awaits review. One that is rejected was so by an agent, for the user."""

    source: SourceAnswer | None

    @classmethod
    def from_pending(cls, pending: PendingLesson) -> Self:
        event = pending.event
        source = None if event is None else SourceAnswer.from_event(event)
        return cls.from_known(pending.known, source=source)


class InboxAnswer(Struct, frozen=True, kw_only=True):
    """What awaits review. `total` counts the memories, `lessons_total` the lessons."""

    memories: list[PendingMemoryAnswer]
    total: int
    lessons: list[PendingLessonAnswer]
    lessons_total: int

    @classmethod
    def from_pending(
        cls, found: Sequence[PendingMemory], total: int, lessons: Sequence[PendingLesson]
    ) -> "InboxAnswer":
        return cls(
            memories=list(map(PendingMemoryAnswer.from_pending, found)),
            total=total,
            lessons=list(map(PendingLessonAnswer.from_pending, lessons[:MAX_LISTED])),
            lessons_total=len(lessons),
        )


@operation("inbox.list", http=f"GET {INBOX}", tag="memories")
def list_inbox(review: ReviewInbox, request: InboxFilter) -> InboxAnswer:
    """List memories and lessons that await review, newest first."""
    domains = [Domain(request.domain)] if request.domain else None
    return InboxAnswer.from_pending(*review.list_newest(domains), review.list_lessons(domains))


class InboxDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a memory or a lesson. `summary` accepts it in other words."""

    id: Annotated[Reference, Meta(description="Its id or its URI; of a lesson, its URI.")]
    decision: Literal["accept", "discard"]
    summary: Annotated[str, Meta(max_length=max(MAX_SUMMARY_CHARS, MAX_TEXT))] = ""


class InboxDecisions(Struct, frozen=True, kw_only=True):
    decisions: Annotated[list[InboxDecision], Meta(min_length=1, max_length=MAX_LISTED)]


class ReviewAnswer(Struct, frozen=True, kw_only=True):
    """`lessons` are those that were decided on, as they are now. `skipped` says why a decision was
    not carried out, and `found_in` where something of a discarded memory is left."""

    accepted: list[MemoryAnswer]
    discarded: list[str]
    lessons: list[LessonAnswer]
    skipped: list[str]
    found_in: list[str]
    change: str | None

    @classmethod
    def from_result(cls, result: ReviewResult, **values: Any) -> Self:
        return cls(
            accepted=[MemoryAnswer.from_memory(each, content=UNSET) for each in result.accepted],
            discarded=[memory.id for memory in result.discarded],
            found_in=list(result.found_in),
            **values,
        )


@operation(
    "inbox.decide",
    http=f"POST {INBOX}",
    tag="memories",
    example={"decisions": [{"id": EXAMPLE_ID, "decision": "accept"}]},
)
def decide(
    review: ReviewInbox,
    history: ChangeHistory,
    caller: Caller,
    request: InboxDecisions,
    on_progress: OnProgress,
) -> ReviewAnswer:
    """Accept or discard memories and lessons that await review; only the page may."""
    caller.require_person("decide on what was noted automatically", "memory review")
    if not caller.may_accept and any(each.decision == "accept" for each in request.decisions):
        raise Forbidden(
            "only you can accept what was noted automatically, and this page was not opened from"
            " a terminal: run `memory ui` or `memory review` in one"
        )
    here = review.editor.resolver.find_here(caller)
    decisions: list[ReviewDecision] = []
    on_lessons: list[LessonDecision] = []
    stale: list[str] = []
    for each in request.decisions:
        is_accepted, words = each.decision == "accept", each.summary.strip()
        is_lesson = each.id.startswith(f"{documents.LESSONS}/")
        if words and not is_lesson:
            check_content(words, "", "")
        try:
            if is_lesson:
                known = review.find_lesson(each.id).known
                on_lessons.append(LessonDecision(known=known, is_accepted=is_accepted, text=words))
            else:
                memory = review.find(each.id, here).memory
                decisions.append(
                    ReviewDecision(memory=memory, is_accepted=is_accepted, summary=words)
                )
        except (InvalidInput, NotFound) as exc:
            stale.append(str(exc))
    judged, refused = review.judge(on_lessons)
    with history.recording(ChangeAction.REVIEW, by_user=True) as changing:
        inbox = replace(review, editor=changing.editor, capture=changing.capture)
        result = inbox.apply(decisions, here, _count_only(on_progress))
    return ReviewAnswer.from_result(
        result,
        lessons=list(map(LessonAnswer.from_known, judged)),
        skipped=[*stale, *result.skipped, *refused],
        change=name_change(changing.entry),
    )


class SearchedAnswer(Struct, frozen=True, kw_only=True):
    """What was searched for remains, after forgetting."""

    pieces: int
    files: int
    bytes: int
    unreadable: list[str]

    @classmethod
    def from_proof(cls, proof: ErasureProof) -> "SearchedAnswer":
        return cls(
            pieces=proof.needles,
            files=proof.files,
            bytes=proof.size_bytes,
            unreadable=hide_places(proof.unreadable),
        )


class ForgettingAnswer(Struct, frozen=True, kw_only=True):
    """What was removed and rewritten.

    `found_in` names what still has the words; `unreachable` are copies that no search reaches.
    `searched` is null if nothing was forgotten. On a team server, what a key asks to erase waits
    until `waits_until_ms`.
    """

    memories: int = 0
    events: int = 0
    segments: int = 0
    nodes: int = 0
    versions: int = 0
    grips: int = 0
    found_in: list[str] = []
    unreachable: list[str] = []
    waits_until_ms: int | None = None
    searched: SearchedAnswer | None = None

    @classmethod
    def from_report(cls, report: ForgettingReport, **values: Any) -> Self:
        return copy_fields(
            cls,
            report,
            found_in=hide_places(report.proof.found_in),
            unreachable=hide_places(report.unreachable),
            searched=SearchedAnswer.from_proof(report.proof),
            **values,
        )


class ForgetRequest(MemoryName, frozen=True, kw_only=True):
    confirm: Confirm = False


class ForgottenMemoryAnswer(ForgettingAnswer, frozen=True, kw_only=True):
    forgotten: str
    uri: str


# Who may forget a memory is checked for each: one's own, or any for an admin.
@operation("memories.forget", role=Role.WRITER, scoped=True, http=f"DELETE {ONE}/")
def forget_memory(
    memory_forgetting: MemoryForgetting,
    caller: Caller,
    request: ForgetRequest,
    on_progress: OnProgress,
) -> ForgottenMemoryAnswer:
    """Forget a memory and all its traces on this machine."""
    editor = memory_forgetting.editor
    memory = editor.find(request.reference, editor.resolver.find_here(caller))
    _check_confirmed([memory], confirm=request.confirm)
    report = _forget(memory_forgetting, [memory], caller, on_progress)
    return ForgottenMemoryAnswer.from_report(report, forgotten=memory.id, uri=memory.urn)


class BatchForget(Struct, frozen=True, kw_only=True):
    ids: References
    confirm: Annotated[bool, Meta(description="It cannot be undone.")] = False


class BatchForgetAnswer(ForgettingAnswer, frozen=True, kw_only=True):
    forgotten: list[str]
    refused: list[RefusalAnswer]


@operation(
    "memories.forget_many",
    role=Role.WRITER,
    scoped=True,
    http=f"POST {PATH}/batch-forget/",
    tool="memory_forget",
    example={"ids": [EXAMPLE_ID], "confirm": True},
)
def forget_memories(
    memory_forgetting: MemoryForgetting,
    bulk_editor: BulkEditor,
    caller: Caller,
    request: BatchForget,
    on_progress: OnProgress,
) -> BatchForgetAnswer:
    """Forget many memories and all their traces on this machine."""
    here = memory_forgetting.editor.resolver.find_here(caller)
    found, unknown = bulk_editor.find(request.ids, here, pending=caller.is_person)
    _check_confirmed(found, confirm=request.confirm)
    done: dict[str, Any] = {
        "forgotten": [memory.id for memory in found],
        "refused": list(map(RefusalAnswer.from_refusal, unknown)),
    }
    if not found:
        return BatchForgetAnswer(**done)
    return BatchForgetAnswer.from_report(
        _forget(memory_forgetting, found, caller, on_progress), **done
    )


class EventToForget(Struct, frozen=True, kw_only=True):
    event_id: Annotated[str, Meta(max_length=MAX_EVENT_ID_CHARS)]
    confirm: Confirm = False


@operation(
    "events.forget", role=Role.ADMIN, http="DELETE /api/v1/events/{event_id:path}", tag="events"
)
def forget_event(
    forgetting: Forgetting, timeline: Timeline, request: EventToForget, on_progress: OnProgress
) -> ForgettingAnswer:
    """Forget an event and all its traces on this machine."""
    event_id = EventId(request.event_id)
    if not request.confirm:
        _refuse_unconfirmed(timeline.get_event(event_id).event_id)
    selection = Selection(event_id=event_id)
    return ForgettingAnswer.from_report(forgetting.forget_once(selection, _count_only(on_progress)))


def _check_confirmed(found: Sequence[Memory], *, confirm: bool) -> None:
    if not confirm:
        _refuse_unconfirmed(*(memory.id for memory in found[:5]))


def _refuse_unconfirmed(*names: str) -> None:
    raise InvalidInput(
        "nothing was forgotten, because it cannot be undone: send confirm=true to erase"
        f" {', '.join(names)}"
    )


def _forget(
    memory_forgetting: MemoryForgetting,
    found: Sequence[Memory],
    caller: Caller,
    on_progress: OnProgress,
) -> ForgettingReport:
    """Forget these in one run, because it searches the whole store."""
    return memory_forgetting.forget(
        found,
        memory_forgetting.editor.resolver.find_here(caller),
        rewrite_notes=False,
        by_user=caller.is_person,
        on_progress=_count_only(on_progress),
    )


def _count_only(on_progress: OnProgress) -> OnPhase:
    """Report how many are done; of how many is not known."""
    return lambda phase, count: on_progress(phase, count, 0)


def hide_places(texts: Sequence[str]) -> list[str]:
    """Return texts without the files and folders in them if a person of a team asks: a server does
    not show where it keeps its data."""
    if access.get_caller() in (None, access.OWNER):
        return list(texts)
    return list(dict.fromkeys(_PATH.sub("the server", text) for text in texts))


def _shorten(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= WORDS_CHARS else line[: WORDS_CHARS - 3] + "..."
