"""The MCP server, loaded when the first client connects.

The SDK takes longer to load than the daemon takes to start, and as much memory. Once a client has
connected, later daemons load it soon after their start.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Protocol

import structlog

from agent_memory.kernel.callers import Caller

log = structlog.get_logger()

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class TransportServer(Protocol):
    """Serves clients over each transport, on one event loop."""

    async def serve_pipe(
        self,
        caller: Caller,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ending: asyncio.Event,
        /,
    ) -> None:
        """Serve messages as lines until the client ends them, or until `ending` is set and all
        running requests are answered."""
        ...

    def is_busy(self) -> bool:
        """Return whether a client waits for an answer."""
        ...

    async def serve_streamable(self, scope: Scope, receive: Receive, send: Send, /) -> None: ...

    async def serve_legacy(self, scope: Scope, receive: Receive, send: Send, /) -> None: ...

    async def close(self) -> None: ...


class LazyMcpServer:
    """A transport server that is built on first use.

    `load` imports the SDK in a thread and returns a function that builds the server on the event
    loop. `used` is a file that tells the next daemon to preload.
    """

    def __init__(
        self,
        load: Callable[[], Callable[[], TransportServer]],
        used: Path,
    ) -> None:
        self._load = load
        self._used = used
        self._loading = threading.Lock()
        self._build: Callable[[], TransportServer] | None = None
        self._server: TransportServer | None = None
        self._closed = False

    def preload(self) -> None:
        """Load the SDK in the background if a client has connected to an earlier daemon."""
        if not self._used.exists():
            return

        def load() -> None:
            with contextlib.suppress(Exception):  # the first client gets the error
                self._load_once()

        threading.Thread(target=load, name="mcp", daemon=True).start()

    async def serve_pipe(
        self,
        caller: Caller,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ending: asyncio.Event,
    ) -> None:
        server = await self._open_server()
        await server.serve_pipe(caller, reader, writer, ending)

    def is_busy(self) -> bool:
        """Return whether a client waits for an answer; an idle connection does not count."""
        return self._server is not None and self._server.is_busy()

    async def serve_streamable(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = await self._open_server()
        await server.serve_streamable(scope, receive, send)

    async def serve_legacy(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = await self._open_server()
        await server.serve_legacy(scope, receive, send)

    async def close(self) -> None:
        self._closed = True
        if self._server is not None:
            await self._server.close()

    async def _open_server(self) -> TransportServer:
        if self._server is None:
            build = await asyncio.to_thread(self._load_once)
            if self._closed:
                raise ConnectionResetError("the daemon is stopping")
            if self._server is None:  # another client may have been faster
                self._server = build()
                await asyncio.to_thread(self._remember)
        return self._server

    def _load_once(self) -> Callable[[], TransportServer]:
        with self._loading:
            if self._build is None:
                began = time.monotonic()
                self._build = self._load()
                log.info("mcp.loaded", seconds=round(time.monotonic() - began, 3))
            return self._build

    def _remember(self) -> None:
        with contextlib.suppress(OSError):  # on a full disk, the next daemon does not preload
            os.close(
                os.open(self._used, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            )
