"""The queue in front of a store's committer: what waits, and which of it becomes one group."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from agent_memory.kernel import deadlines
from agent_memory.kernel.errors import (
    Overloaded,
    StorageClosed,
    StorageFailed,
    StorageUnwritable,
)
from agent_memory.platform.store.batches import Batch, CommitOutcome, Equals

GROUP_BATCHES = 1024
GROUP_BYTES = 8 << 20
PENDING_BYTES = 256 << 20
# Callers often come in crowds, each waiting for its answer. After a group of several, the next one
# waits until all are there again, or no one comes for a moment. A single caller never waits.
CROWD = 4
GATHER_PAUSE = 0.002
GATHER_SECONDS = 0.015


class UnknownFamily(StorageFailed):
    """A batch names a family that the store does not have; nothing was written."""


class Submission:
    """The batches of one `submit`, and the future that their caller waits for."""

    __slots__ = ("batches", "fence", "future", "is_taken", "limit", "size")

    def __init__(self, batches: tuple[Batch, ...], fence: Equals | None = None) -> None:
        """`fence` is the lease that all batches expect, if there is one."""
        self.batches = batches
        self.fence = fence
        self.limit = deadlines.find_limit()
        self.is_taken = False  # it may be written from now on
        self.future: Future[list[CommitOutcome]] = Future()
        # Running from the start: a waiter that gives up cannot cancel a write in progress.
        self.future.set_running_or_notify_cancel()
        # Keys and values; a range or a deletion counts its keys.
        self.size = sum(
            len(operation[1]) + len(operation[-1])
            for batch in batches
            for operation in batch.operations
        )

    def succeed(self, outcomes: list[CommitOutcome]) -> None:
        with suppress(InvalidStateError):  # its caller has been told that its fate is unknown
            self.future.set_result(outcomes)

    def fail(self, exc: BaseException) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(exc)


class SubmissionQueue:
    """Submissions in the order of their arrival, taken in groups by one thread."""

    def __init__(self, refuse: Callable[[], Exception | None]) -> None:
        """`refuse` returns the error for a new submission, or None if it is accepted."""
        self._refuse = refuse
        self._wake = threading.Condition()
        self._waiting: deque[Submission] = deque()
        self._waiting_bytes = 0
        self._taken = 0  # the size of the last group
        self._crowd = 0  # how many are expected to come
        self._wanted = 1  # as many waiting submissions wake up the thread
        self._closing = False

    def put(self, submission: Submission) -> None:
        """Add a submission. Raises StorageClosed, Overloaded, or what `refuse` returns."""
        with self._wake:
            if self._closing:
                raise StorageClosed("the store is closed")
            refusal = self._refuse()
            if refusal is not None:
                raise refusal
            if self._waiting_bytes > PENDING_BYTES:
                raise Overloaded(
                    f"{self._waiting_bytes >> 20} MiB are waiting to be written; try again"
                )
            self._waiting.append(submission)
            self._waiting_bytes += submission.size
            if len(self._waiting) >= self._wanted:
                self._wake.notify()

    def take_group(self, timeout: float | None = None) -> list[Submission] | None:
        """Wait for submissions and take up to one group.

        Returns an empty list after the timeout, and None once the queue is closed and empty.
        """
        with self._wake:
            # The last group was answered just now: its callers come again, beside those who came
            # meanwhile. A single writer among them, such as a job, does not end the crowd.
            self._crowd = max(self._taken + len(self._waiting), self._crowd // 2)
            self._taken = 0
            self._wake.wait_for(lambda: self._waiting or self._closing, timeout)
            if not self._waiting:
                return None if self._closing else []
            if self._crowd >= CROWD:
                self._gather()
            group: list[Submission] = []
            batches = size = 0
            while self._waiting and batches < GROUP_BATCHES and size < GROUP_BYTES:
                submission = self._waiting.popleft()
                self._waiting_bytes -= submission.size
                if submission.future.done():  # its caller was told that it is not written
                    continue
                submission.is_taken = True
                group.append(submission)
                batches += len(submission.batches)
                size += submission.size
            self._taken = len(group)
            return group

    def fail_waiting(self, exc: Exception) -> None:
        """Take everything out of the queue, and fail it."""
        with self._wake:
            refused = list(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
        for submission in refused:
            submission.fail(exc)

    def give_up(self, submission: Submission) -> None:
        """Tell the caller of a submission that the database does not answer. One that waits is not
        written any more."""
        with self._wake:
            fate = "it may or may not have written this" if submission.is_taken else "try again"
            submission.fail(StorageUnwritable(f"the database does not answer in time; {fate}"))

    def close(self) -> bool:
        """Accept no more submissions. Return False if the queue was closed already."""
        with self._wake:
            was_closing, self._closing = self._closing, True
            self._wake.notify()
        return not was_closing

    def wait_for_close(self, timeout: float) -> bool:
        """Wait until the queue is closed, and tell whether it is."""
        with self._wake:
            return self._wake.wait_for(lambda: self._closing, timeout)

    def _gather(self) -> None:
        """Wait while more arrive: all of them share one flush and two thread switches."""
        seen, until = 0, time.monotonic() + GATHER_SECONDS
        self._wanted = self._crowd
        while (
            seen < len(self._waiting) < self._wanted
            and not self._closing
            and time.monotonic() < until
        ):
            seen = len(self._waiting)
            self._wake.wait(GATHER_PAUSE)
        self._wanted = 1
