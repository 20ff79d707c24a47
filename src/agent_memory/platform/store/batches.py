"""What a store is asked to write: operations and expectations, atomic together."""

from typing import NamedTuple


class Put(NamedTuple):
    """Set a key, whatever it held."""

    family: str
    key: bytes
    value: bytes


class Delete(NamedTuple):
    """Remove a key, if it is there."""

    family: str
    key: bytes


class DeleteRange(NamedTuple):
    """Remove every key from `start` up to, not including, `end`."""

    family: str
    start: bytes
    end: bytes


class Append(NamedTuple):
    """Put under `prefix` + the next sequence number, 20 digits.

    The store assigns the number when it commits, so numbers become visible in order and a reader
    that has seen n will never be shown a smaller one later. They start at 1 and are never reused.
    """

    family: str
    prefix: bytes
    value: bytes


class Absent(NamedTuple):
    """Expect that a key is not there."""

    family: str
    key: bytes


class Equals(NamedTuple):
    """Expect that a key holds exactly this value."""

    family: str
    key: bytes
    value: bytes


Operation = Put | Delete | DeleteRange | Append
Expectation = Absent | Equals


class Batch(NamedTuple):
    """All of `operations`, if every one of `expectations` holds; else nothing."""

    operations: tuple[Operation, ...]
    expectations: tuple[Expectation, ...] = ()


class Committed(NamedTuple):
    """The batch is durable. `sequences` are those of its appends, in order."""

    sequences: tuple[int, ...] = ()


class Conflict(NamedTuple):
    """The batch wrote nothing: `failed` did not hold."""

    failed: Expectation


CommitOutcome = Committed | Conflict
Row = tuple[bytes, bytes]
