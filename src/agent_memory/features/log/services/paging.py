"""Read long lists of events page by page, and follow the outbox without a gap."""

from collections.abc import Callable, Iterator

from agent_memory.features.log.model.events import Event, EventPage
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.kernel.ids import MAX_MILLIS, Millis, Position, SessionId

_PAGE = 1_000  # a page ends earlier where texts are long
_FIRST, _LAST = Millis(0), Millis(MAX_MILLIS)


def iter_session(
    log: EventLog, session_id: SessionId, after: Position | None = None
) -> Iterator[Event]:
    """Yield the events of a session that come after a position."""
    pages = _iter_pages(lambda at: log.list_session(session_id, after=at, limit=_PAGE), after)
    return (event for page in pages for event in page.events)


def iter_between(log: EventLog, start: Millis = _FIRST, end: Millis = _LAST) -> Iterator[EventPage]:
    """Yield pages of the events with start <= time <= end, by default all."""
    return _iter_pages(lambda at: log.list_between(start, end, after=at, limit=_PAGE), None)


def _iter_pages(
    read: Callable[[Position | None], EventPage], after: Position | None
) -> Iterator[EventPage]:
    while True:
        page = read(after)
        yield page
        if page.next is None:
            return
        after = page.next


def has_all_after(outbox: Outbox, cursor: int, watermark: int) -> bool:
    """Tell whether the outbox still has every entry after this one."""
    oldest = outbox.read(0, limit=1)
    first = oldest[0][0] if oldest else watermark + 1
    return first <= cursor + 1
