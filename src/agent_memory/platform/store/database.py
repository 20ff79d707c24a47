"""The port of a database that several processes share: transactions on the rows of one tenant."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agent_memory.kernel.errors import StorageFailed, StorageUnwritable
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store.batches import Row
from agent_memory.platform.store.plans import Place, Write


class DatabaseLost(StorageUnwritable):
    """The database does not answer. If it was asked to commit, it may have done so."""


class TransactionRefused(StorageUnwritable):
    """The database has undone a transaction that may succeed if it is repeated."""


class LeaseLost(StorageFailed):
    """Another process has taken the lease: nothing was written, and nothing can be."""


class Head(NamedTuple):
    """The row of a tenant that every transaction locks.

    `outbox` is the last number of the outbox, `now_ms` the database's time when the row was locked,
    or a moment earlier.
    """

    outbox: int
    now_ms: Millis


class Transaction(Protocol):
    """A transaction that holds the lock of the head row until it ends."""

    @property
    def head(self) -> Head:
        """The head row, read after it was locked."""
        ...

    def get(self, family: str, key: bytes, /) -> bytes | None:
        """Return what a place held after the lock. `begin` must have been asked to read it."""
        ...

    def commit(self, operations: Sequence[Write], outbox: int, /) -> None:
        """Apply the operations in order, set the last number of the outbox, and commit.

        Raises DatabaseLost if the outcome is unknown. After any other error nothing is written.
        """
        ...

    def roll_back(self) -> None:
        """End the transaction without a trace. Do nothing if it has ended."""
        ...


class TenantReader(Protocol):
    """Reads of the rows of one tenant. They see everything that is committed, and no more.

    Every method raises DatabaseLost if the database does not answer, StorageFailed if it
    refuses, StorageClosed once it is closed, and UnknownFamily.
    """

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        """Return the values of the keys, in order, with None for each missing one."""
        ...

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool
    ) -> list[Row]:
        """Return the rows with start <= key < end from one view, at most `limit`."""
        ...

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        """Return the rows next to each key, from one view."""
        ...

    def read_head(self) -> Head:
        """Return the head row, without locking it."""
        ...

    def look(self, family: str, keys: Sequence[bytes], /) -> tuple[Head, list[bytes | None]]:
        """Return the head row and the values of the keys, from one view."""
        ...


class TenantDatabase(TenantReader, Protocol):
    """The rows of one tenant, and transactions on them."""

    def begin(self, places: Sequence[Place], /) -> Transaction:
        """Begin a transaction: lock the head row, then read these places.

        Raises TransactionRefused if the lock cannot be had in time.
        """
        ...

    def close(self) -> None:
        """Close all connections. A second call does nothing."""
        ...
