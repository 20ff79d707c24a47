"""The ordered store over an engine: group commit, expectations, sequences, durable reads.

One thread writes. It takes every waiting batch, checks each against the store and the batches
before it, writes them as one, flushes once, and answers all. Readers wait between write and flush,
so that no reader sees data that a crash could still take away.

A failed write or flush leaves the engine in a state that only reopening its files clears: the log
is then read back and written to disk again. The store reopens them by itself, with growing pauses,
until a write succeeds. Meanwhile it refuses writes, and serves reads as far as the files can be
read.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import Protocol

import structlog

from agent_memory.kernel.errors import Overloaded, StorageClosed, StorageFailed, StorageUnwritable
from agent_memory.kernel.status import StoreHealth
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
    Row,
)

log = structlog.get_logger()

SEQUENCES = families.META  # has the last number of each sequence
GROUP_BATCHES = 1024
GROUP_BYTES = 8 << 20
PENDING_BYTES = 256 << 20
# Callers often come in crowds, each waiting for its answer. After a group of several, the next one
# waits a moment while it grows. A single caller never waits.
CROWD = 4
GATHER_PAUSE = 0.002
GATHER_SECONDS = 0.015
STALL_PAUSE = 0.002
STALL_LIMIT = 60.0
# Seconds between two attempts to reopen the files after a failed write.
REOPEN_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
LONGEST_REOPEN_PAUSE = 10.0
PROBE = Put(families.META, b"probe", b"")  # written to check whether writes succeed again


class Stalled(Exception):
    """The engine cannot write now and has written nothing; try again."""


class UnknownFamily(StorageFailed):
    """A batch names a family that the store does not have; nothing was written."""


class Engine(Protocol):
    """A key-value engine with one writer. It need not support concurrent `write`s."""

    def get(self, family: str, key: bytes, /) -> bytes | None:
        """Return the value of a key, or None if there is none."""
        ...

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        """Return the values of the keys, in order, with None for each missing one."""
        ...

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool
    ) -> Iterator[Row]:
        """Iterate over a stable view as of this call, read as the iterator advances."""
        ...

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        """Return the rows next to each key, from one stable view."""
        ...

    def write(self, operations: Sequence[Put | Delete | DeleteRange], /) -> None:
        """Apply all operations atomically, not yet durable. Raises Stalled instead of blocking."""
        ...

    def flush(self) -> None:
        """Make every write so far durable."""
        ...

    def interrupt(self) -> None:
        """Cancel long work of other threads, which `close` would wait for. No write follows."""
        ...

    def reopen(self, *, read_only: bool) -> None:
        """Close the files and open them again.

        Unless `read_only`, the data read back from the log becomes durable. No other call may be
        in progress. Raises StorageFailed.
        """
        ...

    def close(self) -> None:
        """Release the files. A second call does nothing."""
        ...


class CommittedStore:
    """An OrderedStore over any engine."""

    def __init__(
        self,
        engine: Engine,
        watch: Callable[[StoreHealth], None],
        health: StoreHealth | None = None,
    ) -> None:
        """Call `watch` with each change of health, on the committer's thread."""
        self._engine = engine
        self._on_health_change = watch
        self._health = health or StoreHealth()
        self._gate = _Gate()
        self._users = _Gate()  # closed only to close or reopen: a scan would keep the file lock
        self._sequences: dict[tuple[str, bytes], int] = {}
        self._wake = threading.Condition()
        self._waiting: deque[_Submission] = deque()
        self._waiting_bytes = 0
        self._crowd = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="store-committer", daemon=True)
        self._thread.start()

    def get(self, family: str, key: bytes, /) -> bytes | None:
        with self._reading():
            return self._engine.get(family, key)

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        with self._reading():
            return self._engine.get_many(family, keys)

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool = False
    ) -> list[Row]:
        with self._users.reading():
            with self._reading():
                rows = self._engine.scan(family, start, end, limit=limit, reverse=reverse)
            return list(rows)  # outside the gate: a long read must not delay the writer

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        with self._users.reading(), self._reading():
            return self._engine.get_neighbors(family, keys, reach=reach)

    def submit(self, batches: Sequence[Batch], /) -> "Future[list[CommitOutcome]]":
        submission = _Submission(tuple(batches))
        with self._wake:
            if self._closing:
                raise StorageClosed("the store is closed")
            if not self._health.writable:
                raise _unwritable_error(self._health)
            if self._waiting_bytes > PENDING_BYTES:
                raise Overloaded(
                    f"{self._waiting_bytes >> 20} MiB are waiting to be written; try again"
                )
            self._waiting.append(submission)
            self._waiting_bytes += submission.size
            self._wake.notify()
        return submission.future

    def get_sequence(self, family: str, prefix: bytes, /) -> int:
        with self._reading():
            return _read_counter(self._engine, family, prefix)

    @property
    def health(self) -> StoreHealth:
        return self._health

    def close(self) -> None:
        with self._wake:
            if self._closing:
                return
            self._closing = True
            self._wake.notify()
        self._thread.join()
        try:
            self._engine.interrupt()
        finally:
            with self._users.writing(), self._gate.writing():
                self._engine.close()

    @contextmanager
    def maintaining(self) -> Iterator[None]:
        """Keep the engine open for work on it inside the block: `close` waits for its end."""
        with self._users.reading():
            yield

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._gate.reading():
            if not self._health.readable:
                raise StorageFailed(f"the store cannot be read: {self._health.reason}")
            yield

    def _run(self) -> None:
        while submissions := self._next_group():
            try:
                self._commit(submissions)
            except BaseException as exc:
                for submission in submissions:
                    submission.fail(exc)
            if not self._health.writable:
                self._report_change(StoreHealth())
                self._recover()

    def _recover(self) -> None:
        """Reopen the files until a write succeeds or the store is closed."""
        self._refuse_waiting()
        for pause in chain(REOPEN_PAUSES, repeat(LONGEST_REOPEN_PAUSE)):
            with suppress(Exception):
                self._engine.interrupt()  # a compaction would delay the reopening
            with self._users.writing(), self._gate.writing():
                before, self._health = self._health, self._reopen()
                self._sequences = {}  # the last write may be lost: read the counters again
            self._report_change(before)
            if self._health.writable:
                return
            with self._wake:
                if self._wake.wait_for(lambda: self._closing, pause):
                    return

    def _reopen(self) -> StoreHealth:
        try:
            self._engine.reopen(read_only=False)
            self._engine.write([PROBE])
            self._engine.flush()
            return StoreHealth()
        except Exception as exc:
            reason = str(exc)
        try:
            self._engine.reopen(read_only=True)
        except Exception as exc:
            return StoreHealth(writable=False, readable=False, reason=str(exc))
        return StoreHealth(writable=False, reason=reason)

    def _report_change(self, before: StoreHealth) -> None:
        now = self._health
        if (now.writable, now.readable) == (before.writable, before.readable):
            return
        try:
            self._on_health_change(now)
        except Exception:  # this thread must not end: all writes wait for it
            log.exception("store.watcher_failed")

    def _refuse_waiting(self) -> None:
        with self._wake:
            refused = list(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
        for submission in refused:
            submission.fail(_unwritable_error(self._health))

    def _next_group(self) -> "list[_Submission]":
        """Wait for submissions and take up to one group; an empty list means that we close."""
        with self._wake:
            while not self._waiting and not self._closing:
                self._wake.wait()
        if self._crowd >= CROWD and not self._closing:
            self._gather()
        with self._wake:
            group: list[_Submission] = []
            batches = size = 0
            while self._waiting and batches < GROUP_BATCHES and size < GROUP_BYTES:
                submission = self._waiting.popleft()
                group.append(submission)
                batches += len(submission.batches)
                size += submission.size
            self._waiting_bytes -= size
            # A single writer among them, such as a job, does not end the crowd.
            self._crowd = max(len(group), self._crowd // 2)
            return group

    def _gather(self) -> None:
        """Wait while more arrive: all of them share one flush and two thread switches."""
        seen, until = 0, time.monotonic() + GATHER_SECONDS
        while seen < len(self._waiting) and time.monotonic() < until:
            seen = len(self._waiting)
            time.sleep(GATHER_PAUSE)

    def _commit(self, submissions: "list[_Submission]") -> None:
        plan, planned = self._plan(submissions)
        operations = plan.operations()
        if operations:
            self._write(operations)
            self._sequences = plan.sequences
        for submission, outcomes in planned:
            submission.future.set_result(outcomes)

    def _plan(
        self, submissions: "list[_Submission]"
    ) -> "tuple[_Plan, list[tuple[_Submission, list[CommitOutcome]]]]":
        """Plan a group. An unreadable row fails only the submission that reads it, as a whole.

        The others are planned again without it.
        """
        plan = _Plan(self._engine, self._sequences)
        planned: list[tuple[_Submission, list[CommitOutcome]]] = []
        for submission in submissions:
            try:
                planned.append((submission, [plan.add(batch) for batch in submission.batches]))
            except StorageFailed as exc:
                submission.fail(exc)
                return self._plan([other for other in submissions if other is not submission])
        return plan, planned

    def _write(self, operations: Sequence[Put | Delete | DeleteRange]) -> None:
        deadline = time.monotonic() + STALL_LIMIT
        while True:
            try:
                with self._gate.writing():  # open during a stall: nothing is written then
                    try:
                        self._engine.write(operations)
                        self._engine.flush()
                    except (Stalled, UnknownFamily):
                        raise
                    except Exception as exc:
                        # Before the gate opens: unflushed data must stay invisible.
                        self._health = StoreHealth(writable=False, readable=False, reason=str(exc))
                        raise
                return
            except Stalled as exc:
                if time.monotonic() > deadline:
                    raise StorageFailed(
                        f"the store has been unable to write for {STALL_LIMIT:.0f} s"
                    ) from exc
                time.sleep(STALL_PAUSE)


def _unwritable_error(health: StoreHealth) -> StorageUnwritable:
    return StorageUnwritable(f"the store cannot be written now: {health.reason}")


class _Submission:
    __slots__ = ("batches", "future", "size")

    def __init__(self, batches: tuple[Batch, ...]) -> None:
        self.batches = batches
        self.future: Future[list[CommitOutcome]] = Future()
        # Running from the start: a waiter that gives up cannot cancel a write in progress.
        self.future.set_running_or_notify_cancel()
        # Keys and values; a range or a deletion counts its keys.
        self.size = sum(
            len(operation[1]) + len(operation[-1])
            for batch in batches
            for operation in batch.operations
        )

    def fail(self, exc: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(exc)


_Pending = dict[bytes, bytes | None]


class _Plan:
    """A group under construction: its operations, and the state that later batches see."""

    def __init__(self, engine: Engine, sequences: dict[tuple[str, bytes], int]) -> None:
        self.sequences = dict(sequences)
        self._engine = engine
        self._operations: list[Put | Delete | DeleteRange] = []
        self._pending: dict[str, _Pending] = {}  # only of families that were read
        self._cleared: list[DeleteRange] = []
        self._advanced: set[tuple[str, bytes]] = set()

    def add(self, batch: Batch) -> CommitOutcome:
        for expectation in batch.expectations:
            if not self._holds(expectation):
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
            else:
                self._apply(operation)
        return Committed(tuple(numbers))

    def operations(self) -> list[Put | Delete | DeleteRange]:
        counters = [put_counter(*name, self.sequences[name]) for name in sorted(self._advanced)]
        return [*self._operations, *counters]

    def _apply(self, operation: Put | Delete | DeleteRange) -> None:
        self._operations.append(operation)
        pending = self._pending.get(operation.family)
        if pending is not None:
            self._note(operation, pending)

    def _note(self, operation: Put | Delete | DeleteRange, pending: _Pending) -> None:
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

    def _holds(self, expectation: Expectation) -> bool:
        value = self._read(expectation.family, expectation.key)
        if isinstance(expectation, Absent):
            return value is None
        return value == expectation.value

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
        return self._engine.get(family, key)

    def _advance(self, family: str, prefix: bytes) -> int:
        name = family, prefix
        last = self.sequences.get(name)
        if last is None:
            last = _read_counter(self._engine, *name)
        self.sequences[name] = last + 1
        self._advanced.add(name)
        return last + 1


class _Gate:
    """A lock that blocks readers while a group is written but not yet durable.

    Readers pass freely while it is open. The writer closes it only after all readers that waited
    the last time have passed, so that neither side can starve the other.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._inside = 0
        self._held_back = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._changed:
            if self._closed:
                self._held_back += 1
                self._changed.wait_for(lambda: not self._closed)
                self._held_back -= 1
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                if not self._inside:
                    self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._held_back)
            self._closed = True
            self._changed.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()


def put_counter(family: str, prefix: bytes, number: int) -> Put:
    """Return the operation that stores the last number of a sequence."""
    return Put(SEQUENCES, _counter_key(family, prefix), b"%020d" % number)


def _read_counter(engine: Engine, family: str, prefix: bytes) -> int:
    stored = engine.get(SEQUENCES, _counter_key(family, prefix))
    return int(stored) if stored else 0


def _counter_key(family: str, prefix: bytes) -> bytes:
    return b"sequence:" + family.encode() + b":" + prefix
