"""A store engine in memory, for tests."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agent_memory.kernel.errors import FeatureUnavailable, StorageClosed
from agent_memory.kernel.status import FamilyStats, StoreStats
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Delete, DeleteRange, Put, Row
from agent_memory.platform.store.submissions import UnknownFamily


class MemoryEngine:
    """An engine that keeps sorted keys and a dict for each family."""

    def __init__(self, names: Iterable[str] = families.ALL) -> None:
        self._families: dict[str, _Family] | None = {name: _Family() for name in names}

    def get(self, family: str, key: bytes, /) -> bytes | None:
        return self._family(family).values.get(key)

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        values = self._family(family).values
        return [values.get(key) for key in keys]

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool
    ) -> Iterator[Row]:
        rows = self._family(family)
        keys = rows.between(start, end)
        page = keys[::-1][:limit] if reverse else keys[:limit]
        return iter([(key, rows.values[key]) for key in page])

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        rows = self._family(family)
        return [[(k, rows.values[k]) for k in rows.get_neighbors(key, reach)] for key in keys]

    def write(self, operations: Sequence[Put | Delete | DeleteRange], /) -> None:
        targets = [self._family(operation.family) for operation in operations]  # all, or fail
        for family, operation in zip(targets, operations, strict=True):
            family.apply(operation)

    def flush(self) -> None:
        """Do nothing: memory needs no flush."""

    def interrupt(self) -> None:
        """Do nothing: no operation takes long."""

    def reopen(self, *, read_only: bool) -> None:
        """Do nothing: there are no files."""

    def stats(self) -> StoreStats:
        if self._families is None:
            raise StorageClosed("the store is closed")
        sizes = [
            FamilyStats(
                name=name,
                entries=len(family.values),
                size_bytes=sum(len(key) + len(value) for key, value in family.values.items()),
            )
            for name, family in self._families.items()
        ]
        return StoreStats(
            path="",
            size_bytes=sum(family.size_bytes for family in sizes),
            families=tuple(sizes),
            pending_compactions=0,
            wal_bytes=0,
        )

    def compact(self, family: str, /) -> None:
        """Check the family; deleted rows take no space."""
        self._family(family)

    def copy_to(self, path: Path, /) -> None:
        raise FeatureUnavailable(f"cannot copy the store to {path}: it is in memory only")

    def close(self) -> None:
        self._families = None

    def _family(self, name: str) -> "_Family":
        if self._families is None:
            raise StorageClosed("the store is closed")
        try:
            return self._families[name]
        except KeyError:
            raise UnknownFamily(f"no family {name!r}") from None


class _Family:
    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []

    def between(self, start: bytes, end: bytes) -> list[bytes]:
        return self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]

    def get_neighbors(self, key: bytes, reach: int) -> list[bytes]:
        index = bisect_left(self._keys, key)
        after = index + reach + (key in self.values)
        return self._keys[max(0, index - reach) : after]

    def apply(self, operation: Put | Delete | DeleteRange) -> None:
        match operation:
            case Put(_, key, value):
                if key not in self.values:
                    insort(self._keys, key)
                self.values[key] = value
            case Delete(_, key):
                self._remove(key, key + b"\0")
            case DeleteRange(_, start, end):
                self._remove(start, end)

    def _remove(self, start: bytes, end: bytes) -> None:
        first, last = bisect_left(self._keys, start), bisect_left(self._keys, end)
        for key in self._keys[first:last]:
            del self.values[key]
        del self._keys[first:last]
