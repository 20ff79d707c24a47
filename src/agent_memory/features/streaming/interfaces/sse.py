"""Server-sent events: their format, and the responses that send them."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
import structlog
from starlette.responses import Response

from agent_memory.features.streaming.services.connection_limit import RETRY_SECONDS, ConnectionLimit
from agent_memory.interfaces.http.asgi import Receive, Scope, Send, send_json

log = structlog.get_logger()

SEND_SECONDS = 10.0  # for a client to read the next event
KEEP_ALIVE = b": keep-alive\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy must not buffer
]


def format_event(event: str, data: str, token: str = "") -> bytes:
    """Format an event. `data` must be JSON, which is one line."""
    name = f"id: {token}\n" if token else ""
    return f"{name}event: {event}\ndata: {data}\n\n".encode()


def format_json_event(event: str, data: Mapping[str, Any], token: str = "") -> bytes:
    return format_event(event, msgspec.json.encode(data).decode(), token)


class LimitedResponse(Response):
    """A long response that counts as a connection, and ends when its client disconnects."""

    def __init__(self, limit: ConnectionLimit) -> None:
        super().__init__()
        self._limit = limit

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._limit.acquire() as admitted:
            if admitted:
                await run_until_first(self._answer(send), _wait_for_disconnect(receive))
                return
        body = msgspec.json.encode({"detail": self._limit.refusal})
        await send_json(send, 503, body, (b"retry-after", b"%d" % RETRY_SECONDS))

    async def _answer(self, send: Send) -> None:
        raise NotImplementedError


class LongPollResponse(LimitedResponse):
    """A response of JSON that is sent once `body` returns."""

    media_type = "application/json"

    def __init__(self, limit: ConnectionLimit, body: Coroutine[Any, Any, str]) -> None:
        super().__init__(limit)
        self._body = body

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(_scope, receive, send)
        finally:
            self._body.close()

    async def _answer(self, send: Send) -> None:
        await send_json(send, 200, (await self._body).encode())


class EventStream(LimitedResponse):
    """A stream of events. If the client disconnects or reads nothing for `send_seconds`, the stream
    ends and closes `events`."""

    media_type = "text/event-stream"

    def __init__(
        self,
        limit: ConnectionLimit,
        events: AsyncGenerator[bytes, None],
        *,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        super().__init__(limit)
        self._events = events
        self._send_seconds = send_seconds

    async def _answer(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async with aclosing(self._events) as events:
            try:
                async for event in events:
                    message = {"type": "http.response.body", "body": event, "more_body": True}
                    # `wait_for` would swallow a cancellation that comes as the sending ends.
                    async with asyncio.timeout(self._send_seconds):
                        await send(message)
            except TimeoutError:
                log.info("stream.dropped", reason="it took nothing", seconds=self._send_seconds)
                return
        await send({"type": "http.response.body", "body": b""})


async def run_until_first(*calls: Coroutine[Any, Any, object]) -> None:
    """Run until one of the calls ends, then cancel the others and wait for their end."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def wait_with_timeout(woken: asyncio.Event, seconds: float) -> bool:
    """Wait for the event. Return False if it is not set in time."""
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return False
    return True
