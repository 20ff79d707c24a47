"""Recording: what agents' hooks tell becomes events of the project that it happened in."""

from concurrent.futures import Future
from dataclasses import dataclass, replace

from agent_memory.features.hooks.model import hooks, transcripts
from agent_memory.features.hooks.model.hooks import HookCall
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.project_resolver import Caller, ProjectResolver
from agent_memory.kernel.ids import EventId, Millis, Position

_NEAR = 100  # events of a session within that time; there are never so many


@dataclass(frozen=True, slots=True)
class Recording:
    ingest: Ingest
    workplaces: ProjectResolver

    def clean_ids(self, told: HookCall) -> HookCall:
        """Return the call with the ids that its events are stored under."""
        return hooks.clean_ids(told, self.ingest.clean_session)

    def place(self, told: HookCall, caller: Caller) -> MemoryLocation:
        """Where it happened."""
        folder = told.folder or caller.folder
        if folder == caller.folder:
            found = self.workplaces.resolve_or_guess(caller)
        else:
            found = self.workplaces.guess(folder)
        return replace(found, branch=told.branch or found.branch)

    def record(self, told: HookCall, place: MemoryLocation) -> "Future[list[bool]]":
        """For each event of it, once durable: whether it is new. Raises InvalidInput, and
        ContentBlocked."""
        events = hooks.build_events(told, project=place.name, branch=place.branch)
        clean = [self.ingest.clean(each) for each in events]
        return self.ingest.submit([each for each in clean if not self._is_imported(each)])

    def _is_imported(self, event: Event) -> bool:
        """Whether an import was quicker: what agents give no id is known by its words."""
        if event.type not in transcripts.SPOKEN:
            return False
        since = Position(
            at_ms=Millis(max(0, event.at_ms - transcripts.NEAR_MS)), event_id=EventId("")
        )
        page = self.ingest.log.list_session(event.session_id, after=since, limit=_NEAR)
        return any(
            transcripts.is_imported(each)
            and each.at_ms <= event.at_ms + transcripts.NEAR_MS
            and each.role is event.role
            and each.text.strip() == event.text.strip()
            for each in page.events
        )
