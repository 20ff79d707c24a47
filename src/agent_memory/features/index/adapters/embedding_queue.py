"""The embedding queue on an ordered store: a live and a past lane, each newest first."""

import threading
from collections.abc import Sequence

from agent_memory.features.index.ports import PendingEmbedding
from agent_memory.features.log.adapters.outbox_entries import decode_entry, encode_entry
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.ports import OrderedStore, Ticket
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Batch, Delete, DeleteRange

_LIVE = b"live:"
_PAST = b"past:"
_COUNTED = 10_000


class StoredEmbeddingQueue:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store
        self._counting = threading.Lock()
        self._count: int | None = None

    def add(self, entries: Sequence[OutboxEntry], /, *, live: bool) -> None:
        if not entries:
            return
        lane = _LIVE if live else _PAST
        operations = [
            Append(families.EMBEDDING_QUEUE, lane, encode_entry(entry)) for entry in entries
        ]
        self._store.submit([Batch(tuple(operations))]).result()
        self._adjust_count(len(entries))

    def list_pending(self, *, limit: int) -> list[PendingEmbedding]:
        rows = self._store.scan(
            families.EMBEDDING_QUEUE, _LIVE, keys.end_of(_LIVE), limit=limit, reverse=True
        )
        if len(rows) < limit:
            rows += self._store.scan(
                families.EMBEDDING_QUEUE,
                _PAST,
                keys.end_of(_PAST),
                limit=limit - len(rows),
                reverse=True,
            )
        try:
            return [
                PendingEmbedding(Ticket(key), decode_entry(codec.decode_key(value)))
                for key, value in rows
            ]
        except ValueError as exc:
            raise StorageFailed("an entry of the embedding queue is damaged") from exc

    def mark_done(self, tickets: Sequence[Ticket], /) -> None:
        if tickets:
            removals = tuple(Delete(families.EMBEDDING_QUEUE, ticket) for ticket in tickets)
            self._store.submit([Batch(removals)]).result()
            self._adjust_count(-len(tickets))

    def clear(self) -> None:
        lanes = [DeleteRange(families.EMBEDDING_QUEUE, n, keys.end_of(n)) for n in (_LIVE, _PAST)]
        self._store.submit([Batch(tuple(lanes))]).result()
        with self._counting:
            self._count = 0

    def size(self) -> int:
        """Return the number of entries, which is counted once and then adjusted."""
        with self._counting:
            if self._count is None:
                self._count = sum(self._lane_size(lane) for lane in (_LIVE, _PAST))
            return self._count

    def _lane_size(self, lane: bytes) -> int:
        count, start = 0, lane
        while rows := self._store.scan(
            families.EMBEDDING_QUEUE, start, keys.end_of(lane), limit=_COUNTED
        ):
            count += len(rows)
            start = keys.after(rows[-1][0])
        return count

    def _adjust_count(self, change: int) -> None:
        with self._counting:
            if self._count is not None:
                self._count = max(0, self._count + change)
