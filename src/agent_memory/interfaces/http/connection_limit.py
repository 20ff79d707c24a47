"""Seats: how many may be connected at once by one transport."""

from collections.abc import Iterator
from contextlib import contextmanager

RETRY_SECONDS = 5


class ConnectionLimit:
    """Used on one event loop."""

    def __init__(self, transport: str, limit: int) -> None:
        self._transport = transport
        self._limit = limit
        self._taken = 0

    @property
    def refusal(self) -> str:
        return (
            f"{self._limit} {self._transport} connections are open, the limit"
            " (streaming.max_connections): close one, or try again later"
        )

    @contextmanager
    def acquire(self) -> Iterator[bool]:
        """Whether there was a seat left; it is free again afterwards."""
        if self._taken >= self._limit:
            yield False
            return
        self._taken += 1
        try:
            yield True
        finally:
            self._taken -= 1
