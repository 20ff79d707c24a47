"""Auto-capture: turn signals in a session into memories before its context is lost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from agent_memory.features.hooks.model import signals, transcripts
from agent_memory.features.hooks.model.hooks import HookCall
from agent_memory.features.hooks.model.signals import Signal
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import Query, SearchMode, SearchScope
from agent_memory.features.log.model.events import Event, EventRole
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Draft, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.toc.model.last_words import stems
from agent_memory.kernel.errors import AgentMemoryError, ContentBlocked, InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.kernel.tracing import Interface

EVENTS = 400  # the latest of a session; a compaction comes before that many
READ_CHARS = 8_000  # per event
ASSISTANT_DOUBT = 0.1  # an agent writes "decided" about plans that no one has agreed to
MAX_CAPTURES = 20
MAX_SUGGESTIONS = 5
ALIKE = 10  # memories to compare with
MOST_WORDS = 0.6  # share of a signal's words that a later memory of the same thing has
LEAST_SHARED = 3  # words
TAG = memories.AUTO_CAPTURED
_PAGE = 200
_END = Position(at_ms=Millis(MAX_MILLIS), event_id=EventId("\U0010ffff"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSignals:
    """The signals of a prompt: captured at once, or suggested."""

    captured: tuple[Memory, ...] = ()
    suggested: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True)
class AutoCapture:
    log: EventLog
    capture: Capture
    recall: Recall

    def capture_prompt(
        self,
        call: HookCall,
        place: MemoryLocation,
        markers: Sequence[str],
        *,
        capture: bool,
        status: MemoryStatus,
    ) -> PromptSignals:
        """Detect signals in a prompt; with `capture`, capture the certain ones.

        Suggestions hold no secrets either: they may be typed into a command.
        """
        try:
            words = self.capture.secrets.clean(call.own_text, where="hook/prompt")
        except ContentBlocked:
            return PromptSignals()
        detected = [
            signal
            for signal in signals.detect(words, markers)
            if signal.confidence >= signals.SUGGESTED
        ][:MAX_SUGGESTIONS]
        certain = [
            signal for signal in detected if capture and signal.confidence >= signals.CERTAIN
        ]
        captured = [
            self.capture_signal(
                signal,
                place,
                call.prompt_event,
                call.session,
                status,
                agent=call.about.get("agent", ""),
            )
            for signal in certain
        ]
        return PromptSignals(
            captured=tuple(memory for memory in captured if memory is not None),
            suggested=tuple(signal for signal in detected if signal not in certain),
        )

    def capture_session(
        self,
        session: str,
        place: MemoryLocation,
        threshold: float,
        markers: Sequence[str] = signals.MARKERS,
        status: MemoryStatus = MemoryStatus.PENDING,
        agent: str = "",
    ) -> list[Memory]:
        """Capture the confident signals in the latest events of a session.

        Memories that were captured, archived or forgotten before stay as they are.
        """
        detected: list[tuple[Signal, Event]] = []
        for event in self._read_latest(session):
            doubt = ASSISTANT_DOUBT if event.role is EventRole.ASSISTANT else 0.0
            detected += [
                (signal, event)
                for signal in signals.detect(event.text[:READ_CHARS], markers, event.role)
                if signal.confidence - (0 if signal.marked else doubt) >= threshold
            ]
        captured = (
            self.capture_signal(
                signal, place, event.event_id, session, status, said_ms=event.at_ms, agent=agent
            )
            for signal, event in detected
        )
        return list(islice((memory for memory in captured if memory is not None), MAX_CAPTURES))

    def capture_signal(
        self,
        signal: Signal,
        place: MemoryLocation,
        event_id: str,
        session_id: str,
        status: MemoryStatus,
        said_ms: Millis | None = None,
        agent: str = "",
    ) -> Memory | None:
        """Capture a signal. Return None if it is known, was forgotten, or may not be stored.

        If it was said a while ago, a later capture in other words makes it known too: the agent
        may have followed our suggestion.
        """
        return self._capture_new(
            Draft(
                namespace=signal.namespace,
                summary=signal.summary,
                content=signal.content,
                tags=frozenset({TAG}),
                status=status,
                event_id=event_id,
                session_id=session_id,
                agent=memories.to_origin_name(agent),
                interface=Interface.HOOK.value,
            ),
            place,
            said_ms,
        )

    def capture_summary(
        self,
        summary: str,
        decisions: tuple[str, ...],
        place: MemoryLocation,
        session_id: str = "",
        status: MemoryStatus = MemoryStatus.PENDING,
        agent: str = "",
    ) -> list[Memory]:
        """Capture the agent's own summary of a conversation that is about to be compacted."""
        drafts = [_build_draft("decisions", decision) for decision in decisions]
        if summary.strip():
            drafts.append(_build_draft("progress", summary))
        captured = (
            self._capture_new(
                replace(
                    draft,
                    status=status,
                    session_id=session_id,
                    agent=memories.to_origin_name(agent),
                    interface=Interface.HOOK.value,
                ),
                place,
            )
            for draft in drafts
            if draft is not None
        )
        return [memory for memory in captured if memory is not None]

    def _capture_new(
        self, draft: Draft, place: MemoryLocation, said_ms: Millis | None = None
    ) -> Memory | None:
        if place.home == NOWHERE:
            return None
        try:
            if self.capture.was_captured(draft, place) or self._is_known(draft, place, said_ms):
                return None
            return self.capture.capture(draft, place).memory
        except AgentMemoryError:
            return None  # for example a secret in it; the text is still in the log

    def _is_known(self, draft: Draft, place: MemoryLocation, said_ms: Millis | None) -> bool:
        """Return whether a memory has the same summary, or most of its words and was captured
        since it was said.

        The user may have captured it by hand, with other details, or the agent in its own words.
        """
        scope = SearchScope(
            kinds=frozenset({DocumentKind.MEMORY}),
            domains=frozenset({place.domain}),
            archived=True,
        )
        query = Query(text=draft.summary, scope=scope, mode=SearchMode.BM25, limit=ALIKE)
        if query.is_listing:
            return False
        line, terms = draft.summary.casefold(), stems(draft.summary)
        for hit in self.recall.search(query, counted=False).hits:
            document = hit.document
            if document.namespace == draft.namespace and document.title.casefold() == line:
                return True
            if said_ms is not None and document.at_ms >= said_ms and TAG not in document.tags:
                shared = len(terms & stems(f"{document.title} {document.text}"))
                if shared >= max(LEAST_SHARED, MOST_WORDS * len(terms)):
                    return True
        return False

    def _read_latest(self, session: str) -> list[Event]:
        """Return the latest messages of a session, oldest first."""
        latest: list[Event] = []
        place: Position | None = _END
        while place is not None and len(latest) < EVENTS:
            page = self.log.list_session(SessionId(session), after=place, limit=_PAGE, reverse=True)
            latest += [event for event in page.events if transcripts.is_spoken(event)]
            place = page.next
        return latest[::-1]


def _build_draft(namespace: str, text: str) -> Draft | None:
    text = transcripts.fit_text(transcripts.strip_injected(text))
    line = " ".join(text.split())
    if not line:
        return None
    short = len(line) <= memories.MAX_SUMMARY_CHARS
    summary = line if short else line[: memories.MAX_SUMMARY_CHARS - 3].rstrip() + "..."
    try:
        return Draft(
            namespace=namespace,
            summary=summary,
            content="" if short else text[: memories.MAX_CONTENT_BYTES // 4],
            tags=frozenset({TAG}),
        )
    except InvalidInput:
        return None
