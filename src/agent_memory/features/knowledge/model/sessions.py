"""Sessions: what is known of a conversation, updated event by event.

Agents may run in it. Each run has its own episode and chains (`run_sessions`), so steps, success
and episode here cover only what happened outside runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from agent_memory.features.knowledge.model import procedures, users
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.procedures import Step
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.kernel import ids
from agent_memory.kernel.ids import EventId, KnowledgeId, Millis, Position, SessionId

MAX_CHAINS = 200  # counted per session
SUMMARY_CHARS = 200
NO_ANSWER, TOOL_ERROR = "no_answer", "tool_error"
CHAT, SUBAGENT = "chat", "subagent"
_NAMED = 256
_RECENT_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTally:
    """How often a session took a chain, and how often it succeeded."""

    steps: tuple[str, ...]
    used: int = 0
    succeeded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NonRunActivity:
    """The part of a session outside its runs."""

    started_ms: Millis
    last_ms: Millis
    trigger: str
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    id: KnowledgeId
    session_id: SessionId
    started_ms: Millis
    last_ms: Millis
    last_event_id: EventId
    events: int = 0
    agent: str = ""
    user: str = ""  # the canonical id
    speaker: str = ""
    project: str = ""
    trigger: str = CHAT
    summary: str = ""
    waiting: bool = False  # for an answer
    ended: bool = False
    failed: bool = False  # the last tool
    steps: tuple[Step, ...] = ()  # of the open chain
    chains: Mapping[str, ChainTally] = field(default_factory=dict)
    has_runs: bool = False
    beside: NonRunActivity | None = None  # only if it has runs

    def is_running(self, now: Millis) -> bool:
        """Tell whether it may go on: not every agent says that a session ends."""
        return not self.ended and now - self.last_ms < _RECENT_MS

    @property
    def outside(self) -> NonRunActivity | None:
        """The activity outside runs: all of it if there are no runs."""
        if self.has_runs:
            return self.beside
        return NonRunActivity(
            started_ms=self.started_ms,
            last_ms=self.last_ms,
            trigger=self.trigger,
            summary=self.summary,
        )

    @property
    def error_code(self) -> str | None:
        """Why it failed: the last prompt has no answer, or the last tool failed."""
        return NO_ANSWER if self.waiting else TOOL_ERROR if self.failed else None

    @property
    def episode_id(self) -> KnowledgeId | None:
        """The id of its episode; None if all of it is runs."""
        return None if self.outside is None else self.id

    @property
    def last(self) -> Position:
        return Position(at_ms=self.last_ms, event_id=self.last_event_id)


def derive_id(session_id: SessionId) -> KnowledgeId:
    return ids.derive_id("session", session_id)


def follows(session: Session | None, event: Event) -> bool:
    """Return whether the event follows all known ones; else the session is read again."""
    return session is None or session.last.order < event.position.order


def add_event(session: Session | None, event: Event, owner: str) -> Session:
    """Return the session after one more event. `owner` is the user of this machine's agents."""
    known = _create_session(event) if session is None else session
    if event_metadata.get_run_id(event):
        return _add_run_event(known, event, owner)
    updated = record_presence(known, event, owner)
    if known.has_runs:
        updated = replace(updated, beside=_extend_outside(known, event))
    if (
        known.outside is None
    ):  # the agent that talks with the user takes precedence over one that ran here
        updated = replace(updated, agent=clean_name(event.metadata, "agent") or known.agent)
    return record_activity(updated, event)


S = TypeVar("S", bound=Session)


def record_presence(known: S, event: Event, owner: str) -> S:
    """Record the time, agent, user and project of the event."""
    metadata = event.metadata
    agent = known.agent or clean_name(metadata, "agent")
    return replace(
        known,
        last_ms=event.at_ms,
        last_event_id=event.event_id,
        events=known.events + 1,
        agent=agent,
        user=known.user or clean_name(metadata, "user_id") or (owner if agent else ""),
        project=known.project or clean_name(metadata, "project"),
        ended=event.type is EventType.SESSION_END,
    )


