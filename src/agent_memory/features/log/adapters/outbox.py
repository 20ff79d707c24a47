"""The outbox on an ordered store."""

from agent_memory.features.log.adapters.outbox_entries import decode_entry
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import DeleteRange
from agent_memory.platform.store.rows import write


class StoredOutbox:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def read(self, after: int, /, *, limit: int) -> list[tuple[int, OutboxEntry]]:
        rows = self._store.scan(
            families.OUTBOX, _entry_key(after + 1), keys.end_of(keys.OUTBOX_PREFIX), limit=limit
        )
        try:
            return [
                (int(key[len(keys.OUTBOX_PREFIX) :]), decode_entry(codec.decode_key(value)))
                for key, value in rows
            ]
        except ValueError as exc:
            raise StorageFailed("an entry of the outbox is damaged") from exc

    def trim(self, up_to: int, /) -> None:
        write(self._store, DeleteRange(families.OUTBOX, _entry_key(0), _entry_key(up_to + 1)))


def _entry_key(sequence: int) -> bytes:
    return keys.OUTBOX_PREFIX + b"%020d" % sequence
