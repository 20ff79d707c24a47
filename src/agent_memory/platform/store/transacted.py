"""The ordered store over a database of transactions, which other processes may share.

One thread writes: it takes every waiting batch and commits them as one transaction. A transaction
becomes visible and durable at once, so readers never wait for the writer.

If the database does not answer, new writes are refused while the group under way is tried again. It
fails only if its fate stays unknown for too long. A caller who waits (`kernel.deadlines`) is told
after two seconds that the fate of their write is unknown; to send it again does not double it. If
other processes have removed the lease of this one, the store has ended: what this process keeps may
be out of date from then on.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from typing import TypeVar

import structlog

from agent_memory.kernel.deadlines import Watchdog
from agent_memory.kernel.errors import StorageFailed, StorageUnwritable
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.store import families, fences
from agent_memory.platform.store.batches import Batch, CommitOutcome, Row
from agent_memory.platform.store.change_marks import ChangeMarks
from agent_memory.platform.store.committer import unwritable_error
from agent_memory.platform.store.database import (
    DatabaseLost,
    LeaseLost,
    TenantDatabase,
    TenantReader,
    TransactionRefused,
)
from agent_memory.platform.store.gates import ReaderGate
from agent_memory.platform.store.group_writer import OUTBOX, GroupWriter
from agent_memory.platform.store.leases import (
    RENEW_MS,
    HeldLease,
    name_daemon,
    release_lease,
    take_lease,
)
from agent_memory.platform.store.plans import SEQUENCES, counter_key
from agent_memory.platform.store.submissions import Submission, SubmissionQueue, UnknownFamily

log = structlog.get_logger()

T = TypeVar("T")

RETRY_PAUSES = (0.0, 0.02, 0.1, 0.3)
LONGEST_RETRY_PAUSE = 1.0
# How long a group is tried before its callers are told that its fate is unknown.
TRY_SECONDS = 20.0
CLOSING_TRY_SECONDS = 3.0


class TransactedStore:
    """An OrderedStore over any TenantDatabase."""

    def __init__(
        self,
        database: TenantDatabase,
        writer: GroupWriter,
        watch: Callable[[StoreHealth], None],
        *,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `watch` with each change of health, on the thread that writes.

        `on_close` is called after the last write, while the database is still open.
        """
        self._before_close: list[Callable[[], None]] = []
        self._database = database
        self._writer = writer
        self._on_health_change = watch
        self._on_close = on_close
        self._health = StoreHealth()
        self._users = ReaderGate()  # closed only to close the database
        self._queue = SubmissionQueue(self._find_refusal)
        self._closing = False
        self._watchdog = Watchdog("store-watchdog")
        self._thread = threading.Thread(target=self._run, name="store-committer", daemon=True)
        self._thread.start()

    def get(self, family: str, key: bytes, /) -> bytes | None:
        return self.get_many(family, [key])[0]

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        with self._reading():
            return self._database.get_many(family, keys)

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool = False
    ) -> list[Row]:
        with self._reading():
            return self._database.scan(family, start, end, limit=limit, reverse=reverse)

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        with self._reading():
            return self._database.get_neighbors(family, keys, reach=reach)

    def get_sequence(self, family: str, prefix: bytes, /) -> int:
        with self._reading():
            return read_sequence(self._database, family, prefix)

    def read_clock(self) -> Millis:
        """Return the time of the database's clock."""
        with self._reading():
            return self._database.read_head().now_ms

    def report_reached(self, get_reached: Callable[[], int]) -> None:
        """Let other processes keep the outbox from this number on, which is asked for from time to
        time."""
        self._writer.get_reached = get_reached

    def submit(self, batches: Sequence[Batch], /) -> "Future[list[CommitOutcome]]":
        fence = fences.find_fence()
        submission = Submission(
            tuple(batches) if fence is None else fences.fence(batches, fence), fence
        )
        for batch in submission.batches:
            for each in (*batch.operations, *batch.expectations):
                if each.family not in families.SHARED:
                    raise UnknownFamily(f"no family {each.family!r}")
        self._queue.put(submission)
        if submission.limit is not None:
            self._watchdog.watch(
                submission.limit, submission.future.done, partial(self._queue.give_up, submission)
            )
        return submission.future

    @property
    def health(self) -> StoreHealth:
        return self._health

    @contextmanager
    def maintaining(self) -> Iterator[None]:
        """Keep the database open for work on it inside the block: `close` waits for its end."""
        with self._users.reading():
            yield

    def before_close(self, work: Callable[[], None]) -> None:
        """Call a function when the store is closed, while it can still be used."""
        self._before_close.append(work)

    def close(self) -> None:
        before, self._before_close = self._before_close, []
        for work in before:
            work()
        self._closing = True
        if not self._queue.close():
            return
        self._thread.join()
        self._watchdog.close()
        try:
            self._on_close()
        finally:
            with self._users.writing():
                self._database.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._users.reading():
            if not self._health.readable:
                raise StorageFailed(f"the store cannot be read: {self._health.reason}")
            yield

    def _find_refusal(self) -> Exception | None:
        return None if self._health.writable else unwritable_error(self._health)

    def _run(self) -> None:
        while (group := self._queue.take_group(RENEW_MS / 1000)) is not None:
            try:
                self._serve(group)
            except BaseException as exc:
                for submission in group:
                    submission.fail(exc)
            while not (self._health.writable or self._health.final):
                if self._queue.wait_for_close(LONGEST_RETRY_PAUSE):
                    break
                with suppress(Exception):
                    self._try(self._writer.renew, 0.0)

    def _serve(self, group: list[Submission]) -> None:
        """Commit a group and answer it; renew the lease if there is none."""
        if not group:
            if not self._health.final:
                self._try(self._writer.renew, TRY_SECONDS)
            return
        batches = tuple(batch for submission in group for batch in submission.batches)
        outcomes = iter(self._try(lambda: self._writer.commit(batches), TRY_SECONDS))
        for submission in group:
            own = [next(outcomes) for _ in submission.batches]
            if submission.fence is not None and fences.is_fenced_off(own, submission.fence):
                submission.fail(LeaseLost("another daemon does this work now"))
            else:
                submission.succeed(own)

    def _try(self, work: Callable[[], T], seconds: float) -> T:
        """Repeat a transaction until it succeeds, is refused for good, or takes too long."""
        began = time.monotonic()
        for pause in chain(RETRY_PAUSES, repeat(LONGEST_RETRY_PAUSE)):
            try:
                result = work()
                self._become(StoreHealth())
                return result
            except TransactionRefused as exc:
                error: StorageFailed = exc
            except DatabaseLost as exc:
                error = exc
                self._become(StoreHealth(writable=False, lost=True, reason=str(exc)))
            except LeaseLost as exc:
                reason = f"{exc}; this one stops"
                self._become(StoreHealth(writable=False, readable=False, final=True, reason=reason))
                raise unwritable_error(self._health) from exc
            except Exception as exc:
                self._become(StoreHealth(writable=False, reason=str(exc)))
                raise
            limit = min(seconds, CLOSING_TRY_SECONDS) if self._closing else seconds
            if time.monotonic() - began >= limit:
                break
            time.sleep(pause)
        lost = isinstance(error, DatabaseLost)
        self._become(StoreHealth(writable=False, lost=lost, reason=str(error)))
        raise StorageUnwritable(
            f"the database does not answer; it may or may not have written this: {error}"
        ) from error

    def _become(self, health: StoreHealth) -> None:
        before, self._health = self._health, health
        if not health.writable:
            self._queue.fail_waiting(unwritable_error(health))
        if (health.writable, health.readable) == (before.writable, before.readable):
            return
        try:
            self._on_health_change(health)
        except Exception:  # this thread must not end: all writes wait for it
            log.exception("store.watcher_failed")


