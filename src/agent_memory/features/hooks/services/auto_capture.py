"""Reflection: what in a session asked to be remembered is captured before its context is lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from agent_memory.features.hooks.model import signals, transcripts
from agent_memory.features.hooks.model.hooks import HookCall
from agent_memory.features.hooks.model.signals import Signal
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import Query, SearchMode, SearchScope
from agent_memory.features.log.model.events import Event, EventRole
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Draft, Memory
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.recall.services.recall import Recall
from agent_memory.kernel.errors import AgentMemoryError, ContentBlocked, InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId

EVENTS = 400  # of a session, the latest: a compaction comes sooner
READ_CHARS = 8_000  # of each
ASSISTANT_DOUBT = 0.1  # an agent says "decided" of plans that nobody has agreed to
MAX_CAPTURES = 20
MAX_SUGGESTIONS = 5
ALIKE = 10  # memories to compare with
TAG = "auto-captured"
_PAGE = 200
_END = Position(at_ms=Millis(MAX_MILLIS), event_id=EventId("\U0010ffff"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSignals:
    """What in a prompt asks to be remembered: captured at once, or worth suggesting."""

    captured: tuple[Memory, ...] = ()
    suggested: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True)
class AutoCapture:
    log: EventLog
    capture: Capture
    recall: Recall

    def capture_prompt(
        self, told: HookCall, place: MemoryLocation, markers: Sequence[str], *, capture: bool
    ) -> PromptSignals:
        """What a prompt says with enough confidence; with `capture`, what is certain is kept. None
        of it holds a secret: what is suggested may be typed into a command."""
        try:
            words = self.capture.secrets.clean(told.own_text, where="hook/prompt")
        except ContentBlocked:
            return PromptSignals()
        found = [
            each for each in signals.detect(words, markers) if each.confidence >= signals.SUGGESTED
        ][:MAX_SUGGESTIONS]
        certain = [each for each in found if capture and each.confidence >= signals.CERTAIN]
        kept = [
            self.capture_signal(each, place, told.prompt_event, told.session) for each in certain
        ]
        return PromptSignals(
            captured=tuple(each for each in kept if each is not None),
            suggested=tuple(each for each in found if each not in certain),
        )

    def capture_session(
        self,
        session: str,
        place: MemoryLocation,
        threshold: float,
        markers: Sequence[str] = signals.MARKERS,
    ) -> list[Memory]:
        """Capture what is said with enough confidence in the latest of a session. What was
        captured, archived or forgotten before stays as it is."""
        found: list[tuple[Signal, Event]] = []
        for event in self._latest(session):
            doubt = ASSISTANT_DOUBT if event.role is EventRole.ASSISTANT else 0.0
            found += [
                (signal, event)
                for signal in signals.detect(event.text[:READ_CHARS], markers)
                if signal.confidence - (0 if signal.marked else doubt) >= threshold
            ]
        kept = (
            self.capture_signal(signal, place, event.event_id, session) for signal, event in found
        )
        return list(islice((memory for memory in kept if memory is not None), MAX_CAPTURES))

    def capture_signal(
        self, signal: Signal, place: MemoryLocation, event_id: str, session_id: str
    ) -> Memory | None:
        """The memory, or None where it is there already, or was forgotten, or may not be kept."""
        return self._capture_new(
            Draft(
                namespace=signal.namespace,
                summary=signal.summary,
                content=signal.content,
                tags=frozenset({TAG}),
                event_id=event_id,
                session_id=session_id,
            ),
            place,
        )

    def capture_summary(
        self, summary: str, decisions: tuple[str, ...], place: MemoryLocation
    ) -> list[Memory]:
        """What an agent itself says of the conversation that it is about to lose."""
        drafts = [_draft("decisions", each) for each in decisions]
        if summary.strip():
            drafts.append(_draft("progress", summary))
        kept = (self._capture_new(draft, place) for draft in drafts if draft is not None)
        return [memory for memory in kept if memory is not None]

    def _capture_new(self, draft: Draft, place: MemoryLocation) -> Memory | None:
        if place.home == NOWHERE:
            return None
        try:
            if self.capture.was_captured(draft, place) or self._is_said(draft, place):
                return None
            return self.capture.capture(draft, place).memory
        except AgentMemoryError:
            return None  # a secret in it, for one: what cannot be captured is still in the log

    def _is_said(self, draft: Draft, place: MemoryLocation) -> bool:
        """Whether there is a memory with the same one line: someone may have captured it by hand,
        with other details."""
        scope = SearchScope(
            kinds=frozenset({DocumentKind.MEMORY}),
            namespace=draft.namespace,
            domains=frozenset({place.domain}),
            archived=True,
        )
        query = Query(text=draft.summary, scope=scope, mode=SearchMode.BM25, limit=ALIKE)
        if query.is_listing:
            return False
        line = draft.summary.casefold()
        found = self.recall.search(query, counted=False).hits
        return any(hit.document.title.casefold() == line for hit in found)

    def _latest(self, session: str) -> list[Event]:
        """In the order in which it was said."""
        latest: list[Event] = []
        place: Position | None = _END
        while place is not None and len(latest) < EVENTS:
            page = self.log.list_session(SessionId(session), after=place, limit=_PAGE, reverse=True)
            latest += [each for each in page.events if each.type in transcripts.SPOKEN]
            place = page.next
        return latest[::-1]


def _draft(namespace: str, text: str) -> Draft | None:
    said = transcripts.fit_text(transcripts.strip_injected(text))
    line = " ".join(said.split())
    if not line:
        return None
    short = len(line) <= memories.MAX_SUMMARY_CHARS
    summary = line if short else line[: memories.MAX_SUMMARY_CHARS - 3].rstrip() + "..."
    try:
        return Draft(
            namespace=namespace,
            summary=summary,
            content="" if short else said[: memories.MAX_CONTENT_BYTES // 4],
            tags=frozenset({TAG}),
        )
    except InvalidInput:
        return None
