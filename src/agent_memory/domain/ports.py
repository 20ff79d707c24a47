"""Outbound ports: what the services need from the world, as small Protocols."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from agent_memory.domain.access import AccessKey
from agent_memory.domain.batches import Batch, Outcome, Row
from agent_memory.domain.events import Event, EventId, Millis, Page, Position, SessionId
from agent_memory.domain.status import StoreStats


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

    def submit(self, batches: Sequence[Batch], /) -> "Future[list[Outcome]]":
        """Queue the batches; the future gives their outcomes once they are durable."""
        ...

    def sequence(self, family: str, prefix: bytes, /) -> int:
        """The last number that an Append under this prefix was given; 0 if none."""
        ...

    def close(self) -> None:
        """Finish what was submitted, then release the store."""
        ...


class EventLog(Protocol):
    """The conversation events, by time, by id and by session."""

    def append(self, events: Sequence[Event], /) -> "Future[list[bool]]":
        """For each event, once durable: True if it is new, False if its id was there already."""
        ...

    def get(self, event_id: EventId, /) -> Event | None: ...

    def between(self, start: Millis, end: Millis, /, *, after: Position | None, limit: int) -> Page:
        """Events of start <= time <= end. A page may hold fewer than `limit` where texts are long:
        only `next` tells whether there are more."""
        ...

    def of_session(
        self, session_id: SessionId, /, *, after: Position | None, limit: int
    ) -> Page: ...

    def watermark(self) -> int:
        """The outbox sequence up to which everything is durable."""
        ...


class SecretsFilter(Protocol):
    """Removes secrets before anything is stored, indexed or logged."""

    def clean(self, text: str, /) -> str:
        """The text without its secrets. Raises ContentBlocked where it may not be kept at all."""
        ...


class StoreMaintenance(Protocol):
    """What an administrator asks of a store."""

    def stats(self) -> StoreStats: ...

    def compact(self, family: str, /) -> None:
        """Rewrite a family's files without what was deleted or overwritten."""
        ...


class KeyRing(Protocol):
    """The bearer keys, hashed."""

    def add(self, key: AccessKey, /) -> bool:
        """False if a key of this name is there already."""
        ...

    def all(self) -> list[AccessKey]: ...

    def remove(self, name: str, /) -> bool:
        """False if there is no such key."""
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
