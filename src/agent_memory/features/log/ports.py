"""Ports of the event log and its outbox."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from agent_memory.features.log.model.events import Event, EventPage, SessionPosition
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.kernel.jobs import Check

Admits = Callable[[Event], bool]


class EventLog(Protocol):
    """The conversation events, by time, by id and by session."""

    def append(self, events: Sequence[Event], /) -> "Future[list[bool]]":
        """Store events; each is durable once the future is done.

        The future returns for each event True if it is new, and False if its id is already known.
        An event with a known id is not stored, even if the old one was forgotten.
        """
        ...

    def get(self, event_id: EventId, /) -> Event | None:
        """Return the event with this id, or None if there is none."""
        ...

    def add_aliases(self, names: Sequence[tuple[EventId, Millis]], /) -> "Future[None]":
        """Make further ids of stored events known, each with the approximate time of its event.

        `append` then rejects events with these ids, even after the events were forgotten.
        """
        ...

    def get_at(self, positions: Sequence[Position], /) -> list[Event]:
        """Return the events at these positions, in their order, without those that are gone."""
        ...

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
        """Return the events with start <= time <= end that come after a position, in order: those
        that `admits` accepts, as if there were no others.

        If texts are long, a page may have fewer events than `limit`: only `next` shows whether
        there are more.
        """
        ...

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
        """Return a session's events after a position; if `reverse`, those before, nearest first.
        `admits` is as in `list_between`."""
        ...

    def get_neighbors(
        self, places: Sequence[tuple[SessionId, Position]], /, *, reach: int
    ) -> list[list[Position]]:
        """Return for each place at most `reach` events of its session before it and after it.

        The event at the place itself is included, if it exists.
        """
        ...

    def watermark(self) -> int:
        """Return the number of the last outbox entry; everything up to it is durable."""
        ...


class EventFinder(Protocol):
    """Events and sessions by the beginning of their id, and the size of a session."""

    def find_events(self, prefix: str, /, *, limit: int) -> list[Event]:
        """Return events whose id has a prefix, in the order of their ids.

        Only the first 1,000 or so ids are read: those of forgotten events are among them.
        """
        ...

    def find_sessions(self, prefix: str, /, *, limit: int) -> list[SessionId]:
        """Return the ids of sessions with a prefix."""
        ...

    def count_session(self, session_id: SessionId, /) -> int:
        """Return the number of events of a session."""
        ...


class Outbox(Protocol):
    """The changed records, in the order of commit, for everything that is derived from them."""

    def read(self, after: int, /, *, limit: int) -> list[tuple[int, OutboxEntry]]:
        """Return the numbered entries after this number, in order, at most `limit`."""
        ...

    def trim(self, up_to: int, /) -> None:
        """Remove the entries up to this number, which every consumer has processed."""
        ...


class EventRemover(Protocol):
    """Removal of events for good."""

    def remove(self, places: Sequence[SessionPosition], /) -> None:
        """Remove events durably. Their ids stay known, so that they are never stored again.

        Events that are already gone are skipped.
        """
        ...


class Events(EventLog, EventFinder, Protocol):
    """The events that a caller sees."""


class OutboxLearner(Protocol):
    """Derives records from events, which the outbox lists."""

    def cursor(self) -> int:
        """Return the last outbox entry that was learned from; 0 if there is none."""
        ...

    def keep_up(self, check: Check, /) -> bool:
        """Learn from all new events. Return whether some of the past are left for the next call."""
        ...

    def relearn(self, session_ids: Iterable[SessionId], /) -> None:
        """Learn these sessions again from their events, even if none are left."""
        ...


class OutboxNeed(Protocol):
    """Says up to which entry a reader no longer needs the outbox; None if it needs none of it."""

    def __call__(self) -> int | None: ...
