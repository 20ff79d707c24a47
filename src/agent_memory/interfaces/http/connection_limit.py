"""A limit on the open connections of one transport."""

from collections.abc import Iterator
from contextlib import contextmanager

RETRY_SECONDS = 5


class ConnectionLimit:
    """Counts open connections, on one event loop."""

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
        """Take a place until the block ends. Yield False if none is left."""
        if self._taken >= self._limit:
            yield False
            return
        self._taken += 1
        try:
            yield True
        finally:
            self._taken -= 1
