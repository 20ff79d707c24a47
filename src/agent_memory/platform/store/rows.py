"""Rows of an ordered store: ranges a page at a time, single batches, and numbered entries."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import chain, takewhile
from typing import Generic, Protocol, TypeVar

from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import keys
from agent_memory.platform.store.batches import (
    Absent,
    Append,
    Batch,
    CommitOutcome,
    Committed,
    Delete,
    DeleteRange,
    Equals,
    Expectation,
    Operation,
    Put,
    Row,
)

_PAGE = 500


def iter_pages(
    store: OrderedStore, family: str, start: bytes, end: bytes, *, limit: int
) -> Iterator[list[Row]]:
    """Yield all rows of a range, a page at a time."""
    while rows := store.scan(family, start, end, limit=limit):
        yield rows
        start = keys.after(rows[-1][0])


def count(store: OrderedStore, family: str, prefix: bytes, *, limit: int) -> int:
    """Count the rows with this prefix, reading `limit` at a time."""
    return sum(map(len, iter_pages(store, family, prefix, keys.end_of(prefix), limit=limit)))


def write(store: OrderedStore, *operations: Operation) -> None:
    """Write operations, if there are any, as one batch, and wait until they are durable."""
    if operations:
        store.submit([Batch(operations)]).result()


def commit(store: OrderedStore, batch: Batch) -> bool:
    """Write a batch, and return whether its expectations held."""
    (outcome,) = store.submit([batch]).result()
    return isinstance(outcome, Committed)


def expect(family: str, key: bytes, value: bytes | None) -> Expectation:
    """Expect that a key still has the value that was read."""
    return Absent(family, key) if value is None else Equals(family, key, value)


class NumberedEntry(Protocol):
    @property
    def number(self) -> int: ...

    @property
    def at_ms(self) -> Millis: ...


E = TypeVar("E", bound=NumberedEntry)


class NumberedEntries(Generic[E]):
    """Entries under a prefix, by the number that the store assigns in the order of commit.
    `decode` gets the value and the number."""

    def __init__(
        self,
        store: OrderedStore,
        family: str,
        prefix: bytes,
        encode: Callable[[E], bytes],
        decode: Callable[[bytes, int], E],
    ) -> None:
        self._store = store
        self._family = family
        self._prefix = prefix
        self._encode = encode
        self._decode = decode

    def append(self, *entries: E, keep: int | None = None) -> "Future[list[CommitOutcome]]":
        """Append entries, and remove all but the newest `keep` before them."""
        operations: list[Operation] = []
        if keep is not None:
            oldest = self._store.get_sequence(self._family, self._prefix) + 1 - keep
            operations.append(DeleteRange(self._family, self._prefix, self._key(max(0, oldest))))
        operations += (Append(self._family, self._prefix, self._encode(entry)) for entry in entries)
        return self._store.submit([Batch(tuple(operations))])

    def list_before(self, number: int | None, *, limit: int) -> list[E]:
        """Return the entries before a number, or the last, newest first."""
        end = keys.end_of(self._prefix) if number is None else self._key(number)
        rows = self._store.scan(self._family, self._prefix, end, limit=limit, reverse=True)
        return [self._read(*row) for row in rows]

    def remove(self, entry: E, /) -> None:
        write(self._store, Delete(self._family, self._key(entry.number)))

    def revise(self, change: Callable[[E], E | None]) -> int:
        """Replace entries by what `change` makes of them; None removes one. Return their number."""
        changed = 0
        for page in self._read_pages():
            operations = [
                self._replace(entry.number, after)
                for entry in page
                if (after := change(entry)) != entry
            ]
            write(self._store, *operations)
            changed += len(operations)
        return changed

    def trim(self, *, keep: int, since: Millis) -> None:
        """Remove all but the newest `keep`, and those before a time, up to the first entry to keep.
        Only where the clock was set back does that leave an older one behind it."""
        last = self._store.get_sequence(self._family, self._prefix) - keep
        entries = chain.from_iterable(self._read_pages())
        outdated = takewhile(lambda entry: entry.number <= last or entry.at_ms < since, entries)
        end = max((entry.number for entry in outdated), default=0)
        if end:
            write(self._store, DeleteRange(self._family, self._prefix, self._key(end + 1)))

    def _read_pages(self) -> Iterator[list[E]]:
        """Read all entries, oldest first."""
        end = keys.end_of(self._prefix)
        for rows in iter_pages(self._store, self._family, self._prefix, end, limit=_PAGE):
            yield [self._read(*row) for row in rows]

    def _read(self, key: bytes, value: bytes) -> E:
        return self._decode(value, int(key[len(self._prefix) :]))

    def _replace(self, number: int, entry: E | None) -> Operation:
        key = self._key(number)
        if entry is None:
            return Delete(self._family, key)
        return Put(self._family, key, self._encode(entry))

    def _key(self, number: int) -> bytes:
        return self._prefix + b"%020d" % number
