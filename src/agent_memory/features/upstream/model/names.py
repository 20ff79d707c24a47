"""Names on a team's server: whose event, session and private memory it is.

Two people may use one id for different events. So the server appends the owner to every id that
came from a person: `event@ada`. Nobody can send a name that ends in another owner.
"""

from dataclasses import replace

from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS, MAX_SESSION_ID_CHARS
from agent_memory.features.memories.model.memories import Memory
from agent_memory.kernel import owners
from agent_memory.kernel.access import Principal
from agent_memory.kernel.ids import USER, Domain, EventId, SessionId


def qualify_event(event_id: str, person: str) -> EventId:
    """Return the id of a person's event on the server."""
    return EventId(owners.qualify(event_id, person, MAX_EVENT_ID_CHARS))


def qualify_session(session_id: str, person: str) -> SessionId:
    """Return the id of a person's session on the server."""
    return SessionId(owners.qualify_session(session_id, person, MAX_SESSION_ID_CHARS))


def split_event(event_id: str) -> tuple[EventId, str]:
    """Return the id on the person's machine and the person; the latter is empty for an event that
    the server recorded itself."""
    name, mark, owner = event_id.rpartition(owners.MARK)
    return (EventId(name), owners.to_person(owner)) if mark else (EventId(event_id), "")


def split_session(session_id: str) -> tuple[SessionId, str]:
    """Return the id of a session on the person's machine, and the person."""
    main, slash, rest = session_id.partition("/")
    name, mark, owner = main.rpartition(owners.MARK)
    if not mark:
        return SessionId(session_id), ""
    return SessionId(f"{name}{slash}{rest}"), owners.to_person(owner)


def build_private_domain(person: str) -> Domain:
    """Return the domain of a person's own memories on the server."""
    return Principal(person=person).own_domain


def to_server_memory(memory: Memory, person: str) -> Memory:
    """Return a person's memory as the server stores it."""
    if memory.domain != USER:
        return replace(memory, index=0)
    return replace(memory, domain=build_private_domain(person), index=0)


def to_local_memory(memory: Memory, person: str) -> Memory:
    """Return a memory of the server as the person's machine stores it."""
    if memory.domain != build_private_domain(person):
        return replace(memory, index=0)
    return replace(memory, domain=USER, index=0)
