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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import Protocol

import structlog

from agent_memory.kernel.errors import StorageFailed, StorageUnwritable
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, CommitOutcome, Put, Row
from agent_memory.platform.store.gates import ReaderGate
from agent_memory.platform.store.plans import Plan, SequenceName, Write, read_counter
from agent_memory.platform.store.submissions import Submission, SubmissionQueue, UnknownFamily

log = structlog.get_logger()

STALL_PAUSE = 0.002
STALL_LIMIT = 60.0
# Seconds between two attempts to reopen the files after a failed write.
REOPEN_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
LONGEST_REOPEN_PAUSE = 10.0
PROBE = Put(families.META, b"probe", b"")  # written to check whether writes succeed again


class Stalled(Exception):
    """The engine cannot write now and has written nothing; try again."""


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

    def write(self, operations: Sequence[Write], /) -> None:
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
        self._gate = ReaderGate()
        self._users = (
            ReaderGate()
        )  # closed only to close or reopen: a scan would keep the file lock
        self._sequences: dict[SequenceName, int] = {}
        self._queue = SubmissionQueue(self._find_refusal)
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
        submission = Submission(tuple(batches))
        self._queue.put(submission)
        return submission.future

    def get_sequence(self, family: str, prefix: bytes, /) -> int:
        with self._reading():
            return read_counter(self._engine, family, prefix)

    @property
    def health(self) -> StoreHealth:
        return self._health

    def close(self) -> None:
        if not self._queue.close():
            return
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
        while submissions := self._queue.take_group():
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
        self._queue.fail_waiting(unwritable_error(self._health))
        for pause in chain(REOPEN_PAUSES, repeat(LONGEST_REOPEN_PAUSE)):
            with suppress(Exception):
                self._engine.interrupt()  # a compaction would delay the reopening
            with self._users.writing(), self._gate.writing():
                before, self._health = self._health, self._reopen()
                self._sequences = {}  # the last write may be lost: read the counters again
            self._report_change(before)
            if self._health.writable:
                return
            if self._queue.wait_for_close(pause):
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

    def _find_refusal(self) -> Exception | None:
        return None if self._health.writable else unwritable_error(self._health)

    def _commit(self, submissions: list[Submission]) -> None:
        plan, planned = self._plan(submissions)
        operations = plan.operations()
        if operations:
            self._write(operations)
            self._sequences = plan.sequences
        for submission, outcomes in planned:
            submission.future.set_result(outcomes)

    def _plan(
        self, submissions: list[Submission]
    ) -> tuple[Plan, list[tuple[Submission, list[CommitOutcome]]]]:
        """Plan a group. An unreadable row fails only the submission that reads it, as a whole.

        The others are planned again without it.
        """
        plan = Plan(self._engine, self._sequences)
        planned: list[tuple[Submission, list[CommitOutcome]]] = []
        for submission in submissions:
            try:
                planned.append((submission, [plan.add(batch) for batch in submission.batches]))
            except StorageFailed as exc:
                submission.fail(exc)
                return self._plan([other for other in submissions if other is not submission])
        return plan, planned

    def _write(self, operations: Sequence[Write]) -> None:
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


def unwritable_error(health: StoreHealth) -> StorageUnwritable:
    return StorageUnwritable(f"the store cannot be written now: {health.reason}")
