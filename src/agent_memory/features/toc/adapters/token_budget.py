"""A token budget on an ordered store."""

import msgspec

from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.batches import Batch, Put
from agent_memory.platform.store.rows import commit, expect


class _TokenRecord(msgspec.Struct, array_like=True, frozen=True):
    tokens: int


class StoredTokenBudget:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def get_spent(self, day: str, /) -> int:
        return _tokens(self._store.get(families.PROGRESS, _day_key(day)))

    def add(self, day: str, tokens: int, /) -> None:
        key = _day_key(day)
        while True:  # until no other thread adds in between
            stored = self._store.get(families.PROGRESS, key)
            record = codec.pack(_TokenRecord(_tokens(stored) + tokens))
            unchanged = expect(families.PROGRESS, key, stored)
            batch = Batch((Put(families.PROGRESS, key, record),), (unchanged,))
            if commit(self._store, batch):
                return


def _tokens(stored: bytes | None) -> int:
    return 0 if stored is None else codec.unpack(stored, _TokenRecord).tokens


def _day_key(day: str) -> bytes:
    return b"checkpoint:tokens:" + day.encode()
