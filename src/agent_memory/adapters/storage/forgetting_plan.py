"""What is being forgotten, on an ordered store: written down first, so that it can be finished.

It lies in the family `checkpoints`: `forgetting:event:` and `forgetting:segment:` with the key of a
session's event, and `forgetting:decided` once all of the events are listed.
"""

from collections.abc import Iterator, Sequence

from agent_memory.adapters.storage import codec, families, keys
from agent_memory.domain.batches import Batch, DeleteRange, Put
from agent_memory.domain.forgetting import Place
from agent_memory.domain.ports import OrderedStore

_ALL = b"forgetting:"
_EVENT = b"forgetting:event:"
_SEGMENT = b"forgetting:segment:"
_DECIDED = b"forgetting:decided"
_PAGE = 10_000


class StoredForgettingPlan:
    family = families.CHECKPOINTS

    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def add(self, events: Sequence[Place], /) -> None:
        self._put(_EVENT, events)

    def decide(self) -> None:
        mark = Put(families.CHECKPOINTS, _DECIDED, codec.EMPTY)
        self._store.submit([Batch((mark,))]).result()

    def decided(self) -> bool:
        return self._store.get(families.CHECKPOINTS, _DECIDED) is not None

    def events(self) -> list[Place]:
        return list(self._places(_EVENT))

    def affect(self, segments: Sequence[Place], /) -> None:
        self._put(_SEGMENT, segments)

    def segments(self) -> list[Place]:
        return list(self._places(_SEGMENT))

    def clear(self) -> None:
        removal = DeleteRange(families.CHECKPOINTS, _ALL, keys.end_of(_ALL))
        self._store.submit([Batch((removal,))]).result()

    def _put(self, prefix: bytes, places: Sequence[Place]) -> None:
        rows = tuple(
            Put(families.CHECKPOINTS, prefix + _key(place), codec.EMPTY) for place in places
        )
        if rows:
            self._store.submit([Batch(rows)]).result()

    def _places(self, prefix: bytes) -> Iterator[Place]:
        start, end = prefix, keys.end_of(prefix)
        while rows := self._store.scan(families.CHECKPOINTS, start, end, limit=_PAGE):
            for row, _ in rows:
                key = row[len(prefix) :]
                yield Place(keys.session_of(key), keys.position(key))
            start = keys.after(rows[-1][0])


def _key(place: Place) -> bytes:
    return keys.session_event(place.session_id, place.at.at_ms, place.at.event_id)
