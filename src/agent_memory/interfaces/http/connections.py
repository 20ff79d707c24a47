"""Limits on HTTP connections: their number, the head of a request, slow senders and slow readers.

uvicorn with httptools limits neither the size of a request's head nor the time it or a body takes
to arrive.
If all places are taken, a new connection replaces the oldest one that has shown no key: clients
without a key cannot keep out those that have one.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agent_memory.interfaces.http.headers import HEADERS

MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 100
MAX_PIPELINED = 100
_arrivals = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most connections, the seconds in which the head of a request must arrive, and the seconds
    a client may read nothing. A process may often open no more than 1,024 files.

    A body must arrive within `body_seconds` and one second more for each `body_rate` bytes that
    have come, but at most within `longest_body_seconds`.
    """

    connections: int = 512
    head_seconds: float = 20.0
    body_seconds: float = 10.0
    body_rate: int = 16 << 10
    longest_body_seconds: float = 120.0
    stalled_seconds: float = 30.0


def build_bounds(streams: int) -> Bounds:
    """Return bounds with room for `streams` of each kind of stream and for plain requests."""
    return Bounds(connections=max(Bounds().connections, 4 * streams))


class Stall:
    """Disconnects a client that reads nothing: its data would wait in memory forever."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self.end()
        self._waiting = self._transport.get_write_buffer_size()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._check)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if self._transport.get_write_buffer_size() < self._waiting:
            self.begin()  # slow, but it reads
        else:
            self._transport.abort()


class HttpConnection(HttpToolsProtocol):
    """A connection of uvicorn with bounds."""

    def __init__(self, bounds: Bounds, **options: Any) -> None:
        super().__init__(**options)
        self._bounds = bounds
        self._stall: Stall | None = None
        self._in_head = True
        self._unparsed = 0  # bytes since the last callback of the parser
        self._refused = False
        self._authenticated = False
        self.arrived = next(_arrivals)
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._body_began = 0.0
        self._body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._stall = Stall(transport, self._bounds.stalled_seconds)
        if not self._make_room():
            self._refuse(b"503 Service Unavailable", b"too many connections")
        else:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._stall is not None:
            self._stall.end()
        super().connection_lost(exc)

    @property
    def is_authenticated(self) -> bool:
        """Return whether a request of this connection had a key or came by the owner's socket."""
        if self.scope is not None:  # before the first request
            self._authenticated = self._authenticated or bool(
                self.scope.get("state", {}).get("caller")
            )
        return self._authenticated

    def on_message_begin(self) -> None:
        self._authenticated = self.is_authenticated  # the next request replaces the scope
        super().on_message_begin()

    def _make_room(self) -> bool:
        """Return whether there is a place; if there is none, take one from a connection without a
        key."""
        if len(self.connections) <= self._bounds.connections:
            return True
        others = [other for other in self.connections if not other.transport.is_closing()]
        if len(others) <= self._bounds.connections:
            return True
        unknown = [
            other
            for other in others
            if isinstance(other, HttpConnection)
            and other is not self
            and not other.is_authenticated
        ]
        if not unknown:
            return False
        min(unknown, key=lambda other: other.arrived).transport.abort()
        return True

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._unparsed > MAX_HEAD_BYTES:
            self._too_large()
        elif len(self.pipeline) > MAX_PIPELINED:
            self.transport.abort()
        elif self._in_head and self._unparsed and self._head_timer is None:
            self._wait_for_head()
        elif not self._in_head and self._body_timer is None:
            self._wait_for_body()

    def on_headers_complete(self) -> None:
        self._unparsed = self._body_bytes = 0
        self._in_head = False
        self._stop_waiting()
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self._too_large()
        if not self._refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        self._body_bytes += len(body)
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        self._in_head = True
        self._stop_waiting()
        if not self._refused:
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        if not self._refused:
            super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall is not None:
            self._stall.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.end()

    def _wait_for_head(self) -> None:
        loop = asyncio.get_running_loop()
        self._head_timer = loop.call_later(self._bounds.head_seconds, self.transport.close)

    def _wait_for_body(self) -> None:
        loop = asyncio.get_running_loop()
        self._body_began = loop.time()
        self._body_timer = loop.call_later(self._bounds.body_seconds, self._check_body)

    def _check_body(self) -> None:
        cycle, bounds = self.cycle, self._bounds
        is_asked_to_wait = cycle.waiting_for_100_continue and not cycle.response_started
        if self.flow.read_paused or is_asked_to_wait:  # it is we who are slow: count from here
            self._body_bytes = 0
            self._wait_for_body()
            return
        granted = bounds.body_seconds + self._body_bytes / bounds.body_rate
        loop = asyncio.get_running_loop()
        due = self._body_began + min(granted, bounds.longest_body_seconds)
        if loop.time() < due:
            self._body_timer = loop.call_at(due, self._check_body)
        elif cycle.response_started or self.pipeline:
            self.transport.abort()
        else:
            cycle.disconnected = True  # what the application still answers comes too late
            self._answer(b"408 Request Timeout", b"the body arrives too slowly")

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def send_400_response(self, msg: str) -> None:
        self._refuse(b"400 Bad Request", msg.encode("ascii"))

    def _too_large(self) -> None:
        self._refuse(b"431 Request Header Fields Too Large", b"the headers are too large")

    def _refuse(self, status: bytes, detail: bytes) -> None:
        self._refused = True
        # Before the first request it is None, although its type does not say so.
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]
            self.transport.abort()  # another response is being sent
        else:
            self._answer(status, detail)

    def _answer(self, status: bytes, detail: bytes) -> None:
        self.transport.write(build_response(status, detail))
        self.transport.close()


def build_response(status: bytes, detail: bytes) -> bytes:
    body = b'{"detail": "%s"}' % detail
    fixed = b"".join(b"%s: %s\r\n" % header for header in HEADERS)
    return (
        b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"%sconnection: close\r\n\r\n%s" % (status, len(body), fixed, body)
    )


def build_websocket(bounds: Bounds, **options: Any) -> asyncio.Protocol:
    """Build the protocol of an upgraded connection. The import is late because it takes 30 ms."""
    from agent_memory.interfaces.http.websocket_connection import WebSocketConnection  # noqa: PLC0415

    build: Callable[..., asyncio.Protocol] = WebSocketConnection
    return build(bounds, **options)
