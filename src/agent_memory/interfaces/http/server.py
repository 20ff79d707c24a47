"""The HTTP listener: uvicorn on the daemon's own loop and sockets."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import uvicorn

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Application = Callable[
    [Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

STOP_SECONDS = 5.0


class HttpServer:
    """Serves one ASGI application."""

    def __init__(self, application: Application) -> None:
        self._server = _Server(
            uvicorn.Config(
                application,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,  # uvicorn keeps it current by ticking
                ws="none",
                timeout_graceful_shutdown=2,
            )
        )
        self._task: asyncio.Task[None] | None = None

    def start(
        self, sockets: list[socket.socket], on_end: Callable[[BaseException | None], None]
    ) -> None:
        """`on_end` is told if serving ends before `stop`, and why."""

        def ended(task: asyncio.Task[None]) -> None:
            if not self._server.should_exit:
                on_end(None if task.cancelled() else task.exception())

        self._task = asyncio.create_task(self._server.serve(sockets))
        self._task.add_done_callback(ended)

    async def stop(self) -> None:
        if self._task is None or self._task.done():
            return
        self._server.end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._task, STOP_SECONDS)


class _Server(uvicorn.Server):
    """uvicorn without its ten ticks a second: an idle daemon sleeps."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ended = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        await self._ended.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the daemon's."""
        yield


async def health(
    scope: Scope,
    _receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """`GET /health`: the daemon answers, so it lives."""
    found = scope["type"] == "http" and scope["path"] == "/health"
    body = b'{"status": "ok"}' if found else b'{"detail": "Not Found"}'
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200 if found else 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})
