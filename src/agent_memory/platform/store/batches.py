"""Batches: operations and expectations that a store applies atomically."""

from typing import NamedTuple


class Put(NamedTuple):
    """Set the value of a key, whether or not it exists."""

    family: str
    key: bytes
    value: bytes


class Delete(NamedTuple):
    """Remove a key, if it exists."""

    family: str
    key: bytes


class DeleteRange(NamedTuple):
    """Remove every key from `start` up to, not including, `end`."""

    family: str
    start: bytes
    end: bytes


class Append(NamedTuple):
    """Put a value under `prefix` and the next sequence number, in 20 digits.

    The store assigns the number when it commits, so numbers become visible in order: a reader that
    has seen n never sees a smaller one later. They start at 1 and are never reused.
    """

    family: str
    prefix: bytes
    value: bytes


class SetCounter(NamedTuple):
    """Set the last number of a sequence, in digits: for a store that takes over the rows of
    another."""

    family: str
    prefix: bytes
    number: bytes


class Absent(NamedTuple):
    """Expect that a key does not exist."""

    family: str
    key: bytes


class Equals(NamedTuple):
    """Expect that a key has exactly this value."""

    family: str
    key: bytes
    value: bytes


Operation = Put | Delete | DeleteRange | Append | SetCounter
Expectation = Absent | Equals


class Batch(NamedTuple):
    """Operations that are all applied if every expectation holds; otherwise none is."""

    operations: tuple[Operation, ...]
    expectations: tuple[Expectation, ...] = ()


class Committed(NamedTuple):
    """The batch is durable. `sequences` are the numbers of its appends, in order."""

    sequences: tuple[int, ...] = ()


class Conflict(NamedTuple):
    """The batch wrote nothing: `failed` did not hold."""

    failed: Expectation


CommitOutcome = Committed | Conflict
Row = tuple[bytes, bytes]
