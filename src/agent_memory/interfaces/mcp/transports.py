"""The transports of MCP: stdio through the launcher, Streamable HTTP, and the older HTTP+SSE."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from agent_memory.interfaces.mcp.lazy_server import Receive, Scope, Send
from agent_memory.interfaces.mcp.stdio_lines import LineReader, LineWriter, PendingRequests
from agent_memory.kernel.callers import Caller

MAX_SESSIONS = 256
IDLE_SECONDS = 5 * 60
ANSWER_SECONDS = 1.0
SSE, MESSAGES = "/sse", "/messages/"
PROJECT = "project"
MAX_PROJECT_CHARS = 256


class ServerFactory(Protocol):
    """Builds the server of a connection: `handlers.McpServerFactory`."""

    def build_server(
        self, find_caller: Callable[[ServerRequestContext[Any, Any]], Caller], /
    ) -> Server[Any]: ...

    def close(self) -> None: ...


class McpTransportServer:
    """Serves all transports. The gate has checked the key of HTTP clients; at most `most_streams`
    SSE streams may be open."""

    def __init__(self, servers: ServerFactory, *, max_body_bytes: int, most_streams: int) -> None:
        self._servers = servers
        self._sessions = StreamableHTTPSessionManager(
            app=servers.build_server(_find_caller),
            max_request_body_size=max_body_bytes,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MAX_SESSIONS,
        )
        self._sse = SseServerTransport(MESSAGES, max_request_body_size=max_body_bytes)
        self._streams: set[anyio.CancelScope] = set()
        self._most_streams = most_streams
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[None] | None = None
        self._managing: asyncio.Task[None] | None = None
        self._pipes: set[PendingRequests] = set()
        self._posts = 0
        self._answered = asyncio.Event()
        self._answered.set()

    async def serve_pipe(
        self,
        caller: Caller,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ending: asyncio.Event,
        /,
    ) -> None:
        server = self._servers.build_server(lambda _ctx: caller)
        running = PendingRequests()
        answers = LineWriter(writer, running)
        requests = LineReader(reader, answers, running, ending)
        self._pipes.add(running)
        try:
            await server.run(requests, answers, server.create_initialization_options())
        finally:
            self._pipes.discard(running)

    def is_busy(self) -> bool:
        return bool(self._posts) or not all(pipe.is_quiet() for pipe in self._pipes)

    async def serve_streamable(self, scope: Scope, receive: Receive, send: Send, /) -> None:
        if scope["type"] != "http":
            return
        scope["route"] = scope["path"]  # for metrics
        await self._ready()
        if scope["method"] != "POST":
            await self._sessions.handle_request(scope, receive, send)
            return
        self._posts += 1
        self._answered.clear()
        try:
            await self._sessions.handle_request(scope, receive, send)
        finally:
            self._posts -= 1
            if not self._posts:
                self._answered.set()

    async def serve_legacy(self, scope: Scope, receive: Receive, send: Send, /) -> None:
        """Serve `GET /sse` and the messages posted to `/messages/`."""
        if scope["type"] != "http":
            return
        scope["route"] = scope["path"]
        if scope["path"] != SSE:
            await self._sse.handle_post_message(scope, receive, send)
        elif scope["method"] != "GET":
            await PlainTextResponse("use GET", 405, {"Allow": "GET"})(scope, receive, send)
        elif len(self._streams) >= self._most_streams or self._closing.is_set():
            refusal = PlainTextResponse(
                "too many streams are open: try again later", 503, {"Retry-After": "5"}
            )
            await refusal(scope, receive, send)
        else:
            await self._stream(scope, receive, send)

    async def close(self) -> None:
        """End all streams. Answer pending requests first if that takes at most a second."""
        self._servers.close()
        self._closing.set()
        for stream in list(self._streams):
            stream.cancel()
        if self._managing is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._answered.wait(), ANSWER_SECONDS)
            self._managing.cancel()
            await asyncio.wait((self._managing,))

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = _build_caller(Request(scope))
        server = self._servers.build_server(lambda _ctx: caller)
        conversation = anyio.CancelScope()
        self._streams.add(conversation)
        try:
            async with self._sse.connect_sse(scope, receive, send) as (requests, answers):
                with conversation:
                    await server.run(requests, answers, server.create_initialization_options())
        finally:
            self._streams.discard(conversation)

    async def _ready(self) -> None:
        """Start the session manager in a task of its own: it outlives the first request."""
        if self._managing is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._managing = asyncio.create_task(self._manage(self._opened))
        assert self._opened is not None  # noqa: S101
        await asyncio.shield(self._opened)

    async def _manage(self, opened: asyncio.Future[None]) -> None:
        async with self._sessions.run():
            opened.set_result(None)
            await anyio.sleep_forever()


def _find_caller(ctx: ServerRequestContext[Any, Any]) -> Caller:
    return _build_caller(ctx.request if isinstance(ctx.request, Request) else None)


def _build_caller(request: Request | None) -> Caller:
    """Return the client of an HTTP request, which has no folder and may name its project."""
    name = "" if request is None else request.query_params.get(PROJECT, "")[:MAX_PROJECT_CHARS]
    project = name.removeprefix(f"{PROJECT}:")  # the spelling of a domain
    return Caller(folder="", environ={}, project=project)
