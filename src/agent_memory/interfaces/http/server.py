"""The HTTP server: uvicorn on the daemon's event loop and sockets."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import uvicorn

from agent_memory.interfaces.http.asgi import Application
from agent_memory.interfaces.http.connections import Bounds, HttpConnection, build_websocket
from agent_memory.interfaces.http.headers import HEADERS

STOP_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 10
MAX_WS_MESSAGE_BYTES = 1 << 20
PONG_SECONDS = 20.0


class HttpServer:
    """Serves applications, each on sockets of its own."""

    def __init__(self, *, ping_seconds: float = 30.0, bounds: Bounds | None = None) -> None:
        self._ping_seconds = ping_seconds
        self._bounds = bounds or Bounds()
        self._serving: list[tuple[_UvicornServer, asyncio.Task[None]]] = []

    def start(
        self,
        application: Application,
        sockets: list[socket.socket],
        on_end: Callable[[BaseException | None], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Serve an application. If serving ends before `stop`, call `on_end` with the error."""
        server = _UvicornServer(self._config(application, tls))

        def on_task_done(task: asyncio.Task[None]) -> None:
            if not server.should_exit:
                on_end(None if task.cancelled() else task.exception())

        task = asyncio.create_task(server.serve(sockets))
        task.add_done_callback(on_task_done)
        self._serving.append((server, task))

    async def stop(self) -> None:
        left = [(server, task) for server, task in self._serving if not task.done()]
        for server, _ in left:
            server.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.gather(*(task for _, task in left))

    def _config(self, application: Application, tls: ssl.SSLContext | None) -> uvicorn.Config:
        return uvicorn.Config(
            application,
            interface="asgi3",
            lifespan="off",
            http=_cast_to_class(partial(HttpConnection, self._bounds)),
            ws=_cast_to_class(partial(build_websocket, self._bounds)),
            ws_max_size=MAX_WS_MESSAGE_BYTES,
            ws_ping_interval=self._ping_seconds,
            ws_ping_timeout=PONG_SECONDS,
            ws_per_message_deflate=False,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            proxy_headers=False,  # any client can send them
            log_config=None,
            log_level="warning",  # lower levels log queries and messages
            access_log=False,
            server_header=False,
            date_header=False,  # uvicorn updates it every second
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=2,
        )


def _cast_to_class(call: Callable[..., asyncio.Protocol]) -> type[asyncio.Protocol]:
    """Cast a factory to the class that uvicorn asks for: it only calls it."""
    return cast("type[asyncio.Protocol]", call)


class _UvicornServer(uvicorn.Server):
    """A uvicorn server without its ten wake-ups a second: an idle daemon sleeps."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state.default_headers = list(HEADERS)
        self._ended = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        await self._ended.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon."""
        yield
