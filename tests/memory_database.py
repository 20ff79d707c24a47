"""A database of transactions in memory, for tests and simulations.

A MemoryServer is the database, and a MemoryDatabase a process that uses it. Time, waiting and
faults come from a `Surroundings`, so that a simulation decides about every step.
"""

import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from agent_memory.kernel.errors import StorageClosed
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Row
from agent_memory.platform.store.database import DatabaseLost, Head, TransactionRefused
from agent_memory.platform.store.plans import Place, Write
from tests.memory_engine import MemoryEngine

LOCK_MS = 10_000  # that a transaction waits for the head row
IDLE_MS = 5_000  # after which the server ends a transaction whose client says nothing


class CommitFate(Enum):
    """What becomes of a COMMIT."""

    ANSWERED = "answered"
    NEVER_ARRIVED = "never arrived"
    ANSWER_LOST = "answer lost"
    DONE_LATER = "done after the client has lost its connection"


class Surroundings(Protocol):
    """The world of a process."""

    def now_ms(self) -> Millis:
        """Return the time of the database's clock."""
        ...

    def step(self) -> None:
        """Let others run before a message arrives. Raises DatabaseLost."""
        ...

    def wait_until(self, condition: Callable[[], bool], timeout_ms: int, /) -> bool:
        """Wait for a condition, and tell whether it holds."""
        ...

    def choose_fate(self) -> CommitFate:
        """Decide about a COMMIT."""
        ...

    def call_later(self, work: Callable[[], None], /) -> None:
        """Let the server do something later."""
        ...


class RealTime:
    """Surroundings without faults, for threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def now_ms(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)

    def step(self) -> None:
        """Go on at once."""

    def wait_until(self, condition: Callable[[], bool], timeout_ms: int, /) -> bool:
        until = time.monotonic() + timeout_ms / 1000
        with self._changed:
            while not condition():
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.001))  # a server that changes wakes nobody
        return True

    def choose_fate(self) -> CommitFate:
        return CommitFate.ANSWERED

    def call_later(self, work: Callable[[], None], /) -> None:
        work()


class CommitRecord(NamedTuple):
    """A transaction that was committed, and the leases before it."""

    operations: tuple[Write, ...]
    outbox: int
    leases: dict[bytes, bytes]


class MemoryServer:
    """The rows of one tenant, and the lock of its head row."""

    def __init__(self) -> None:
        self.rows = MemoryEngine(families.SHARED)
        self.outbox = 0
        self.holder: MemoryTransaction | None = None
        self.commits: list[CommitRecord] = []
        self.turn = threading.RLock()  # of the server itself: each message is handled whole

    def try_lock(self, transaction: "MemoryTransaction", now_ms: Millis) -> bool:
        """Give the head row to a transaction unless another has it."""
        with self.turn:
            holder = self.holder
            if holder is not None and holder.is_idle(now_ms):
                self.end(holder)
            if self.holder is None:
                self.holder = transaction
            return self.holder is transaction

    def apply(
        self, transaction: "MemoryTransaction", operations: Sequence[Write], outbox: int
    ) -> None:
        with self.turn:
            rows = self.rows.scan(families.LEASES, b"", b"\xff", limit=1000, reverse=False)
            leases = dict(rows)
            self.rows.write(operations)
            self.outbox = outbox
            self.commits.append(CommitRecord(tuple(operations), outbox, leases))
            self.end(transaction)

    def end(self, transaction: "MemoryTransaction") -> None:
        with self.turn:
            transaction.ended = True
            if self.holder is transaction:
                self.holder = None


class MemoryDatabase:
    """A TenantDatabase: one process at a MemoryServer."""

    def __init__(self, server: MemoryServer, surroundings: Surroundings) -> None:
        self.server = server
        self.surroundings = surroundings
        self._closed = False

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        with self._ask().turn:
            return self.server.rows.get_many(family, keys)

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool
    ) -> list[Row]:
        with self._ask().turn:
            rows = self.server.rows.scan(family, start, end, limit=limit, reverse=reverse)
            return list(rows)

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        with self._ask().turn:
            return self.server.rows.get_neighbors(family, keys, reach=reach)

    def read_head(self) -> Head:
        with self._ask().turn:
            return Head(self.server.outbox, self.surroundings.now_ms())

    def look(self, family: str, keys: Sequence[bytes], /) -> tuple[Head, list[bytes | None]]:
        with self._ask().turn:
            head = Head(self.server.outbox, self.surroundings.now_ms())
            return head, self.server.rows.get_many(family, keys)

    def begin(self, places: Sequence[Place], /) -> "MemoryTransaction":
        server, surroundings = self._ask(), self.surroundings
        for family, _ in places:
            server.rows.get(family, b"")
        transaction = MemoryTransaction(server, surroundings)
        try:
            self.lock(transaction)
            surroundings.step()
            with server.turn:
                transaction.head = Head(server.outbox, surroundings.now_ms())
                transaction.values = {place: server.rows.get(*place) for place in places}
            transaction.idle_since = surroundings.now_ms()
            surroundings.step()  # the answer travels
        except BaseException:
            server.end(transaction)
            raise
        return transaction

    def lock(self, transaction: "MemoryTransaction") -> None:
        server, now = self.server, self.surroundings.now_ms
        if not self.surroundings.wait_until(lambda: server.try_lock(transaction, now()), LOCK_MS):
            raise TransactionRefused("the head row is locked")

    def close(self) -> None:
        self._closed = True

    def _ask(self) -> MemoryServer:
        if self._closed:
            raise StorageClosed("the store is closed")
        self.surroundings.step()
        return self.server


class MemoryTransaction:
    def __init__(self, server: MemoryServer, surroundings: Surroundings) -> None:
        self.head = Head(0, Millis(0))
        self.values: dict[Place, bytes | None] = {}
        self.ended = False
        self.idle_since: Millis | None = None  # None while the server works
        self._server = server
        self._surroundings = surroundings
        self._sent = False

    def is_idle(self, now_ms: Millis) -> bool:
        """Tell whether the client has said nothing for too long."""
        return self.idle_since is not None and now_ms - self.idle_since >= IDLE_MS

    def get(self, family: str, key: bytes, /) -> bytes | None:
        return self.values[family, key]

    def commit(self, operations: Sequence[Write], outbox: int, /) -> None:
        server = self._server
        self._surroundings.step()
        fate = self._surroundings.choose_fate()
        if fate is CommitFate.NEVER_ARRIVED or self.ended:
            server.end(self)
            raise DatabaseLost("the connection is lost")
        self._sent, self.idle_since = True, None
        if fate is CommitFate.DONE_LATER:
            self._surroundings.call_later(lambda: server.apply(self, operations, outbox))
            raise DatabaseLost("the connection is lost")
        server.apply(self, operations, outbox)
        if fate is CommitFate.ANSWER_LOST:
            raise DatabaseLost("the connection is lost")
        self._surroundings.step()

    def roll_back(self) -> None:
        if not self._sent:  # a COMMIT that was sent cannot be taken back
            self._server.end(self)
