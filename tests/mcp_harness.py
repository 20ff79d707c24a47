"""MCP servers over the daemon's real services and store, on an event loop of their own."""

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
from agent_memory.bootstrap.core import build_core
from agent_memory.features.hooks.services.backfill import Backfill
from agent_memory.features.log.model.events import Event
from agent_memory.interfaces.mcp.dependencies import McpDependencies
from agent_memory.interfaces.mcp.errors import ERROR_KEY
from agent_memory.interfaces.mcp.handlers import McpServerFactory
from agent_memory.kernel.callers import Caller
from tests.command_runner import SECONDS
from tests.git_repositories import Repository

T = TypeVar("T")

OLDER, MODERN = "legacy", "auto"  # the modes of the SDK's client
ERAS = (OLDER, MODERN)
ANYONE = Caller(folder="", environ={})


class McpHarness:
    """Runs the servers in a thread of its own; `run` runs a coroutine there and waits for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = config.Settings(embedder=config.EmbedderSettings(provider="none"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp-harness")
        self._thread.start()
        self.app = self.run(self._build_app())
        self.app.scheduler.start()
        self.factory = self.run(self._build_factory(self.dependencies))

    @property
    def dependencies(self) -> McpDependencies:
        environ = {"HOME": str(self.folder / "nobody"), "PATH": "/usr/bin:/bin"}
        return replace(self.app.mcp_dependencies, environ=environ)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def build_factory(self, dependencies: McpDependencies) -> McpServerFactory:
        return self.run(self._build_factory(dependencies))

    def close_factory(self, factory: McpServerFactory) -> None:
        async def end() -> None:
            factory.close()

        self.run(end())

    def ingest(self, *events: Event) -> None:
        ingest = self.app.services[Backfill].ingest
        ingest.submit([ingest.clean(event) for event in events]).result(SECONDS)

    def run_client(
        self,
        work: Callable[["HarnessClient"], Awaitable[T]],
        era: str = MODERN,
        origin: Caller = ANYONE,
        factory: McpServerFactory | None = None,
    ) -> T:
        """Run `work` with a client of this protocol version."""

        async def connect() -> T:
            async with connect_client(factory or self.factory, era, origin) as guest:
                return await work(guest)

        return self.run(connect())

    def call(
        self,
        name: str,
        *,
        era: str = MODERN,
        origin: Caller = ANYONE,
        factory: McpServerFactory | None = None,
        **arguments: Any,
    ) -> dict[str, Any]:
        """Call a tool and return its structured content."""

        async def calling(guest: "HarnessClient") -> dict[str, Any]:
            return parse_result(await guest.client.call_tool(name, arguments))

        return self.run_client(calling, era, origin, factory)

    def fail(
        self, name: str, *, era: str = MODERN, origin: Caller = ANYONE, **arguments: Any
    ) -> tuple[int, str]:
        """Call a tool that fails and return the code and the message."""

        async def calling(guest: "HarnessClient") -> tuple[int, str]:
            return parse_failure(await guest.client.call_tool(name, arguments))

        return self.run_client(calling, era, origin)

    def close(self) -> None:
        self.close_factory(self.factory)
        self.run(asyncio.to_thread(self.app.close))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _build_app(self) -> root.App:
        return root.build(
            build_core(self.settings, self.folder / "db", self.folder, self.folder / "config")
        )

    async def _build_factory(self, dependencies: McpDependencies) -> McpServerFactory:
        return McpServerFactory(dependencies)


class HarnessClient:
    """A client and the notifications it has received."""

    def __init__(self) -> None:
        self.client: Client
        self.notifications: asyncio.Queue[ServerNotification] = asyncio.Queue()

    async def on_message(self, message: Any) -> None:
        if isinstance(message, ServerNotification):
            await self.notifications.put(message)

    async def wait_for_updates(self, count: int) -> set[str]:
        """Wait for `count` updates and return their URIs; `list` stands for the list."""
        updated: set[str] = set()
        async with asyncio.timeout(SECONDS):
            while len(updated) < count:
                notification = await self.notifications.get()
                updated.add(getattr(notification.params, "uri", "list"))
        return updated

    async def read(self, uri: str) -> Any:
        (content,) = (await self.client.read_resource(uri, cache_mode="bypass")).contents
        assert isinstance(content, TextResourceContents)
        assert content.mime_type == "application/json"
        return json.loads(content.text)


@asynccontextmanager
async def connect_client(
    factory: McpServerFactory, era: str, origin: Caller
) -> AsyncIterator[HarnessClient]:
    """Connect over in-memory streams, as on stdio."""
    guest = HarnessClient()
    transport = InMemoryTransport(factory.build_server(lambda _: origin))
    async with Client(transport, mode=era, message_handler=guest.on_message) as client:
        guest.client = client
        yield guest


def context_at(repository: Repository) -> Caller:
    """Return the origin of a client in this folder."""
    return Caller(folder=str(repository.folder), environ=repository.environ)


def get_text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def parse_result(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, get_text(result)
    content: dict[str, Any] = result.structured_content
    return content


def parse_failure(result: CallToolResult) -> tuple[int, str]:
    assert result.is_error
    assert result.structured_content is None
    error = (result.meta or {})[ERROR_KEY]
    assert f"Error {error['code']} ({error['name']}): {error['message']}" == get_text(result)
    return error["code"], error["message"]
