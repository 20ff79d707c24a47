"""Stands: listeners that are opened beside the daemon's own, each for as long as it is wanted."""

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
    """Built on the event loop that serves them; `serve` is called in threads. With TLS where the
    daemon's own port has it."""

    def __init__(
        self, made: Callable[[], HttpServer], tls: Callable[[], ssl.SSLContext | None]
    ) -> None:
        self._made = made
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._wanted: set[CancelToken] = set()
        self._ended = False

    def serve(
        self,
        application: Application,
        where: tuple[str, int],
        told: Callable[[list[str]], None],
        until: CancelToken,
    ) -> None:
        """Listen until it is set, or `end`. Raises ListenFailed and ConfigError."""
        host, port = where
        tls = self._tls()
        refusal = REFUSAL if tls is None else None
        sockets = listening.bind(listening.resolve_hosts("--host", host, refusal=refusal), port)
        failures: list[BaseException | None] = []

        def on_end(reason: BaseException | None) -> None:
            failures.append(reason)
            log.error("stand.ended", exc_info=reason)
            until.set()

        async def start() -> HttpServer:
            self._wanted.add(until)
            if self._ended:
                until.set()
            server = self._made()
            server.start(application, sockets, on_end, tls)
            return server

        server = asyncio.run_coroutine_threadsafe(start(), self._loop).result()
        try:
            shown = [listening.format_address(*each.getsockname()[:2]) for each in sockets]
            scheme = "http" if tls is None else "https"
            told([f"{scheme}://{address}" for address in shown])
            until.wait()
        finally:
            self._wanted.discard(until)
            asyncio.run_coroutine_threadsafe(server.stop(), self._loop).result()
        if failures:
            raise ListenFailed(f"serving ended: {failures[0] or 'its server ended'}")

    def end(self) -> None:
        """The daemon stops: all of them end."""
        self._ended = True
        for until in list(self._wanted):
            until.set()
