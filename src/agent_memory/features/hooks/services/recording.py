"""Recording: turn hook calls into events of the project they happened in."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from agent_memory.features.hooks.model import hooks, transcripts
from agent_memory.features.hooks.model.hooks import HookCall
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.services.ingest import Clean, Ingest
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.ids import EventId, Millis, Position

_LAST_ID = EventId("\U0010ffff")
_NEAR = 100  # events of a session within NEAR_MS; real sessions have fewer


@dataclass(frozen=True, slots=True)
class HookRecorder:
    ingest: Ingest
    resolver: ProjectResolver

    def clean_ids(self, call: HookCall) -> HookCall:
        """Return the call with the ids that its events are stored under."""
        return hooks.clean_ids(call, self.ingest.clean_session)

    def place(self, call: HookCall, caller: Caller) -> MemoryLocation:
        """Return the project and branch that a call happened in."""
        folder = call.folder or caller.folder
        if folder == caller.folder:
            place = self.resolver.resolve_or_guess(caller)
        else:
            place = self.resolver.guess(folder)
        return replace(place, branch=call.branch or place.branch)

    def record(self, call: HookCall, place: MemoryLocation) -> "Future[list[bool]]":
        """Record the events of a call. The future says, once durable, which of them are new.

        Raises InvalidInput and ContentBlocked.
        """
        events = hooks.build_events(
            call, project=place.name, branch=place.branch, repository=place.repository
        )
        return self.ingest.record(events, self._leave_out_known)

    def _leave_out_known(self, events: Sequence[Clean]) -> list[Clean]:
        return [
            event for event in events if not self._is_imported(event) and not self._has_ended(event)
        ]

    def _has_ended(self, event: Event) -> bool:
        """Return whether this is the end of a session that has ended already, and not gone on:
        Gemini CLI reports an end three times."""
        if event.type is not EventType.SESSION_END:
            return False
        until = Position(at_ms=event.at_ms, event_id=_LAST_ID)
        page = self.ingest.log.list_session(event.session_id, after=until, limit=1, reverse=True)
        return any(before.type is EventType.SESSION_END for before in page.events)

    def _is_imported(self, event: Event) -> bool:
        """Return whether an import has stored it already. Without ids, the text identifies it."""
        if event.type not in transcripts.SPOKEN:
            return False
        since = Position(
            at_ms=Millis(max(0, event.at_ms - transcripts.NEAR_MS)), event_id=EventId("")
        )
        page = self.ingest.log.list_session(event.session_id, after=since, limit=_NEAR)
        return any(
            transcripts.is_imported(other)
            and other.at_ms <= event.at_ms + transcripts.NEAR_MS
            and other.role is event.role
            and other.text.strip() == event.text.strip()
            for other in page.events
        )
