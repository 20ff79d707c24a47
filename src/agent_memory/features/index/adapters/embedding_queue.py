"""The embedding queue on an ordered store: a live and a past lane, each by priority, newest first.

The key of an entry is its lane, its priority and a number, so that reading a lane backwards gives
what is next. Entries of earlier versions have no priority: they come last in their lane.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from agent_memory.features.index.model.embeddings import Priority
from agent_memory.features.index.ports import PendingEmbedding
from agent_memory.features.log.adapters.outbox_entries import decode_entry, encode_entry
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.ports import OrderedStore, Ticket
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Delete, DeleteRange, Row
from agent_memory.platform.store.rows import iter_pages, write

_LIVE = b"live:"
_PAST = b"past:"
_COUNTED = 10_000


class StoredEmbeddingQueue:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store
        self._counting = threading.Lock()
        self._counts: Counter[Priority] | None = None

    def add(self, entries: Mapping[OutboxEntry, Priority], /, *, live: bool) -> None:
        if not entries:
            return
        lane = _LIVE if live else _PAST
        operations = [
            Append(families.EMBEDDING_QUEUE, b"%b%d:" % (lane, priority), encode_entry(entry))
            for entry, priority in entries.items()
        ]
        with self._counting:  # while it is written: `count` reads either none of it or all
            write(self._store, *operations)
            if self._counts is not None:
                self._counts.update(entries.values())

    def list_pending(self, *, limit: int, live: bool | None = None) -> list[PendingEmbedding]:
        rows = [] if live is False else self._list_lane(_LIVE, limit)
        if live is not True and len(rows) < limit:
            rows += self._list_lane(_PAST, limit - len(rows))
        try:
            return [
                PendingEmbedding(Ticket(key), decode_entry(codec.decode_key(value)))
                for key, value in rows
            ]
        except ValueError as exc:
            raise StorageFailed("an entry of the embedding queue is damaged") from exc

    def _list_lane(self, lane: bytes, limit: int) -> list[Row]:
        return self._store.scan(
            families.EMBEDDING_QUEUE, lane, keys.end_of(lane), limit=limit, reverse=True
        )

    def mark_done(self, tickets: Sequence[Ticket], /) -> None:
        if tickets:
            removals = [Delete(families.EMBEDDING_QUEUE, ticket) for ticket in tickets]
            with self._counting:
                present = self._store.get_many(families.EMBEDDING_QUEUE, tickets)
                write(self._store, *removals)
                if self._counts is not None:  # another may have removed some, or all
                    left = [t for t, value in zip(tickets, present, strict=True) if value]
                    self._counts -= _count_keys(left)

    def clear(self) -> None:
        lanes = [DeleteRange(families.EMBEDDING_QUEUE, n, keys.end_of(n)) for n in (_LIVE, _PAST)]
        with self._counting:
            write(self._store, *lanes)
            self._counts = Counter()

    def size(self) -> int:
        return self.count().total()

    def count(self) -> Counter[Priority]:
        """Return the numbers, which are counted once and then adjusted."""
        with self._counting:
            if self._counts is None:
                self._counts = self._count_lane(_LIVE) + self._count_lane(_PAST)
            return self._counts.copy()

    def _count_lane(self, lane: bytes) -> Counter[Priority]:
        family, end = families.EMBEDDING_QUEUE, keys.end_of(lane)
        pages = iter_pages(self._store, family, lane, end, limit=_COUNTED)
        return _count_keys(key for rows in pages for key, _ in rows)


def _count_keys(found: Iterable[bytes]) -> Counter[Priority]:
    return Counter(_parse_priority(key) for key in found)


def _parse_priority(key: bytes) -> Priority:
    """Return the priority in a key; the lowest for an entry of an earlier version."""
    _, priority, *number = key.split(b":")
    return Priority(int(priority)) if number else Priority.TOOL_RESULTS
