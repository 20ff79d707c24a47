"""Outbound ports: what the services need from the world, as small Protocols."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NewType, Protocol, TypeVar

from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import ModelStatus, StoreStats
from agent_memory.platform.store.batches import Batch, CommitOutcome, Row


class OrderedStore(Protocol):
    """Named families of byte keys in byte order, with atomic and durable batches.

    Nothing is visible to a reader before it is durable. Every batch of a `submit` stands alone:
    each is applied whole or, if an expectation fails, not at all. Batches take effect in the order
    submitted, and each sees those before it.
    """

    def get(self, family: str, key: bytes, /) -> bytes | None: ...

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]: ...

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool = False
    ) -> list[Row]:
        """Rows with start <= key < end, at most `limit`, from one consistent view."""
        ...

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        """For each key, in order: at most `reach` rows before it, its own, `reach` after it."""
        ...

    def submit(self, batches: Sequence[Batch], /) -> "Future[list[CommitOutcome]]":
        """Queue the batches; the future gives their outcomes once they are durable."""
        ...

    def get_sequence(self, family: str, prefix: bytes, /) -> int:
        """The last number that an Append under this prefix was given; 0 if none."""
        ...

    def close(self) -> None:
        """Finish what was submitted, then release the store."""
        ...


Ticket = NewType("Ticket", bytes)


class ModelServer(Protocol):
    """What a model runs on."""

    def status(self) -> ModelStatus:
        """As it is now: it is asked."""
        ...

    def close(self) -> None:
        """End it, if it is ours."""
        ...


class StoreMaintenance(Protocol):
    """What an administrator asks of a store."""

    def stats(self) -> StoreStats: ...

    def compact(self, family: str, /) -> None:
        """Rewrite a family's files without what was deleted or overwritten."""
        ...

    def checkpoint(self, path: Path, /) -> None:
        """Copy the store as it is now to a path that does not exist, with everything that was
        durable when this was called."""
        ...


class Clock(Protocol):
    def now(self) -> Millis: ...


T = TypeVar("T")


class Worker(Protocol):
    """Runs pure functions in a process of their own, so that they cost the daemon no latency."""

    def call(self, function: Callable[..., T], /, *arguments: object, timeout_seconds: float) -> T:
        """The function's result. Raises WorkerFailed where it crashed or took too long; what the
        function itself raises comes out as it is."""
        ...
