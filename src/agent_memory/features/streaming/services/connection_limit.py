"""Limits on the open connections of each transport."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """What all ports share: the open connections, and how often a silent stream sends a sign."""

    sse: ConnectionLimit
    websocket: ConnectionLimit
    keepalive_seconds: float
