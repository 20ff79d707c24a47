"""The forgetting plan on an ordered store, written before anything is removed.

It lies in the family `checkpoints`: `forgetting:event:` and `forgetting:segment:` with the key of a
session's event, `forgetting:needles:` with a number, and `forgetting:decided` once all events are
listed. Reports stay: `forgotten:` with the time and the name of the selection.
"""

import hashlib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

import msgspec

from agent_memory.features.forgetting.model.forgetting import ForgettingReport
from agent_memory.features.log.model.events import SessionPosition
from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.ports import Clock, OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Delete, DeleteRange, Put
from agent_memory.platform.store.rows import iter_pages, write

_ALL = b"forgetting:"
_EVENT = b"forgetting:event:"
_SEGMENT = b"forgetting:segment:"
_NEEDLES = b"forgetting:needles:"
_DECIDED = b"forgetting:decided"
_REPORT = b"forgotten:"
_PAGE = 10_000
_REPORTS = 100
# stored inverted, so that the search for a needle does not find it here
_INVERTED = bytes(range(255, -1, -1))
_decode_needles = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_report = msgspec.msgpack.Decoder(ForgettingReport).decode


class StoredForgettingPlan:
    family = families.PROGRESS

    def __init__(self, store: OrderedStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def add(self, events: Sequence[SessionPosition], /) -> None:
        self._put(_EVENT, events)

    def decide(self, name: str, /) -> None:
        write(self._store, Put(families.PROGRESS, _DECIDED, codec.EMPTY + name.encode()))

    def get_decision(self) -> str | None:
        found = self._store.get(families.PROGRESS, _DECIDED)
        return None if found is None else bytes(codec.body(found)).decode()

    def list_events(self) -> list[SessionPosition]:
        return list(self._places(_EVENT))

    def add_segments(self, segments: Sequence[SessionPosition], /) -> None:
        self._put(_SEGMENT, segments)

    def list_segments(self) -> list[SessionPosition]:
        return list(self._places(_SEGMENT))

    def add_needles(self, needles: AbstractSet[bytes], /) -> None:
        if needles:
            packed = msgspec.msgpack.encode(sorted(needles)).translate(_INVERTED)
            # Adding it again after a crash writes the same row.
            key = _NEEDLES + hashlib.sha256(packed).hexdigest().encode()
            write(self._store, Put(families.PROGRESS, key, codec.EMPTY + packed))

    def list_needles(self) -> set[bytes]:
        found: set[bytes] = set()
        for _, value in _rows(self._store, _NEEDLES):
            try:
                found.update(_decode_needles(bytes(codec.body(value)).translate(_INVERTED)))
            except msgspec.MsgspecError as exc:
                raise StorageFailed("the plan of what is being forgotten is damaged") from exc
        return found

    def clear(self) -> None:
        write(self._store, DeleteRange(families.PROGRESS, _ALL, keys.end_of(_ALL)))

    def _put(self, prefix: bytes, places: Sequence[SessionPosition]) -> None:
        rows = (Put(families.PROGRESS, prefix + _key(place), codec.EMPTY) for place in places)
        write(self._store, *rows)

    def _places(self, prefix: bytes) -> Iterator[SessionPosition]:
        for row, _ in _rows(self._store, prefix):
            key = row[len(prefix) :]
            yield SessionPosition(keys.parse_session(key), keys.parse_position(key))

    def save_report(self, name: str, report: ForgettingReport, /) -> None:
        before = [key for key, _ in _rows(self._store, _REPORT)]
        same = [key for key in before if _is_report_of(key, name)]
        others = [key for key in before if not _is_report_of(key, name)]
        outdated = same + others[: max(0, len(others) - _REPORTS + 1)]
        key = b"%s%013d:%s" % (_REPORT, self._clock.now(), name.encode())
        value = codec.EMPTY + msgspec.msgpack.encode(report)
        removals = (Delete(families.PROGRESS, each) for each in outdated)
        write(self._store, *removals, Put(families.PROGRESS, key, value))

    def find_report(self, name: str, /) -> ForgettingReport | None:
        for key, value in _rows(self._store, _REPORT):
            if _is_report_of(key, name):
                try:
                    return _decode_report(codec.body(value))
                except msgspec.MsgspecError as exc:
                    raise StorageFailed("a report of what was forgotten is damaged") from exc
        return None


def _is_report_of(key: bytes, name: str) -> bool:
    return key.endswith(b":" + name.encode())


def _rows(store: OrderedStore, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    pages = iter_pages(store, families.PROGRESS, prefix, keys.end_of(prefix), limit=_PAGE)
    return chain.from_iterable(pages)


def _key(place: SessionPosition) -> bytes:
    return keys.session_event(place.session_id, place.at.at_ms, place.at.event_id)
