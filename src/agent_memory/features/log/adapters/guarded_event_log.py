"""The event log of a team server: each caller sees and records events of their projects."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventPage
from agent_memory.features.log.model.metadata import PERSON
from agent_memory.kernel import access, owners
from agent_memory.kernel.access import Principal
from agent_memory.kernel.errors import Forbidden
from agent_memory.kernel.ids import PROJECT, EventId, Millis, Position, SessionId

_PAGES = 20  # read for one page of a caller who sees few events
_SCANNED = 200  # events of each, at least


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
        self, start: Millis, end: Millis, /, *, after: Position | None, limit: int
    ) -> EventPage:
        read = super().list_between
        return _filter_pages(
            lambda place, most: read(start, end, after=place, limit=most), after, limit
        )

    def list_session(
        self,
        session_id: SessionId,
        /,
        *,
        after: Position | None,
        limit: int,
        reverse: bool = False,
    ) -> EventPage:
        read = super().list_session
        return _filter_pages(
            lambda place, most: read(session_id, after=place, limit=most, reverse=reverse),
            after,
            limit,
        )

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


def _sign(event: Event, caller: Principal) -> Event:
    """Return the event with the person who records it. Nobody can name another."""
    if event.metadata.get(PERSON, "") == caller.person:
        return event
    rest = {name: value for name, value in event.metadata.items() if name != PERSON}
    return replace(event, metadata={**rest, PERSON: caller.person} if caller.person else rest)


def _filter_pages(
    read: Callable[[Position | None, int], EventPage], after: Position | None, limit: int
) -> EventPage:
    """Read pages until there is something to show. A page may be empty: only its `next` shows
    whether there are more."""
    if not _is_scoped():
        return read(after, limit)
    for _ in range(_PAGES):
        page = read(after, max(limit, _SCANNED))
        shown = tuple(event for event in page.events if is_visible(event))
        if len(shown) > limit:
            return EventPage(events=shown[:limit], next=shown[limit - 1].position)
        if shown or page.next is None:
            return EventPage(events=shown, next=page.next)
        after = page.next
    return EventPage(events=(), next=after)
