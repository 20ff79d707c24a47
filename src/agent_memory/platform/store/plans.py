"""The evaluation of batches: a group under construction, the same for every kind of store."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from agent_memory.platform.store import families
from agent_memory.platform.store.batches import (
    Absent,
    Append,
    Batch,
    CommitOutcome,
    Committed,
    Conflict,
    Delete,
    DeleteRange,
    Expectation,
    Put,
    SetCounter,
)

SEQUENCES = families.META  # has the last number of each sequence

Write = Put | Delete | DeleteRange
SequenceName = tuple[str, bytes]  # family and prefix
Place = tuple[str, bytes]  # family and key
_Pending = dict[bytes, bytes | None]


class Reader(Protocol):
    """The stored state that a group is evaluated against."""

    def get(self, family: str, key: bytes, /) -> bytes | None:
        """Return the value of a key, or None if there is none."""
        ...


class Plan:
    """A group under construction: its operations, and the state that later batches see."""

    def __init__(self, reader: Reader, sequences: Mapping[SequenceName, int]) -> None:
        """Evaluate against a reader. `sequences` are last numbers that need not be read."""
        self.sequences = dict(sequences)
        self._reader = reader
        self._operations: list[Write] = []
        self._pending: dict[str, _Pending] = {}  # only of families that were read
        self._cleared: list[DeleteRange] = []
        self._advanced: set[SequenceName] = set()

    def add(self, batch: Batch) -> CommitOutcome:
        for expectation in batch.expectations:
            if not self.holds(expectation):
                return Conflict(expectation)
        # Numbers first: reading a counter may fail, and a batch must not be written in part.
        numbers = [
            self._advance(operation.family, operation.prefix)
            for operation in batch.operations
            if isinstance(operation, Append)
        ]
        assigned = iter(numbers)
        for operation in batch.operations:
            if isinstance(operation, Append):
                family, prefix, value = operation
                self._apply(Put(family, prefix + b"%020d" % next(assigned), value))
            elif isinstance(operation, SetCounter):
                self.sequences[operation.family, operation.prefix] = int(operation.number)
                self._advanced.add((operation.family, operation.prefix))
            else:
                self._apply(operation)
        return Committed(tuple(numbers))

    def holds(self, expectation: Expectation) -> bool:
        value = self._read(expectation.family, expectation.key)
        if isinstance(expectation, Absent):
            return value is None
        return value == expectation.value

    def operations(self, *, uncounted: frozenset[SequenceName] = frozenset()) -> list[Write]:
        """Return all operations, with those that store the last numbers.

        `uncounted` are sequences whose last number the caller stores elsewhere.
        """
        counters = [
            put_counter(*name, self.sequences[name]) for name in sorted(self._advanced - uncounted)
        ]
        return [*self._operations, *counters]

    def _apply(self, operation: Write) -> None:
        self._operations.append(operation)
        pending = self._pending.get(operation.family)
        if pending is not None:
            self._note(operation, pending)

    def _note(self, operation: Write, pending: _Pending) -> None:
        """Record an operation for the expectations of later batches."""
        if isinstance(operation, Put):
            pending[operation.key] = operation.value
        elif isinstance(operation, Delete):
            pending[operation.key] = None
        else:
            for key in pending:
                if operation.start <= key < operation.end:
                    pending[key] = None
            self._cleared.append(operation)

    def _read(self, family: str, key: bytes) -> bytes | None:
        pending = self._pending.get(family)
        if pending is None:
            pending = self._pending[family] = {}
            for operation in self._operations:
                if operation.family == family:
                    self._note(operation, pending)
        if key in pending:
            return pending[key]
        if any(r.family == family and r.start <= key < r.end for r in self._cleared):
            return None
        return self._reader.get(family, key)

    def _advance(self, family: str, prefix: bytes) -> int:
        name = family, prefix
        last = self.sequences.get(name)
        if last is None:
            last = read_counter(self._reader, *name)
        self.sequences[name] = last + 1
        self._advanced.add(name)
        return last + 1


def list_reads(batches: Sequence[Batch]) -> Iterator[Place]:
    """Yield every place that a Plan of these batches may read."""
    for batch in batches:
        for expectation in batch.expectations:
            yield expectation.family, expectation.key
        for operation in batch.operations:
            if isinstance(operation, Append):
                yield SEQUENCES, counter_key(operation.family, operation.prefix)


def put_counter(family: str, prefix: bytes, number: int) -> Put:
    """Return the operation that stores the last number of a sequence."""
    return Put(SEQUENCES, counter_key(family, prefix), b"%020d" % number)


def read_counter(reader: Reader, family: str, prefix: bytes) -> int:
    """Return the last number of a sequence; 0 if there is none."""
    stored = reader.get(SEQUENCES, counter_key(family, prefix))
    return int(stored) if stored else 0


def counter_key(family: str, prefix: bytes) -> bytes:
    return b"sequence:" + family.encode() + b":" + prefix
