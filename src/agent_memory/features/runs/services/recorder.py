"""Memory of runs: what an agent says and does becomes events of its session, and is read back."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from agent_memory.features.knowledge.model.run_sessions import RunSession
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services.ingest import Clean, Ingest
from agent_memory.features.runs.model import history, run_events
from agent_memory.features.runs.model.history import Exchange
from agent_memory.features.runs.model.machine import Answered, Recorded
from agent_memory.features.runs.model.run_events import RunInfo
from agent_memory.kernel.errors import AgentMemoryError, ContentBlocked
from agent_memory.kernel.ids import Millis, Position, SessionId
from agent_memory.platform.ports import Clock

__all__ = ["Exchange", "RunInfo", "RunMemory", "RunRecorder"]

MAX_SESSIONS = 500
_PAGE = 200


class RunRecorder:
    """One run's, for the run's own thread."""

    def __init__(self, about: RunInfo, ingest: Ingest, clock: Clock) -> None:
        self._about = about
        self._ingest = ingest
        self._clock = clock
        self._kept = 0
        self._turn = 0
        self._last = Millis(0)
        self._pending: list[Future[list[bool]]] = []
        self._failure: AgentMemoryError | None = None

    def record(self, kept: Recorded) -> None:
        """Without waiting. What went wrong is told by `settle`."""
        if isinstance(kept, Answered):
            self._turn += 1
        at_ms = max(self._clock.now(), self._last)  # else a clock that is set would mix it up
        event = run_events.build_event(
            self._about, kept, number=self._kept + 1, turn=self._turn, at_ms=at_ms
        )
        if event is None:
            return
        self._kept += 1
        self._last = at_ms
        self._pending = [each for each in self._pending if not _is_done(each)]
        try:
            self._pending.append(self._ingest.submit([self._clean(event)]))
        except AgentMemoryError as exc:
            self._failure = self._failure or exc

    def flush(self) -> None:
        """Returns once all that was kept is durable. Raises StorageFailed, and Overloaded."""
        pending, self._pending = self._pending, []
        failure, self._failure = self._failure, None
        for each in pending:
            try:
                each.result()
            except AgentMemoryError as exc:
                failure = failure or exc
        if failure is not None:
            raise failure

    def _clean(self, event: Event) -> Clean:
        """That a secret may not be kept is no reason for a run to end: all else of it is."""
        bare = run_events.withhold_event(event)
        for each in (event, run_events.restore_names(event, bare)):
            try:
                return self._ingest.clean(each)
            except ContentBlocked:
                continue
        return self._ingest.clean(bare)


@dataclass(frozen=True, slots=True)
class RunMemory:
    ingest: Ingest
    log: EventLog
    knowledge: KnowledgeStore
    clock: Clock
    max_events: int = history.MAX_EVENTS  # of a history, and characters
    max_chars: int = history.MAX_CHARS

    def diary(self, about: RunInfo) -> RunRecorder:
        session_id = self.ingest.clean_session(about.session_id)
        return RunRecorder(replace(about, session_id=session_id), self.ingest, self.clock)

    def history(self, session_id: SessionId) -> list[Exchange]:
        """What was said in this session, the oldest first; of a long one its end."""
        session_id = self.ingest.clean_session(session_id)
        events = self._newest(session_id)
        missing = (self.log.get(each) for each in history.find_missing_prompts(events))
        prompts = [each for each in missing if each is not None and each.session_id == session_id]
        return history.build_exchanges([*prompts, *events])

    def sessions(self, limit: int) -> list[RunSession]:
        """Those that had runs, the last one first."""
        return self.knowledge.list_page(
            RunSession, limit=max(1, min(limit, MAX_SESSIONS)), offset=0
        )[0]

    def _newest(self, session_id: SessionId) -> Sequence[Event]:
        found: list[Event] = []
        size = 0
        before: Position | None = None
        while True:
            page = self.log.list_session(session_id, after=before, limit=_PAGE, reverse=True)
            for event in page.events:
                size += len(event.text)
                if found and (size > self.max_chars or len(found) >= self.max_events):
                    return found[::-1]
                found.append(event)
            if page.next is None:
                return found[::-1]
            before = page.next


def _is_done(stored: "Future[list[bool]]") -> bool:
    return stored.done() and stored.exception() is None
