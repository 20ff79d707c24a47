"""The entrance for MCP clients. The SDK takes longer to load than a daemon to start, and as much
memory: it is loaded with the first client, and from then on soon after every start."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Protocol

import structlog

from agent_memory.features.memories.services.project_resolver import Caller

log = structlog.get_logger()

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class TransportServer(Protocol):
    """What serves clients, each over a transport of its own. On the event loop alone."""

    async def serve_pipe(
        self,
        caller: Caller,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ending: asyncio.Event,
        /,
    ) -> None:
        """Messages as lines, until the client ends them; or until `ending`, once what runs is
        answered."""
        ...

    def is_busy(self) -> bool:
        """Whether a client waits for an answer."""
        ...

    async def serve_streamable(self, scope: Scope, receive: Receive, send: Send, /) -> None: ...

    async def serve_legacy(self, scope: Scope, receive: Receive, send: Send, /) -> None: ...

    async def close(self) -> None: ...


class LazyMcpServer:
    """`load` is called in a thread, and what it gives on the event loop. `used` is the file that
    tells the next daemon that clients come here; `give_way` lowers a thread's priority."""

    def __init__(
        self,
        load: Callable[[], Callable[[], TransportServer]],
        used: Path,
        give_way: Callable[[], None],
    ) -> None:
        self._load = load
        self._used = used
        self._give_way = give_way
        self._loading = threading.Lock()
        self._made: Callable[[], TransportServer] | None = None
        self._serving: TransportServer | None = None
        self._closed = False

    def preload(self) -> None:
        """Where clients have come before, be ready for the next one."""
        if not self._used.exists():
            return

        def load() -> None:
            self._give_way()
            with contextlib.suppress(Exception):  # the first client is told
                self._load_once()

        threading.Thread(target=load, name="mcp", daemon=True).start()

    async def serve_pipe(
        self,
        caller: Caller,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ending: asyncio.Event,
    ) -> None:
        serving = await self._open_server()
        await serving.serve_pipe(caller, reader, writer, ending)

    def is_busy(self) -> bool:
        """Whether a client waits for an answer; one that is only connected does not."""
        return self._serving is not None and self._serving.is_busy()

    async def serve_streamable(self, scope: Scope, receive: Receive, send: Send) -> None:
        serving = await self._open_server()
        await serving.serve_streamable(scope, receive, send)

    async def serve_legacy(self, scope: Scope, receive: Receive, send: Send) -> None:
        serving = await self._open_server()
        await serving.serve_legacy(scope, receive, send)

    async def close(self) -> None:
        self._closed = True
        if self._serving is not None:
            await self._serving.close()

    async def _open_server(self) -> TransportServer:
        if self._serving is None:
            made = await asyncio.to_thread(self._load_once)
            if self._closed:
                raise ConnectionResetError("the daemon stops")
            if self._serving is None:  # nobody was quicker
                self._serving = made()
                await asyncio.to_thread(self._remember)
        return self._serving

    def _load_once(self) -> Callable[[], TransportServer]:
        with self._loading:
            if self._made is None:
                began = time.monotonic()
                self._made = self._load()
                log.info("mcp.loaded", seconds=round(time.monotonic() - began, 3))
            return self._made

    def _remember(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: then the next first client waits
            os.close(
                os.open(self._used, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            )
