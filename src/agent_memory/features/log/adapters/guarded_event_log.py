"""The event log of a team server: each caller sees and records events of their projects."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventPage
from agent_memory.features.log.model.metadata import PERSON
from agent_memory.features.log.ports import Admits
from agent_memory.kernel import access, owners
from agent_memory.kernel.access import Principal
from agent_memory.kernel.errors import Forbidden
from agent_memory.kernel.ids import PROJECT, EventId, Millis, Position, SessionId


class GuardedEventLog(StoredEventLog):
    def append(self, events: Sequence[Event], /) -> "Future[list[bool]]":
        """Store events, with the name of the caller. Raises Forbidden."""
        caller = access.get_caller()
        if caller is not None:
            for event in events:
                if owners.is_anothers(event.event_id, caller.person):
                    raise Forbidden(
                        f"the event id {event.event_id[:200]!r} ends in the name of another person"
                    )
                project = get_project(event)
                access.check_may_write("events", f"{PROJECT}:{project}" if project else "")
            events = [_sign(event, caller) for event in events]
        return super().append(events)

    def get(self, event_id: EventId, /) -> Event | None:
        event = super().get(event_id)
        return None if event is None or not is_visible(event) else event

    def get_at(self, positions: Sequence[Position], /) -> list[Event]:
        return [event for event in super().get_at(positions) if is_visible(event)]

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
        return super().list_between(start, end, after=after, limit=limit, admits=_filter(admits))

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
        return super().list_session(
            session_id, after=after, limit=limit, reverse=reverse, admits=_filter(admits)
        )

    def get_neighbors(
        self, places: Sequence[tuple[SessionId, Position]], /, *, reach: int
    ) -> list[list[Position]]:
        runs = super().get_neighbors(places, reach=reach)
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

    def find_sessions(self, prefix: str, /, *, limit: int) -> list[SessionId]:
        found = super().find_sessions(prefix, limit=limit)
        return [name for name in found if self._has_visible(name)]

    def count_session(self, session_id: SessionId, /) -> int:
        return super().count_session(session_id) if self._has_visible(session_id) else 0

    def _has_visible(self, session_id: SessionId) -> bool:
        """Return whether the caller sees the beginning of a session."""
        return not _is_scoped() or any(
            is_visible(event)
            for event in super().list_session(session_id, after=None, limit=1).events
        )


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
    """Return the event with the person who records it. Nobody can name another."""
    if event.metadata.get(PERSON, "") == caller.person:
        return event
    rest = {name: value for name, value in event.metadata.items() if name != PERSON}
    return replace(event, metadata={**rest, PERSON: caller.person} if caller.person else rest)
