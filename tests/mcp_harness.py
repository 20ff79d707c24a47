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
from agent_memory.interfaces.mcp.dependencies import McpDependencies
from agent_memory.interfaces.mcp.errors import ERROR_KEY
from agent_memory.interfaces.mcp.handlers import ClientOrigin, McpServerFactory
from tests.git_repositories import Repository
from tests.launching import SECONDS

T = TypeVar("T")

OLDER, MODERN = "legacy", "auto"  # as the client calls them; the present one it finds out
ERAS = (OLDER, MODERN)
ANYONE = ClientOrigin(caller=None)


class McpHarness:
    """Built in its own thread; `run` brings work there, and waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = config.Settings(embedder=config.EmbedderSettings(provider="none"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="office")
        self._thread.start()
        self.app = self.run(self._build_app())
        self.app.scheduler.start()
        self.factory = self.run(self._build_factory(self.parts))

    @property
    def parts(self) -> McpDependencies:
        made = self.app.mcp_dependencies
        environ = {"HOME": str(self.folder / "nobody"), "PATH": "/usr/bin:/bin"}
        return replace(made, environ=environ)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def build_factory(self, parts: McpDependencies) -> McpServerFactory:
        """A desk with other parts."""
        return self.run(self._build_factory(parts))

    def close_factory(self, desk: McpServerFactory) -> None:
        async def end() -> None:
            desk.close()

        self.run(end())

    def ingest(self, *events: Event) -> None:
        ingest = self.app.services.backfill.ingest
        ingest.submit([ingest.clean(each) for each in events]).result(SECONDS)

    def run_client(
        self,
        work: Callable[["HarnessClient"], Awaitable[T]],
        era: str = MODERN,
        visitor: ClientOrigin = ANYONE,
        desk: McpServerFactory | None = None,
    ) -> T:
        """Do it as a client of this era."""

        async def visiting() -> T:
            async with connect_client(desk or self.factory, era, visitor) as entered:
                return await work(entered)

        return self.run(visiting())

    def call(
        self,
        name: str,
        *,
        era: str = MODERN,
        visitor: ClientOrigin = ANYONE,
        desk: McpServerFactory | None = None,
        **arguments: Any,
    ) -> dict[str, Any]:
        """What a tool tells."""

        async def calling(guest: "HarnessClient") -> dict[str, Any]:
            return parse_result(await guest.client.call_tool(name, arguments))

        return self.run_client(calling, era, visitor, desk)

    def fail(
        self, name: str, *, era: str = MODERN, visitor: ClientOrigin = ANYONE, **arguments: Any
    ) -> tuple[int, str]:
        """With what code and message a tool fails."""

        async def calling(guest: "HarnessClient") -> tuple[int, str]:
            return parse_failure(await guest.client.call_tool(name, arguments))

        return self.run_client(calling, era, visitor)

    def close(self) -> None:
        self.close_factory(self.factory)
        self.run(asyncio.to_thread(self.app.close))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _build_app(self) -> root.App:
        return root.build(self.settings, self.folder / "db", self.folder, self.folder / "config")

    async def _build_factory(self, parts: McpDependencies) -> McpServerFactory:
        return McpServerFactory(parts)


class HarnessClient:
    """A client, and what it was told without asking."""

    def __init__(self) -> None:
        self.client: Client
        self.noted: asyncio.Queue[ServerNotification] = asyncio.Queue()

    async def on_message(self, message: Any) -> None:
        if isinstance(message, ServerNotification):
            await self.noted.put(message)

    async def wait_for_updates(self, count: int) -> set[str]:
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
async def connect_client(
    desk: McpServerFactory, era: str, visitor: ClientOrigin
) -> AsyncIterator[HarnessClient]:
    """Over streams, as on stdio."""
    entered = HarnessClient()
    transport = InMemoryTransport(desk.build_server(lambda _: visitor))
    async with Client(transport, mode=era, message_handler=entered.on_message) as client:
        entered.client = client
        yield entered


def context_at(repository: Repository) -> ClientOrigin:
    """Who works in this folder."""
    caller = Caller(folder=str(repository.folder), environ=repository.environ)
    return ClientOrigin(caller=caller)


def get_text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def parse_result(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, get_text(result)
    found: dict[str, Any] = result.structured_content
    return found


def parse_failure(result: CallToolResult) -> tuple[int, str]:
    assert result.is_error
    assert result.structured_content is None
    error = (result.meta or {})[ERROR_KEY]
    assert f"Error {error['code']} ({error['name']}): {error['message']}" == get_text(result)
    return error["code"], error["message"]
