"""What can be asked of what is recorded: the sessions."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.operations import format_time
from agent_memory.features.knowledge.services.knowledge import Knowledge
from agent_memory.features.recall.services.opening import Opening
from agent_memory.kernel.access import Role
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.operations import operation
from agent_memory.kernel.structs import Items, Limit, Offset, copy_fields


class SessionFilter(Struct, frozen=True, kw_only=True):
    session_id: Annotated[str, Meta(max_length=256, description="Only this one.")] = ""
    limit: Limit = 50
    offset: Offset = 0


class SessionAnswer(Struct, frozen=True, kw_only=True):
    """A session. `running` is one that has not ended, and was active within a day."""

    session_id: str
    episode_id: str | None
    agent: str | None
    user: str | None
    project: str | None
    summary: str
    events: int
    started_at: str
    last_event_at: str
    ended: bool
    running: bool

    @classmethod
    def from_session(cls, session: Session, now: Millis) -> "SessionAnswer":
        return copy_fields(
            cls,
            session,
            agent=session.agent or None,
            user=session.user or None,
            project=session.project or None,
            started_at=format_time(session.started_ms),
            last_event_at=format_time(session.last_ms),
            running=session.is_running(now),
        )


@operation("sessions.list", role=Role.READER, http="GET /api/v1/sessions/", tag="events")
def list_sessions(
    knowledge: Knowledge, opening: Opening, request: SessionFilter
) -> Items[SessionAnswer]:
    """List sessions, the newest first."""
    now = knowledge.clock.now()
    if request.session_id:
        found = knowledge.find_session(opening.resolve_session(request.session_id))
        sessions = [] if found is None else [found]
        page = sessions, len(sessions)
    else:
        page = knowledge.sessions(limit=request.limit, offset=request.offset)
    return Items.from_page(page, lambda session: SessionAnswer.from_session(session, now))
