"""Bearer keys on an ordered store."""

from agent_memory.adapters.storage import codec, families, keys
from agent_memory.domain.access import AccessKey
from agent_memory.domain.batches import Absent, Batch, Committed, Delete, Equals, Put
from agent_memory.domain.errors import InvalidInput
from agent_memory.domain.ports import OrderedStore

_PREFIX = b"key:"
_MOST = 10_000


class StoredKeyRing:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def add(self, key: AccessKey, /) -> bool:
        if len(self.all()) >= _MOST:
            raise InvalidInput(f"there are {_MOST:,} keys, which is the most: revoke some first")
        place = _place(key.name)
        batch = Batch(
            (Put(families.ACCESS_KEYS, place, codec.encode_access_key(key)),),
            (Absent(families.ACCESS_KEYS, place),),
        )
        (outcome,) = self._store.submit([batch]).result()
        return isinstance(outcome, Committed)

    def all(self) -> list[AccessKey]:
        rows = self._store.scan(families.ACCESS_KEYS, _PREFIX, keys.end_of(_PREFIX), limit=_MOST)
        return [codec.decode_access_key(key[len(_PREFIX) :].decode(), value) for key, value in rows]

    def remove(self, name: str, /) -> bool:
        place = _place(name)
        stored = self._store.get(families.ACCESS_KEYS, place)
        if stored is None:
            return False
        batch = Batch(
            (Delete(families.ACCESS_KEYS, place),), (Equals(families.ACCESS_KEYS, place, stored),)
        )
        (outcome,) = self._store.submit([batch]).result()
        return isinstance(outcome, Committed)


def _place(name: str) -> bytes:
    # Any name may be asked for, also one that cannot be: it is then simply not there.
    return _PREFIX + name.encode(errors="surrogatepass")
