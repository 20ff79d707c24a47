"""The event log on an ordered store: event, id, session and outbox rows in one batch."""

from collections.abc import Sequence
from concurrent.futures import Future

from agent_memory.features.log.adapters import event_codec
from agent_memory.features.log.model.events import Event, EventPage, SessionPosition
from agent_memory.features.log.ports import Admits
from agent_memory.kernel import futures
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import (
    Absent,
    Append,
    Batch,
    CommitOutcome,
    Committed,
    Delete,
    Put,
    Row,
)
from agent_memory.platform.store.rows import count

PAGE_BYTES = 3 << 20  # below the default limit of gRPC clients, 4 MiB
_CHUNK = 64
_MOST_SCANNED = 1_024  # events read at once for a caller who sees few of them
_ID_CHUNKS = 16  # read for one prefix
_COUNTED = 10_000  # rows at a time


class StoredEventLog:
    """An EventLog, EventFinder and EventRemover."""

    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def append(self, events: Sequence[Event], /) -> "Future[list[bool]]":
        return futures.map_future(
            self._store.submit([_build_batch(event) for event in events]), _to_created
        )

    def get(self, event_id: EventId, /) -> Event | None:
        at_ms = self._store.get(families.EVENT_IDS, keys.event_id(event_id))
        if at_ms is None:
            return None
        at = Position(at_ms=codec.decode_millis(at_ms), event_id=event_id)
        value = self._store.get(families.EVENTS, keys.event(at.at_ms, at.event_id))
        return None if value is None else event_codec.decode_event(at, value)

    def add_aliases(self, names: Sequence[tuple[EventId, Millis]], /) -> "Future[None]":
        batches = [_build_alias(event_id, at_ms) for event_id, at_ms in names]
        return futures.map_future(self._store.submit(batches), lambda _: None)

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
        first = keys.event_prefix(start)
        if after is not None:
            first = max(first, keys.after(keys.event(after.at_ms, after.event_id)))
        last = keys.end_of(keys.event_prefix(end))
        return self._page(families.EVENTS, first, last, limit, admits=admits)

    def get_at(self, positions: Sequence[Position], /) -> list[Event]:
        return [event_codec.decode_event(at, value) for at, value in self._read(positions)]

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
        prefix = keys.session(session_id)
        first, last = prefix, keys.end_of(prefix)
        if after is not None:
            place = keys.session_event(session_id, after.at_ms, after.event_id)
            first, last = (first, place) if reverse else (keys.after(place), last)
        return self._page(
            families.SESSION_EVENTS, first, last, limit, reverse=reverse, admits=admits
        )

    def get_neighbors(
        self, places: Sequence[tuple[SessionId, Position]], /, *, reach: int
    ) -> list[list[Position]]:
        names = [keys.session_event(session, at.at_ms, at.event_id) for session, at in places]
        neighbors = self._store.get_neighbors(families.SESSION_EVENTS, names, reach=reach)
        prefixes = [keys.session(session) for session, _ in places]
        return [
            [keys.parse_position(key) for key, _ in rows if key.startswith(prefix)]
            for prefix, rows in zip(prefixes, neighbors, strict=True)
        ]

    def find_events(self, prefix: str, /, *, limit: int) -> list[Event]:
        start = keys.event_id(EventId(prefix))
        end = keys.end_of(start)
        found: list[Event] = []
        for _ in range(_ID_CHUNKS):
            rows = self._store.scan(families.EVENT_IDS, start, end, limit=_CHUNK)
            found += self.get_at(
                [
                    Position(at_ms=codec.decode_millis(value), event_id=keys.parse_event_id(key))
                    for key, value in rows
                ]
            )
            if len(found) >= limit or len(rows) < _CHUNK:
                break
            start = keys.after(rows[-1][0])
        return found[:limit]

    def find_sessions(self, prefix: str, /, *, limit: int) -> list[SessionId]:
        """Skip from session to session: a session may have many rows."""
        start = keys.SESSION_PREFIX + keys.escape(prefix)
        end = keys.end_of(start)
        found: list[SessionId] = []
        while len(found) < limit:
            rows = self._store.scan(families.SESSION_EVENTS, start, end, limit=1)
            if not rows:
                break
            found.append(keys.parse_session(rows[0][0]))
            start = keys.end_of(keys.session(found[-1]))
        return found

    def count_session(self, session_id: SessionId, /) -> int:
        prefix = keys.session(session_id)
        return count(self._store, families.SESSION_EVENTS, prefix, limit=_COUNTED)

    def remove(self, places: Sequence[SessionPosition], /) -> None:
        """Remove events; the row of the id stays as a tombstone for `append`."""
        present = {event.event_id for event in self.get_at([place.at for place in places])}
        batches = [_build_removal(place) for place in places if place.at.event_id in present]
        if batches:
            self._store.submit(batches).result()

    def watermark(self) -> int:
        return self._store.get_sequence(families.OUTBOX, keys.OUTBOX_PREFIX)

    def _page(
        self,
        family: str,
        start: bytes,
        end: bytes,
        limit: int,
        *,
        reverse: bool = False,
        admits: Admits | None = None,
    ) -> EventPage:
        """Read a page in chunks, so that a page of long texts stops early. The first event beyond
        it shows that there is a next page."""
        events: list[Event] = []
        size = 0
        chunk = _CHUNK
        while True:
            count = min(chunk, limit - len(events)) + 1 if admits is None else chunk
            rows = self._store.scan(family, start, end, limit=count, reverse=reverse)
            for at, value in self._values(family, rows):
                event = event_codec.decode_event(at, value)
                if admits is not None and not admits(event):
                    continue
                size += len(value) + _estimate_framing(event)
                if events and (len(events) >= limit or size > PAGE_BYTES):
                    return EventPage(events=tuple(events), next=events[-1].position)
                events.append(event)
            if len(rows) < count:
                return EventPage(events=tuple(events))
            edge = rows[-1][0]
            start, end = (start, edge) if reverse else (keys.after(edge), end)
            chunk = min(2 * chunk, _MOST_SCANNED) if admits is not None else chunk

    def _values(self, family: str, rows: Sequence[Row]) -> list[tuple[Position, bytes]]:
        positions = [keys.parse_position(key) for key, _ in rows]
        if family == families.EVENTS:
            return [(at, value) for at, (_, value) in zip(positions, rows, strict=True)]
        return self._read(positions)

    def _read(self, positions: Sequence[Position]) -> list[tuple[Position, bytes]]:
        values = self._store.get_many(
            families.EVENTS, [keys.event(at.at_ms, at.event_id) for at in positions]
        )
        return [(at, v) for at, v in zip(positions, values, strict=True) if v is not None]


