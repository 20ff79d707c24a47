"""The records of runs: an agent's messages and tool calls as events of its session."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from agent_memory.features.knowledge.model.run_sessions import RunSession
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services.ingest import Ingest
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
    """Records one run. Only the thread of the run uses it."""

    def __init__(self, info: RunInfo, ingest: Ingest, clock: Clock) -> None:
        self._info = info
        self._ingest = ingest
        self._clock = clock
        self._recorded = 0
        self._turn = 0
        self._last = Millis(0)
        self._pending: list[Future[list[bool]]] = []
        self._failure: AgentMemoryError | None = None

    def record(self, record: Recorded) -> None:
        """Submit a record without waiting. `flush` raises the errors."""
        if isinstance(record, Answered):
            self._turn += 1
        at_ms = max(self._clock.now(), self._last)  # keeps the order if the clock is set back
        event = run_events.build_event(
            self._info, record, number=self._recorded + 1, turn=self._turn, at_ms=at_ms
        )
        if event is None:
            return
        self._recorded += 1
        self._last = at_ms
        self._pending = [stored for stored in self._pending if not _is_done(stored)]
        try:
            self._pending.append(self._submit(event))
        except AgentMemoryError as exc:
            self._failure = self._failure or exc

    def flush(self) -> None:
        """Wait until all records are durable. Raises StorageFailed and Overloaded."""
        pending, self._pending = self._pending, []
        failure, self._failure = self._failure, None
        for stored in pending:
            try:
                stored.result()
            except AgentMemoryError as exc:
                failure = failure or exc
        if failure is not None:
            raise failure

    def _submit(self, event: Event) -> "Future[list[bool]]":
        """Redact blocked content instead of failing the run."""
        bare = run_events.withhold_event(event)
        for candidate in (event, run_events.restore_names(event, bare)):
            try:
                return self._ingest.record([candidate])
            except ContentBlocked:
                continue
        return self._ingest.record([bare])


@dataclass(frozen=True, slots=True)
class RunMemory:
    ingest: Ingest
    log: EventLog
    knowledge: KnowledgeStore
    clock: Clock
    max_events: int = history.MAX_EVENTS  # limits of a history
    max_chars: int = history.MAX_CHARS

    def open_recorder(self, info: RunInfo) -> RunRecorder:
        session_id = self.ingest.clean_session(info.session_id)
        return RunRecorder(replace(info, session_id=session_id), self.ingest, self.clock)

    def history(self, session_id: SessionId) -> list[Exchange]:
        """Return the exchanges of this session, oldest first; of a long session the latest."""
        session_id = self.ingest.clean_session(session_id)
        events = self._newest(session_id)
        missing = (self.log.get(event_id) for event_id in history.find_missing_prompts(events))
        prompts = [event for event in missing if event and event.session_id == session_id]
        return history.build_exchanges([*prompts, *events])

    def sessions(self, limit: int) -> list[RunSession]:
        """Return the sessions that had runs, latest first."""
        return self.knowledge.list_page(
            RunSession, limit=max(1, min(limit, MAX_SESSIONS)), offset=0
        )[0]

    def _newest(self, session_id: SessionId) -> Sequence[Event]:
        newest: list[Event] = []
        size = 0
        before: Position | None = None
        while True:
            page = self.log.list_session(session_id, after=before, limit=_PAGE, reverse=True)
            for event in page.events:
                size += len(event.text)
                if newest and (size > self.max_chars or len(newest) >= self.max_events):
                    return newest[::-1]
                newest.append(event)
            if page.next is None:
                return newest[::-1]
            before = page.next


def _is_done(stored: "Future[list[bool]]") -> bool:
    return stored.done() and stored.exception() is None
