"""A desk of MCP over the daemon's real services and store, on an event loop of its own."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mcp.client import Client
from mcp.client._memory import InMemoryTransport
from mcp_types import CallToolResult, ServerNotification, TextContent, TextResourceContents

from agent_memory import config
from agent_memory.bootstrap import root
from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.interfaces.mcp.dependencies import Parts
from agent_memory.interfaces.mcp.errors import ERROR_KEY
from agent_memory.interfaces.mcp.handlers import Desk, Visitor
from tests.git_repositories import Repository
from tests.launching import SECONDS

T = TypeVar("T")

OLDER, MODERN = "legacy", "auto"  # as the client calls them; the present one it finds out
ERAS = (OLDER, MODERN)
ANYONE = Visitor(caller=None)


class Office:
    """Built in its own thread; `run` brings work there, and waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = config.Settings(embedder=config.Embedder(provider="none"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="office")
        self._thread.start()
        self.app = self.run(self._built())
        self.app.scheduler.start()
        self.desk = self.run(self._made(self.parts))

    @property
    def parts(self) -> Parts:
        made = self.app.offered
        environ = {"HOME": str(self.folder / "nobody"), "PATH": "/usr/bin:/bin"}
        return replace(made, environ=environ)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def another(self, parts: Parts) -> Desk:
        """A desk with other parts."""
        return self.run(self._made(parts))

    def close_desk(self, desk: Desk) -> None:
        async def end() -> None:
            desk.close()

        self.run(end())

    def ingest(self, *events: Event) -> None:
        ingest = self.app.services.backfill.ingest
        ingest.submit([ingest.clean(each) for each in events]).result(SECONDS)

    def visit(
        self,
        work: Callable[["Guest"], Awaitable[T]],
        era: str = MODERN,
        visitor: Visitor = ANYONE,
        desk: Desk | None = None,
    ) -> T:
        """Do it as a client of this era."""

        async def visiting() -> T:
            async with guest(desk or self.desk, era, visitor) as entered:
                return await work(entered)

        return self.run(visiting())

    def call(
        self,
        name: str,
        *,
        era: str = MODERN,
        visitor: Visitor = ANYONE,
        desk: Desk | None = None,
        **arguments: Any,
    ) -> dict[str, Any]:
        """What a tool tells."""

        async def calling(guest: "Guest") -> dict[str, Any]:
            return told(await guest.client.call_tool(name, arguments))

        return self.visit(calling, era, visitor, desk)

    def fail(
        self, name: str, *, era: str = MODERN, visitor: Visitor = ANYONE, **arguments: Any
    ) -> tuple[int, str]:
        """With what code and message a tool fails."""

        async def calling(guest: "Guest") -> tuple[int, str]:
            return failed(await guest.client.call_tool(name, arguments))

        return self.visit(calling, era, visitor)

    def close(self) -> None:
        self.close_desk(self.desk)
        self.run(asyncio.to_thread(self.app.close))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _built(self) -> root.App:
        return root.build(self.settings, self.folder / "db", self.folder, self.folder / "config")

    async def _made(self, parts: Parts) -> Desk:
        return Desk(parts)


class Guest:
    """A client, and what it was told without asking."""

    def __init__(self) -> None:
        self.client: Client
        self.noted: asyncio.Queue[ServerNotification] = asyncio.Queue()

    async def hear(self, message: Any) -> None:
        if isinstance(message, ServerNotification):
            await self.noted.put(message)

    async def told_of(self, count: int) -> set[str]:
        """The URIs of so many updates, or `list` for one of the list."""
        found: set[str] = set()
        async with asyncio.timeout(SECONDS):
            while len(found) < count:
                note = await self.noted.get()
                found.add(getattr(note.params, "uri", "list"))
        return found

    async def read(self, uri: str) -> Any:
        (content,) = (await self.client.read_resource(uri, cache_mode="bypass")).contents
        assert isinstance(content, TextResourceContents)
        assert content.mime_type == "application/json"
        return json.loads(content.text)


@asynccontextmanager
async def guest(desk: Desk, era: str, visitor: Visitor) -> AsyncIterator[Guest]:
    """Over streams, as on stdio."""
    entered = Guest()
    transport = InMemoryTransport(desk.server(lambda _: visitor))
    async with Client(transport, mode=era, message_handler=entered.hear) as client:
        entered.client = client
        yield entered


def at(repository: Repository) -> Visitor:
    """Who works in this folder."""
    caller = Caller(folder=str(repository.folder), environ=repository.environ)
    return Visitor(caller=caller)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def told(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text_of(result)
    found: dict[str, Any] = result.structured_content
    return found


def failed(result: CallToolResult) -> tuple[int, str]:
    assert result.is_error
    assert result.structured_content is None
    error = (result.meta or {})[ERROR_KEY]
    assert f"Error {error['code']} ({error['name']}): {error['message']}" == text_of(result)
    return error["code"], error["message"]
