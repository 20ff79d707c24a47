"""The HTTP listener: uvicorn on the daemon's own loop and sockets."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from agent_memory.interfaces.http.asgi import Application

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
                log_level="warning",  # else addresses of WebSockets are logged, with their queries
                server_header=False,
                date_header=False,  # uvicorn keeps it current by ticking
                ws="websockets-sansio",
                ws_per_message_deflate=False,  # it costs every change once per client
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