def record_activity(known: S, event: Event) -> S:
    """Record what was said and done."""
    if event_metadata.is_description(event):
        return known
    match event.type:
        case EventType.USER_MESSAGE:
            return replace(
                _end_chain(known),
                summary=known.summary or summarize_text(event.text),
                speaker=known.speaker or clean_name(event.metadata, "speaker"),
                waiting=True,
            )
        case EventType.ASSISTANT_MESSAGE:
            return replace(known, waiting=False)
        case EventType.ASSISTANT_STOP | EventType.SUBAGENT_STOP:
            return replace(_end_chain(known), waiting=False)
        case EventType.SESSION_END:
            return _end_chain(known)
        case EventType.TOOL_RESULT:
            return _add_tool_use(known, event)
        case _:
            return known


def build_episode(session: Session, known: Episode | None, now: Millis) -> Episode | None:
    """Build the episode of a session or run; None if all of the session is runs."""
    outside = session.outside
    if outside is None:
        return None
    error = session.error_code
    episode = Episode(
        id=session.id,
        agent_id=session.agent,
        user_id=users.derive_id(session.user) if session.user else None,
        session_id=session.session_id,
        trigger_type=outside.trigger,
        success=error is None,
        error_code=error,
        summary=outside.summary,
        started_ms=outside.started_ms,
        ended_ms=outside.last_ms,
        created_ms=now,
    )
    return keep_fixed(episode, known)


def keep_fixed(episode: Episode, known: Episode | None) -> Episode:
    """Keep the fields that a user set."""
    if known is None:
        return episode
    fixed_values = {name: getattr(known, name) for name in known.fixed}
    return replace(episode, created_ms=known.created_ms, fixed=known.fixed, **fixed_values)


def clean_name(metadata: Mapping[str, str], field: str) -> str:
    """Return the printable part of a metadata value, cut to the limit of names."""
    return "".join(filter(str.isprintable, metadata.get(field, "")))[:_NAMED].strip()


def _add_run_event(known: Session, event: Event, owner: str) -> Session:
    """Add a run's event to its session: only presence and the first prompt count."""
    prompt = event.text if event.type is EventType.USER_MESSAGE else ""
    return replace(
        record_presence(known, event, owner),
        summary=known.summary or summarize_text(prompt),
        has_runs=True,
        beside=known.outside if known.events else None,
    )


def _extend_outside(known: Session, event: Event) -> NonRunActivity:
    beside = known.beside or NonRunActivity(
        started_ms=event.at_ms, last_ms=event.at_ms, trigger=_trigger(event)
    )
    prompt = event.text if event.type is EventType.USER_MESSAGE else ""
    return replace(beside, last_ms=event.at_ms, summary=beside.summary or summarize_text(prompt))


def _create_session(event: Event) -> Session:
    return Session(
        id=derive_id(event.session_id),
        session_id=event.session_id,
        started_ms=event.at_ms,
        last_ms=event.at_ms,
        last_event_id=event.event_id,
        trigger=_trigger(event),
    )


def _trigger(event: Event) -> str:
    nested = get_main_session(event.session_id) != event.session_id
    started_by_agent = nested or event.type is EventType.SUBAGENT_START
    return clean_name(event.metadata, "trigger") or (SUBAGENT if started_by_agent else CHAT)


def _add_tool_use(session: S, event: Event) -> S:
    step = procedures.parse_step(event)
    if step is None:
        return session
    known = replace(session, failed=step.failed, steps=procedures.append_step(session.steps, step))
    return _end_chain(known) if procedures.is_chain_end(step) else known


def _end_chain(session: S) -> S:
    if not session.steps:
        return session
    steps = procedures.name_steps(session.steps)
    name = procedures.derive_chain_id(session.agent, steps)
    chains = dict(session.chains)
    if steps and (name in chains or len(chains) < MAX_CHAINS):
        tally = chains.get(name, ChainTally(steps=steps))
        chains[name] = replace(
            tally,
            used=tally.used + 1,
            succeeded=tally.succeeded + (not session.steps[-1].failed),
        )
    return replace(session, steps=(), chains=chains)


def summarize_text(text: str) -> str:
    """Return the first non-blank line, cut at the end of its first sentence if possible."""
    line = next((line.strip() for line in text[:4_000].splitlines() if line.strip()), "")
    sentence = line
    for mark in (". ", "? ", "! "):
        sentence = min(sentence, line.partition(mark)[0] + mark.strip(), key=len)
    line = sentence if len(sentence) >= 15 and sentence.rstrip(".?!") in line else line
    return line if len(line) <= SUMMARY_CHARS else line[: SUMMARY_CHARS - 3].rstrip() + "..."