def _build_batch(event: Event) -> Batch:
    key = keys.event(event.at_ms, event.event_id)
    name = keys.event_id(event.event_id)
    return Batch(
        (
            Put(families.EVENTS, key, event_codec.encode_event(event)),
            Put(families.EVENT_IDS, name, codec.encode_millis(event.at_ms)),
            Put(
                families.SESSION_EVENTS,
                keys.session_event(event.session_id, event.at_ms, event.event_id),
                codec.EMPTY,
            ),
            Append(families.OUTBOX, keys.OUTBOX_PREFIX, codec.encode_key(key)),
        ),
        (Absent(families.EVENT_IDS, name),),
    )


def _build_alias(event_id: EventId, at_ms: Millis) -> Batch:
    name = keys.event_id(event_id)
    return Batch(
        (Put(families.EVENT_IDS, name, codec.encode_millis(at_ms)),),
        (Absent(families.EVENT_IDS, name),),
    )


def _build_removal(place: SessionPosition) -> Batch:
    at = place.at
    key = keys.event(at.at_ms, at.event_id)
    entry = keys.session_event(place.session_id, at.at_ms, at.event_id)
    return Batch(
        (
            Delete(families.EVENTS, key),
            Delete(families.SESSION_EVENTS, entry),
            Append(families.OUTBOX, keys.OUTBOX_PREFIX, codec.encode_key(key)),
        )
    )


def _to_created(outcomes: list[CommitOutcome]) -> list[bool]:
    return [isinstance(outcome, Committed) for outcome in outcomes]


def _estimate_framing(event: Event) -> int:
    """Estimate the bytes of an event on the wire beyond its value: its id and field headers."""
    return 4 * len(event.event_id) + 6 * len(event.metadata) + 32
