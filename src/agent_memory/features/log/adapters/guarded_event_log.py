"""The event log of a team server: each caller sees and records events of their projects.

What a person records gets their name at the end of its id and of its session's, as what their
machines send: so nobody writes into another person's session, and whether an id is taken does not
tell of events that they do not see. They may leave their name out.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import ClassVar

from agent_memory.features.log.model.events import (
    MAX_EVENT_ID_CHARS,
    MAX_SESSION_ID_CHARS,
    Event,
    EventPage,
)
from agent_memory.features.log.model.metadata import PERSON
from agent_memory.features.log.ports import Admits, EventFinder, EventLog
from agent_memory.kernel import access, owners
from agent_memory.kernel.access import Principal
from agent_memory.kernel.errors import Forbidden
from agent_memory.kernel.ids import PROJECT, EventId, Millis, Position, SessionId

_PAGE = 1_000


class GuardedEventLog:
    """An EventLog and EventFinder."""

    OPEN: ClassVar[Mapping[str, str]] = {
        "watermark": "the number of changes is shown to nobody; jobs and caches compare it",
        "add_aliases": "a clean-up of the daemon calls it, on nobody's behalf",
    }

    def __init__(self, log: EventLog, finder: EventFinder) -> None:
        self._log = log
        self._finder = finder

    def append(self, events: Sequence[Event], /) -> "Future[list[bool]]":
        """Store events under names of the caller. Raises Forbidden."""
        caller = access.get_caller()
        if caller is not None:
            for event in events:
                project = get_project(event)
                access.check_may_write("events", f"{PROJECT}:{project}" if project else "")
            events = [_sign(event, caller) for event in events]
        return self._log.append(events)

    def get(self, event_id: EventId, /) -> Event | None:
        own = _qualify_event(event_id)
        return self._get(own) or (self._get(event_id) if own != event_id else None)

    def _get(self, event_id: EventId) -> Event | None:
        event = self._log.get(event_id)
        return None if event is None or not is_visible(event) else event

    def add_aliases(self, names: Sequence[tuple[EventId, Millis]], /) -> "Future[None]":
        return self._log.add_aliases(names)

    def get_at(self, positions: Sequence[Position], /) -> list[Event]:
        return [event for event in self._log.get_at(positions) if is_visible(event)]

    def list_between(
        self,
        start: Millis,
        end: Millis,
        /,
        *,
        after: Position | None,
        limit: int,
        admits: Admits | None = None,
    ) -> EventPage:
        return self._log.list_between(start, end, after=after, limit=limit, admits=_filter(admits))

    def list_session(
        self,
        session_id: SessionId,
        /,
        *,
        after: Position | None,
        limit: int,
        reverse: bool = False,
        admits: Admits | None = None,
    ) -> EventPage:
        return self._log.list_session(
            self._resolve(session_id),
            after=after,
            limit=limit,
            reverse=reverse,
            admits=_filter(admits),
        )

    def get_neighbors(
        self, places: Sequence[tuple[SessionId, Position]], /, *, reach: int
    ) -> list[list[Position]]:
        runs = self._log.get_neighbors(places, reach=reach)
        if not _is_scoped():
            return runs
        every = list(dict.fromkeys(at for run in runs for at in run))
        seen = {event.position for event in self.get_at(every)}
        return [
            run if seen.issuperset(run) else self._list_visible(session, at, reach)
            for run, (session, at) in zip(runs, places, strict=True)
        ]

    def _list_visible(self, session_id: SessionId, at: Position, reach: int) -> list[Position]:
        """Return the events around a place as if there were none but those that the caller sees."""
        before = self.list_session(session_id, after=at, limit=reach, reverse=True).events[::-1]
        after = self.list_session(session_id, after=at, limit=reach).events
        return [event.position for event in (*before, *self.get_at([at]), *after)]

    def watermark(self) -> int:
        return self._log.watermark()

    def find_events(self, prefix: str, /, *, limit: int) -> list[Event]:
        return access.take_visible(
            lambda most: self._finder.find_events(prefix, limit=most), is_visible, limit
        )

    def find_sessions(self, prefix: str, /, *, limit: int) -> list[SessionId]:
        return access.take_visible(
            lambda most: self._finder.find_sessions(prefix, limit=most), self._has_visible, limit
        )

    def count_session(self, session_id: SessionId, /) -> int:
        session_id = self._resolve(session_id)
        if not _is_scoped():
            return self._finder.count_session(session_id)
        count, after = 0, None
        while True:
            page = self.list_session(session_id, after=after, limit=_PAGE)
            count, after = count + len(page.events), page.next
            if after is None:
                return count

    def _has_visible(self, session_id: SessionId) -> bool:
        return not _is_scoped() or self._has_events(session_id)

    def _has_events(self, session_id: SessionId) -> bool:
        page = self._log.list_session(session_id, after=None, limit=1, admits=_filter(None))
        return bool(page.events)

    def _resolve(self, session_id: SessionId) -> SessionId:
        """Return the session that a caller means by an id: their own, if there is one."""
        own = _qualify_session(session_id)
        return own if own != session_id and self._has_events(own) else session_id


def get_project(event: Event) -> str:
    return event.metadata.get("project", "")


def is_visible(event: Event) -> bool:
    """Return whether the caller sees an event."""
    caller = access.get_caller()
    return caller is None or caller.sees_project(get_project(event))


def _is_scoped() -> bool:
    caller = access.get_caller()
    return caller is not None and caller.is_scoped


def _filter(admits: Admits | None) -> Admits | None:
    """Return what admits only events that the caller sees."""
    if not _is_scoped():
        return admits
    return lambda event: is_visible(event) and (admits is None or admits(event))


def _sign(event: Event, caller: Principal) -> Event:
    """Return the event as one of the person who records it. Raises Forbidden if it names another
    in its ids."""
    about = {name: value for name, value in event.metadata.items() if name != PERSON}
    if not caller.person:  # the operator
        return replace(event, metadata=about)
    main = event.session_id.partition("/")[0]
    for what, name in (("event id", event.event_id), ("session id", main)):
        if owners.is_anothers(name, caller.person):
            raise Forbidden(f"the {what} {name[:200]!r} ends in the name of another person")
    return replace(
        event,
        event_id=_qualify_event(event.event_id),
        session_id=_qualify_session(event.session_id),
        metadata={**about, PERSON: caller.person},
    )


def _qualify_event(event_id: EventId) -> EventId:
    """Return an event's id as one of the caller. One that names its person stays."""
    caller = access.get_caller()
    if caller is None or not caller.person or owners.MARK in event_id:
        return event_id
    return EventId(owners.qualify(event_id, caller.person, MAX_EVENT_ID_CHARS))


def _qualify_session(session_id: SessionId) -> SessionId:
    """Return a session's id as one of the caller. One that names its person stays."""
    caller = access.get_caller()
    if caller is None or not caller.person or owners.MARK in session_id.partition("/")[0]:
        return session_id
    return SessionId(owners.qualify_session(session_id, caller.person, MAX_SESSION_ID_CHARS))
