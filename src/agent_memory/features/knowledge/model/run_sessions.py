"""Run sessions: what is known of agent runs, each an episode, and of the sessions they are in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent_memory.features.knowledge.model import sessions
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.model.metadata import Outcome
from agent_memory.kernel import ids
from agent_memory.kernel.ids import KnowledgeId, Millis, SessionId

_ERRORS = {
    Outcome.COMPLETED.value: None,
    Outcome.FAILED.value: "run_failed",
    Outcome.CANCELLED.value: "cancelled",
    Outcome.DENIED.value: "denied",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Session):
    """A run: a session within a session. `outcome` is empty until it ends."""

    run_id: str
    outcome: str = ""

    @property
    def error_code(self) -> str | None:
        """An interrupted run counts as unanswered."""
        return _ERRORS.get(self.outcome, sessions.NO_ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSession:
    """All runs of a session together. Lists are ordered by the last activity."""

    id: KnowledgeId  # the session's
    session_id: SessionId
    agent: str  # of the last run, like the outcome
    first_ms: Millis
    last_ms: Millis
    runs: int
    summary: str  # of the first prompt with text
    last_run: str
    outcome: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKnowledge:
    """What is known of a session, and of the runs in question."""

    session: Session | None = None
    whole: RunSession | None = None
    runs: Mapping[str, Run] = field(default_factory=dict)


def derive_id(session_id: SessionId, run_id: str) -> KnowledgeId:
    return ids.derive_id("run", session_id, run_id)


def add_events(known: SessionKnowledge, events: Iterable[Event], owner: str) -> SessionKnowledge:
    """Return the knowledge after more events of the session."""
    session, whole, runs = known.session, known.whole, dict(known.runs)
    for event in events:
        session = sessions.add_event(session, event, owner)
        run_id = event_metadata.get_run_id(event)
        if run_id:
            before = runs.get(run_id)
            run = _extend_run(before or _create_run(event, run_id), event, owner)
            whole = _extend_whole(whole, run, is_new=before is None)
            runs[run_id] = run
    return SessionKnowledge(session=session, whole=whole, runs=runs)


def _create_run(event: Event, run_id: str) -> Run:
    return Run(
        id=derive_id(event.session_id, run_id),
        run_id=run_id,
        session_id=event.session_id,
        started_ms=event.at_ms,
        last_ms=event.at_ms,
        last_event_id=event.event_id,
        trigger=event_metadata.RUN,
    )


def _extend_run(run: Run, event: Event, owner: str) -> Run:
    run = sessions.record_activity(sessions.record_presence(run, event, owner), event)
    if event.type is EventType.ASSISTANT_STOP:
        return replace(run, outcome=sessions.clean_name(event.metadata, event_metadata.OUTCOME))
    return run


def _extend_whole(whole: RunSession | None, run: Run, *, is_new: bool) -> RunSession:
    if whole is None:
        whole = RunSession(
            id=sessions.derive_id(run.session_id),
            session_id=run.session_id,
            agent=run.agent,
            first_ms=run.started_ms,
            last_ms=run.last_ms,
            runs=0,
            summary=run.summary,
            last_run=run.run_id,
        )
    if is_new:
        whole = replace(whole, runs=whole.runs + 1, last_run=run.run_id)
    if run.run_id == whole.last_run:
        whole = replace(whole, agent=run.agent, outcome=run.outcome)
    return replace(whole, last_ms=run.last_ms, summary=whole.summary or run.summary)