def open_transacted(
    database: TenantDatabase,
    watch: Callable[[StoreHealth], None],
    *,
    holder: str,
    label: str,
    marks: ChangeMarks | None = None,
    lease: bytes | None = None,
) -> TransactedStore:
    """Open a store on a tenant that other processes use too. Closing it says that we are gone.

    `holder` is the name of this writer, the same after a restart; `label` describes it to people.
    Without `marks`, what others change is not noticed. `lease` is the name of the lease that every
    write needs, that of a daemon if it is None. Raises StorageLocked if another holder has it.
    """
    held = _take_lease(database, lease or name_daemon(holder), holder, label)

    def release() -> None:
        with suppress(StorageFailed):  # it ends by itself
            release_lease(database, held)

    writer = GroupWriter(
        database,
        writer=holder,
        lease=held,
        new_token=partial(os.urandom, 16),
        marks=marks,
    )
    return TransactedStore(database, writer, watch, on_close=release)


def _take_lease(database: TenantDatabase, name: bytes, holder: str, label: str) -> HeldLease:
    for pause in RETRY_PAUSES:
        with suppress(TransactionRefused):
            return take_lease(database, name, holder=holder, label=label)
        time.sleep(pause)
    return take_lease(database, name, holder=holder, label=label)


class StoreView:
    """An OrderedStore that shows one moment of a database, and refuses writes."""

    def __init__(self, database: TenantReader) -> None:
        self._database = database

    def get(self, family: str, key: bytes, /) -> bytes | None:
        return self._database.get_many(family, [key])[0]

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        return self._database.get_many(family, keys)

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool = False
    ) -> list[Row]:
        return self._database.scan(family, start, end, limit=limit, reverse=reverse)

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        return self._database.get_neighbors(family, keys, reach=reach)

    def get_sequence(self, family: str, prefix: bytes, /) -> int:
        return read_sequence(self._database, family, prefix)

    def submit(self, _batches: Sequence[Batch], /) -> "Future[list[CommitOutcome]]":
        raise StorageUnwritable("this view of the store can only be read")

    def close(self) -> None:
        """Do nothing: the view ends with its block."""


def read_sequence(database: TenantReader, family: str, prefix: bytes) -> int:
    """Return the last number of a sequence: that of the outbox is in the head row."""
    if (family, prefix) == OUTBOX:
        return database.read_head().outbox
    (stored,) = database.get_many(SEQUENCES, [counter_key(family, prefix)])
    return int(stored) if stored else 0
