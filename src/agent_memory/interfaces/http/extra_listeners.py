"""Listeners beside the daemon's own, for `memory serve`."""

import asyncio
import ssl
from collections.abc import Callable

import structlog

from agent_memory.interfaces import listening
from agent_memory.interfaces.http.asgi import Application
from agent_memory.interfaces.http.server import HttpServer
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ListenFailed

REFUSAL = "refused without TLS; set http.tls_cert and http.tls_key, or use `localhost`"

log = structlog.get_logger()


class ExtraListeners:
    """Opens listeners. Build it on the event loop that serves them; call `serve` in threads.

    They use TLS if the daemon's own port does.
    """

    def __init__(
        self, build_server: Callable[[], HttpServer], load_tls: Callable[[], ssl.SSLContext | None]
    ) -> None:
        self._build_server = build_server
        self._load_tls = load_tls
        self._loop = asyncio.get_running_loop()
        self._open: set[CancelToken] = set()
        self._ended = False

    def serve(
        self,
        application: Application,
        address: tuple[str, int],
        on_ready: Callable[[list[str]], None],
        until: CancelToken,
    ) -> None:
        """Listen until `until` is set or `end` is called, and pass the URLs to `on_ready`. Raises
        ListenFailed and ConfigError."""
        host, port = address
        tls = self._load_tls()
        refusal = REFUSAL if tls is None else None
        sockets = listening.bind(listening.resolve_hosts("--host", host, refusal=refusal), port)
        failures: list[BaseException | None] = []

        def on_end(reason: BaseException | None) -> None:
            failures.append(reason)
            log.error("stand.ended", exc_info=reason)
            until.set()

        async def start() -> HttpServer:
            self._open.add(until)
            if self._ended:
                until.set()
            server = self._build_server()
            server.start(application, sockets, on_end, tls)
            return server

        server = asyncio.run_coroutine_threadsafe(start(), self._loop).result()
        try:
            scheme = "http" if tls is None else "https"
            bound = [listening.format_address(*each.getsockname()[:2]) for each in sockets]
            on_ready([f"{scheme}://{each}" for each in bound])
            until.wait()
        finally:
            self._open.discard(until)
            asyncio.run_coroutine_threadsafe(server.stop(), self._loop).result()
        if failures:
            raise ListenFailed(f"the listener stopped: {failures[0] or 'its server ended'}")

    def end(self) -> None:
        """End all listeners."""
        self._ended = True
        for until in list(self._open):
            until.set()
