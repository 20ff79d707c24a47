"""Timeline: reading recorded events by time, by id and by session."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from agent_memory.features.log.model.events import Event, EventPage, check_millis, check_session_id
from agent_memory.features.log.model.metadata import is_description
from agent_memory.features.log.model.outlines import SessionOutline
from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services import paging
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId

DEFAULT_EVENTS = 50
MAX_EVENTS = 1_000
_FIRST = EventId("")  # before all ids


@dataclass(frozen=True, slots=True)
class Timeline:
    log: EventLog

    def list_events(
        self, start: int, end: int, *, limit: int = 0, after: Position | None = None
    ) -> EventPage:
        """Return the events with start <= time <= end, by time, then id.

        A limit of 0 means the default. Titles and summaries are left out: no one said them.
        """
        check_millis("from_timestamp_ms", start)
        check_millis("to_timestamp_ms", end)
        if start > end:
            raise InvalidInput(
                f"from_timestamp_ms ({start}) is after to_timestamp_ms ({end}): swap them"
            )
        return _list_talk(
            lambda place: self.log.list_between(
                Millis(start), Millis(end), after=place, limit=page_size(limit)
            ),
            after,
        )

    def iter_events(self, start: int, end: int) -> Iterator[Event]:
        """Yield all events with start <= time <= end, by time."""
        for page in paging.iter_between(self.log, Millis(start), Millis(end)):
            yield from page.events

    def outline_sessions(self, start: int, end: int) -> list[SessionOutline]:
        """Return the sessions with events in a time, by their first one. Reads all of these."""
        found: dict[SessionId, SessionOutline] = {}
        for event in self.iter_events(start, end):
            if event.session_id not in found:
                found[event.session_id] = SessionOutline(event.session_id, event.at_ms)
            found[event.session_id].add(event)
        return list(found.values())

    def iter_session(self, session_id: str, start: int, end: int) -> Iterator[Event]:
        """Yield the events of a session in a time."""
        check_session_id(session_id)
        before = Position(at_ms=Millis(max(0, start - 1)), event_id=EventId(""))
        for event in paging.iter_session(self.log, SessionId(session_id), before):
            if event.at_ms > end:
                return
            if event.at_ms >= start:
                yield event

    def get_event(self, event_id: str) -> Event:
        event = self.log.get(EventId(event_id))
        if event is None:
            raise NotFound(f"there is no event {event_id!r}")
        return event

    def list_session(
        self,
        session_id: str,
        *,
        limit: int = 0,
        after: Position | None = None,
        reverse: bool = False,
    ) -> EventPage:
        """Return a session's events by time, without its titles and summaries; an unknown session
        has none. If `reverse`, the latest come first, and `after` is the one to read back from."""
        check_session_id(session_id)
        return _list_talk(
            lambda place: self.log.list_session(
                SessionId(session_id), after=place, limit=page_size(limit), reverse=reverse
            ),
            after,
        )

    def find_start(
        self, session_id: str, start: EventId | Millis, *, reverse: bool = False
    ) -> Position | None:
        """Return the `after` of `list_session` for a page that begins at an event or at a time.

        Both are part of the page. None: it begins at the first event, or at the last.
        Raises NotFound if the session has no such event.
        """
        if not isinstance(start, str):
            check_millis("from_timestamp_ms", start)
            at_ms = start + 1 if reverse else start
            return Position(at_ms=Millis(at_ms), event_id=_FIRST) if at_ms <= MAX_MILLIS else None
        event = self.get_event(start)
        if event.session_id != session_id:
            raise NotFound(f"there is no event {start!r} in the session {session_id!r}")
        if reverse:
            return event.position.next
        before = self.log.list_session(
            event.session_id, after=event.position, limit=1, reverse=True
        ).events
        return before[0].position if before else None


def _list_talk(read: Callable[[Position | None], EventPage], after: Position | None) -> EventPage:
    """Return the first page with an event that is no description, or the last page.

    A page without any event says that the log has read enough at once, and goes on at `next`.
    """
    while True:
        page = read(after)
        events = tuple(event for event in page.events if not is_description(event))
        if events or page.next is None or not page.events:
            return replace(page, events=events)
        after = page.next


def page_size(limit: int) -> int:
    if limit < 0:
        raise InvalidInput(f"limit is {limit}; it must not be negative (0 means {DEFAULT_EVENTS})")
    return min(limit or DEFAULT_EVENTS, MAX_EVENTS)
