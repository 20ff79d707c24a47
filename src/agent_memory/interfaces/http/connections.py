"""Connections: what one may hold of us before it has asked, and while it does not read.

uvicorn with httptools bounds neither the head of a request nor the time in which it comes. Where
all places are taken, a new connection gets that of the oldest which has shown no key: clients
without one cannot keep out those that have it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 100
MAX_PIPELINED = 100
_arrivals = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many clients there may be, how long each may take for the head of a request, and how
    long it may read nothing. A process often has no more than 1,024 files."""

    connections: int = 512
    head_seconds: float = 20.0
    stalled_seconds: float = 30.0


def build_bounds(streams: int) -> Bounds:
    """With room for so many of each kind of stream, and for those who only ask."""
    return Bounds(connections=max(Bounds().connections, 4 * streams))


class Stall:
    """Cuts off a client that reads nothing of what waits for it: else that would wait for ever."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self.end()
        self._waiting = self._transport.get_write_buffer_size()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._look)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if self._transport.get_write_buffer_size() < self._waiting:
            self.begin()  # slow, but it reads
        else:
            self._transport.abort()


class HttpConnection(HttpToolsProtocol):
    def __init__(self, bounds: Bounds, **given: Any) -> None:
        super().__init__(**given)
        self._bounds = bounds
        self._stall: Stall | None = None
        self._in_head = True
        self._unparsed = 0  # bytes since the parser last had something to say
        self._turned_away = False
        self._known = False
        self.arrived = next(_arrivals)
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._stall = Stall(transport, self._bounds.stalled_seconds)
        if not self._finds_room():
            self._turn_away(b"503 Service Unavailable", b"too many connections")
        else:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._stall is not None:
            self._stall.end()
        super().connection_lost(exc)

    @property
    def is_authenticated(self) -> bool:
        """Whether one of its requests was let in with a key, or over a socket of the owner's."""
        if self.scope is not None:  # before the first request
            self._known = self._known or bool(self.scope.get("state", {}).get("caller"))
        return self._known

    def on_message_begin(self) -> None:
        self._known = self.is_authenticated  # what was known of the last request is gone with it
        super().on_message_begin()

    def _finds_room(self) -> bool:
        """Whether there is a place, or one can be had from who has shown no key."""
        if len(self.connections) <= self._bounds.connections:
            return True
        open_ones = [each for each in self.connections if not each.transport.is_closing()]
        if len(open_ones) <= self._bounds.connections:
            return True
        unknown = [
            each
            for each in open_ones
            if isinstance(each, HttpConnection) and each is not self and not each.is_authenticated
        ]
        if not unknown:
            return False
        min(unknown, key=lambda each: each.arrived).transport.abort()
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
        elif self._in_head and self._unparsed and self._patience is None:
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        self._in_head = False
        self._stop_waiting()
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self._too_large()
        if not self._turned_away:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        if not self._turned_away:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        self._in_head = True
        if not self._turned_away:
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        if not self._turned_away:
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
        self._patience = loop.call_later(self._bounds.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def send_400_response(self, msg: str) -> None:
        self._turn_away(b"400 Bad Request", msg.encode("ascii"))

    def _too_large(self) -> None:
        self._turn_away(b"431 Request Header Fields Too Large", b"the headers are too large")

    def _turn_away(self, status: bytes, detail: bytes) -> None:
        self._turned_away = True
        # Before the first request there is none, whatever its type says.
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]
            self.transport.abort()  # in the middle of another answer there is nothing to say
            return
        self.transport.write(build_response(status, detail))
        self.transport.close()


def build_response(status: bytes, detail: bytes) -> bytes:
    body = b'{"detail": "%s"}' % detail
    return (
        b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"connection: close\r\n\r\n%s" % (status, len(body), body)
    )


def build_websocket(bounds: Bounds, **given: Any) -> asyncio.Protocol:
    """What a connection becomes that asks for WebSocket. Loaded then: it takes 30 ms."""
    from agent_memory.interfaces.http.upgraded import WebSocketConnection  # noqa: PLC0415

    made: Callable[..., asyncio.Protocol] = WebSocketConnection
    return made(bounds, **given)
