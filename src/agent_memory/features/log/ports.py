"""What the event log needs from storage."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from agent_memory.features.log.model.events import Event, EventPage, SessionPosition
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId


class EventLog(Protocol):
    """The conversation events, by time, by id and by session."""

    def append(self, events: Sequence[Event], /) -> "Future[list[bool]]":
        """For each event, once durable: True if it is new, False if its id was there already."""
        ...

    def get(self, event_id: EventId, /) -> Event | None: ...

    def add_aliases(self, names: Sequence[tuple[EventId, Millis]], /) -> "Future[None]":
        """These ids, too, stand for events that are there, at about that time: `append` takes none
        of them, also not when the events were forgotten."""
        ...

    def get_at(self, positions: Sequence[Position], /) -> list[Event]:
        """The events at these places, in their order; those that are gone are left out."""
        ...

    def list_between(
        self, start: Millis, end: Millis, /, *, after: Position | None, limit: int
    ) -> EventPage:
        """Events of start <= time <= end. A page may hold fewer than `limit` where texts are long:
        only `next` tells whether there are more."""
        ...

    def list_session(
        self,
        session_id: SessionId,
        /,
        *,
        after: Position | None,
        limit: int,
        reverse: bool = False,
    ) -> EventPage:
        """A session's events after this place; reversed, those before it, nearest first."""
        ...

    def get_neighbors(
        self, places: Sequence[tuple[SessionId, Position]], /, *, reach: int
    ) -> list[list[Position]]:
        """For each place in a session: at most `reach` events before it, its own, `reach` after."""
        ...

    def watermark(self) -> int:
        """The outbox sequence up to which everything is durable."""
        ...


class Outbox(Protocol):
    """What was changed, in the order of commit, for everything that is derived from it."""

    def read(self, after: int, /, *, limit: int) -> list[tuple[int, OutboxEntry]]:
        """The entries after this number, each with its own."""
        ...

    def trim(self, up_to: int, /) -> None:
        """Remove what every consumer has behind it."""
        ...


class EventRemover(Protocol):
    """Removes events for good."""

    def remove(self, places: Sequence[SessionPosition], /) -> None:
        """Their ids stay known, and are never stored again. Those that are gone are passed by."""
        ...
