"""Ports of the platform: the store, its maintenance, the model server, the clock, the worker."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, NewType, Protocol, TypeVar

from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import ModelStatus, StoreHealth, StoreStats
from agent_memory.platform.store.batches import Batch, CommitOutcome, Row


class KeySpan(NamedTuple):
    """Keys of a family with rows too large to read by the page: how many to read at once."""

    family: str
    start: bytes
    end: bytes
    rows: int


class OrderedStore(Protocol):
    """Named families of byte keys in byte order, with atomic and durable batches.

    Nothing is visible to a reader before it is durable. Each batch of a `submit` is applied whole
    or, if an expectation fails, not at all, independently of the others. Batches take effect in
    the order submitted, and each sees those before it. Every method raises StorageFailed if the
    store cannot be read or written, and StorageClosed after `close`.
    """

    def get(self, family: str, key: bytes, /) -> bytes | None:
        """Return the value of a key, or None if there is none."""
        ...

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        """Return the values of the keys, in order, with None for each missing one."""
        ...

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool = False
    ) -> list[Row]:
        """Return the rows with start <= key < end, at most `limit`, from one consistent view.

        They come in key order, or in descending order if `reverse`.
        """
        ...

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        """Return for each key at most `reach` rows before it, its own, and `reach` after it.

        The key itself need not exist. The rows of a key come in key order.
        """
        ...

    def submit(self, batches: Sequence[Batch], /) -> "Future[list[CommitOutcome]]":
        """Queue the batches; the future returns their outcomes, in order, once they are durable.

        Raises Overloaded if too much is waiting to be written, and StorageUnwritable while the
        store cannot be written.
        """
        ...

    def get_sequence(self, family: str, prefix: bytes, /) -> int:
        """Return the last number that an Append under this prefix received; 0 if none."""
        ...

    def close(self) -> None:
        """Commit what was submitted, then release the store."""
        ...


class ManagedStore(OrderedStore, Protocol):
    """A store with what the process that opened it needs."""

    @property
    def health(self) -> StoreHealth:
        """Whether the store can be read and written now."""
        ...

    def maintaining(self) -> AbstractContextManager[None]:
        """Keep the store open for work on it inside the block: `close` waits for its end."""
        ...


Ticket = NewType("Ticket", bytes)  # an entry of a queue


class StoreMaintenance(Protocol):
    """Administration of a store in use."""

    def stats(self) -> StoreStats:
        """Return the sizes and row counts of the store; counts may be estimates."""
        ...

    def compact(self, family: str, /) -> None:
        """Rewrite a family's files without deleted and overwritten rows.

        Raises StorageClosed if the store is closed meanwhile.
        """
        ...

    def copy_to(self, path: Path, /) -> None:
        """Copy the store to a path that does not exist, with everything that is durable now."""
        ...


class Leadership(Protocol):
    """Whether this daemon does the work that only one of those on a memory may do, such as the
    table of contents."""

    def lead(self) -> AbstractContextManager[bool]:
        """Do such work inside the block if the value is true: else another daemon does it.

        The block ends quietly if another daemon has taken over meanwhile.
        """
        ...

    def take_over(self) -> AbstractContextManager[None]:
        """Do such work inside the block, once the daemon that does it now is done.

        Raises Overloaded if that takes too long.
        """
        ...


class ModelServer(Protocol):
    """The server that a language model runs on."""

    def status(self) -> ModelStatus:
        """Ask the server for its present status."""
        ...

    def close(self) -> None:
        """Stop the server, if we started it."""
        ...


class Clock(Protocol):
    """The present time."""

    def now(self) -> Millis:
        """Return the present time in Unix milliseconds."""
        ...


T = TypeVar("T")


class Worker(Protocol):
    """A process that runs pure functions, so that they cost the daemon no latency."""

    def call(self, function: Callable[..., T], /, *arguments: object, timeout_seconds: float) -> T:
        """Return the function's result, or raise what it raises.

        Raises WorkerFailed if the function crashes or takes too long.
        """
        ...
