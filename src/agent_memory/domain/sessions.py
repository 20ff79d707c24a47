"""Sessions: what is known of a conversation as it goes on, one event after the other."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent_memory.domain import identities, procedures, users
from agent_memory.domain.episodes import Episode
from agent_memory.domain.events import Event, EventId, EventType, Millis, Position, SessionId
from agent_memory.domain.identities import KnowledgeId
from agent_memory.domain.procedures import Step
from agent_memory.domain.transcripts import main_session

MAX_CHAINS = 200  # that are counted of one session
SUMMARY_CHARS = 200
NO_ANSWER, TOOL_ERROR = "no_answer", "tool_error"
CHAT, SUBAGENT = "chat", "subagent"
_NAMED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often a session took a chain, and how often it succeeded."""

    steps: tuple[str, ...]
    used: int = 0
    succeeded: int = 0


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
    steps: tuple[Step, ...] = ()  # of the chain that is not ended
    chains: Mapping[str, Tally] = field(default_factory=dict)

    @property
    def made_ms(self) -> Millis:
        return self.started_ms

    @property
    def last(self) -> Position:
        return Position(at_ms=self.last_ms, event_id=self.last_event_id)


def id_of(session_id: SessionId) -> KnowledgeId:
    return identities.derived("session", session_id)


def follows(session: Session | None, event: Event) -> bool:
    """Whether it comes after all that is known; else the session is to be read from its start."""
    return session is None or session.last.order < event.position.order


def continued(session: Session | None, event: Event, owner: str) -> Session:
    """After one more event. `owner` is who talks with the agents of this machine."""
    known = _begun(event) if session is None else session
    about = event.metadata
    agent = known.agent or _named(about, "agent")
    known = replace(
        known,
        last_ms=event.at_ms,
        last_event_id=event.event_id,
        events=known.events + 1,
        agent=agent,
        user=known.user or _named(about, "user_id") or (owner if agent else ""),
        project=known.project or _named(about, "project"),
        ended=event.type is EventType.SESSION_END,
    )
    match event.type:
        case EventType.USER_MESSAGE:
            return replace(
                _chain_ended(known),
                summary=known.summary or _summary(event.text),
                speaker=known.speaker or _named(about, "speaker"),
                waiting=True,
            )
        case EventType.ASSISTANT_MESSAGE:
            return replace(known, waiting=False)
        case EventType.ASSISTANT_STOP | EventType.SUBAGENT_STOP:
            return replace(_chain_ended(known), waiting=False)
        case EventType.SESSION_END:
            return _chain_ended(known)
        case EventType.TOOL_RESULT:
            return _used(known, event)
        case _:
            return known


def episode(session: Session, known: Episode | None, now: Millis) -> Episode:
    """The session as an episode: it succeeded if the last prompt was answered and the last tool did
    what it was asked."""
    error = NO_ANSWER if session.waiting else TOOL_ERROR if session.failed else None
    found = Episode(
        id=session.id,
        agent_id=session.agent,
        user_id=users.id_of(session.user) if session.user else None,
        session_id=session.session_id,
        trigger_type=session.trigger,
        success=error is None,
        error_code=error,
        summary=session.summary,
        started_ms=session.started_ms,
        ended_ms=session.last_ms,
        created_ms=now,
    )
    if known is None:
        return found
    kept = {name: getattr(known, name) for name in known.fixed}
    return replace(found, created_ms=known.created_ms, fixed=known.fixed, **kept)


def _named(about: Mapping[str, str], field: str) -> str:
    """A name as it may be kept, whatever someone has sent."""
    return "".join(filter(str.isprintable, about.get(field, "")))[:_NAMED].strip()


def _begun(event: Event) -> Session:
    nested = main_session(event.session_id) != event.session_id
    started_by_agent = nested or event.type is EventType.SUBAGENT_START
    return Session(
        id=id_of(event.session_id),
        session_id=event.session_id,
        started_ms=event.at_ms,
        last_ms=event.at_ms,
        last_event_id=event.event_id,
        trigger=_named(event.metadata, "trigger") or (SUBAGENT if started_by_agent else CHAT),
    )


def _used(session: Session, event: Event) -> Session:
    taken = procedures.step(event)
    if taken is None:
        return session
    known = replace(session, failed=taken.failed, steps=procedures.joined(session.steps, taken))
    return _chain_ended(known) if procedures.ends(taken) else known


def _chain_ended(session: Session) -> Session:
    if not session.steps:
        return session
    steps = procedures.chained(session.steps)
    name = procedures.chain_id(session.agent, steps)
    chains = dict(session.chains)
    if steps and (name in chains or len(chains) < MAX_CHAINS):
        tally = chains.get(name, Tally(steps=steps))
        chains[name] = replace(
            tally,
            used=tally.used + 1,
            succeeded=tally.succeeded + (not session.steps[-1].failed),
        )
    return replace(session, steps=(), chains=chains)


def _summary(text: str) -> str:
    """The first line that says something, cut where a sentence ends if one does."""
    line = next((line.strip() for line in text[:4_000].splitlines() if line.strip()), "")
    sentence = line
    for mark in (". ", "? ", "! "):
        sentence = min(sentence, line.partition(mark)[0] + mark.strip(), key=len)
    line = sentence if len(sentence) >= 15 and sentence.rstrip(".?!") in line else line
    return line if len(line) <= SUMMARY_CHARS else line[: SUMMARY_CHARS - 3].rstrip() + "..."
