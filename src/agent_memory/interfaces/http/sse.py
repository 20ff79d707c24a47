"""Server-sent events: how they are written, and the answer that they are sent in."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
import structlog
from starlette.responses import Response

from agent_memory.interfaces.http.asgi import Receive, Scope, Send, send_json
from agent_memory.interfaces.http.connection_limit import RETRY_SECONDS, ConnectionLimit

log = structlog.get_logger()

SEND_SECONDS = 10.0  # that a reader may take nothing
KEEP_ALIVE = b": keep-alive\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy that collects would show nothing for long
]


def format_event(event: str, data: str, token: str = "") -> bytes:
    """`data` is JSON, and so one line."""
    name = f"id: {token}\n" if token else ""
    return f"{name}event: {event}\ndata: {data}\n\n".encode()


def format_json_event(event: str, data: Mapping[str, Any], token: str = "") -> bytes:
    return format_event(event, msgspec.json.encode(data).decode(), token)


class LimitedResponse(Response):
    """An answer that takes its time, and a seat. It ends when its client goes away."""

    def __init__(self, seats: ConnectionLimit) -> None:
        super().__init__()
        self._seats = seats

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._seats.acquire() as seated:
            if seated:
                await run_until_first(self._answer(send), _wait_for_disconnect(receive))
                return
        body = msgspec.json.encode({"detail": self._seats.refusal})
        await send_json(send, 503, body, (b"retry-after", b"%d" % RETRY_SECONDS))

    async def _answer(self, send: Send) -> None:
        raise NotImplementedError


class LongPollResponse(LimitedResponse):
    """JSON, once it is known."""

    media_type = "application/json"

    def __init__(self, seats: ConnectionLimit, body: Coroutine[Any, Any, str]) -> None:
        super().__init__(seats)
        self._body = body

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(_scope, receive, send)
        finally:
            self._body.close()

    async def _answer(self, send: Send) -> None:
        await send_json(send, 200, (await self._body).encode())


class EventStream(LimitedResponse):
    """Sends what it is given as it comes. Whoever goes away, or takes nothing for a while, is left:
    then `parts` is closed, wherever it stands."""

    media_type = "text/event-stream"

    def __init__(
        self,
        seats: ConnectionLimit,
        parts: AsyncGenerator[bytes, None],
        *,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        super().__init__(seats)
        self._parts = parts
        self._send_seconds = send_seconds

    async def _answer(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async with aclosing(self._parts) as parts:
            try:
                async for part in parts:
                    message = {"type": "http.response.body", "body": part, "more_body": True}
                    # Not `wait_for`: where the sending ends just then, it swallows a cancellation.
                    async with asyncio.timeout(self._send_seconds):
                        await send(message)
            except TimeoutError:
                log.info("stream.dropped", reason="it took nothing", seconds=self._send_seconds)
                return
        await send({"type": "http.response.body", "body": b""})


async def run_until_first(*ways: Coroutine[Any, Any, object]) -> None:
    """Until one of them ends; the others are cancelled, and have ended too."""
    tasks = [asyncio.ensure_future(each) for each in ways]
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
    """Whether it was woken in time."""
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return False
    return True
