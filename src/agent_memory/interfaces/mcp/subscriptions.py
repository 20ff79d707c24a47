"""Subscriptions: notify clients of changed resources, in the old and the new protocol.

Since version 2026-07-28, a client listens on a stream of its own, to URIs that must match exactly.
Before, it subscribes on its connection, and is notified of list changes without subscribing. One
follower of the change feed serves both, and exists only while there are clients.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import structlog
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp_types import (
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import SCHEME, Memory
from agent_memory.features.memories.ports import MemoryFeed, MemoryFollower
from agent_memory.interfaces import feed_follower
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.mcp import errors, uris
from agent_memory.interfaces.mcp.request_context import RequestContext
from agent_memory.interfaces.mcp.resources import MAX_URI_CHARS
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput, Overloaded, StorageClosed
from agent_memory.kernel.ids import PROJECT

MAX_URIS = 1_000  # of one client
MAX_STREAMS = 500
PAUSE = 0.2  # seconds between notifications: clients read everything again each time
RETRY_SECONDS = 5.0
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)

Context = ServerRequestContext[Any, Any]

log = structlog.get_logger()


class _Client:
    """A connection of the old protocol.

    A URI waits here at most once: a notification only says that the resource has changed.
    """

    def __init__(self, session: ServerSession) -> None:
        self.subscribed: dict[str, str] = {}  # normalized URIs, and as the client wrote them
        self._session = session
        self._changed: dict[str, None] = {}
        self._list_changed = False
        self._woken = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def notify(self, changed: AbstractSet[str]) -> None:
        self._list_changed = True
        self._changed |= dict.fromkeys(
            self.subscribed[uri] for uri in changed & self.subscribed.keys()
        )
        self._woken.set()

    def notify_all(self) -> None:
        self._list_changed = True
        self._changed |= dict.fromkeys(self.subscribed.values())
        self._woken.set()

    def end(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        with suppress(*_GONE):
            while True:
                await self._woken.wait()
                self._woken.clear()
                while self._changed:
                    uri = next(iter(self._changed))
                    del self._changed[uri]
                    await self._session.send_resource_updated(uri)
                if self._list_changed:
                    self._list_changed = False
                    await self._session.send_resource_list_changed()
                await asyncio.sleep(PAUSE)


class Subscriptions:
    """All subscriptions of clients, used on one event loop."""

    def __init__(self, feed: MemoryFeed, bridge: Bridge) -> None:
        self._open_feed = feed
        self._bridge = bridge
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus, max_subscriptions=MAX_STREAMS)
        self._clients: dict[int, _Client] = {}
        self._present = 0  # clients and streams
        self._beginning = asyncio.Lock()
        self._woken = asyncio.Event()
        self._follower: MemoryFollower | None = None
        self._feed: asyncio.Task[None] | None = None

    async def listen(
        self, ctx: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve a stream of the new protocol until its client leaves."""
        listened = params.notifications.resource_subscriptions or ()
        if len(listened) > MAX_URIS or any(len(uri) > MAX_URI_CHARS for uri in listened):
            raise errors.to_protocol_error(
                InvalidInput(
                    f"listen to at most {MAX_URIS:,} URIs of at most {MAX_URI_CHARS:,} characters"
                )
            )
        try:
            async with self._hold_feed():
                return await self._streams(ctx, params)
        except AgentMemoryError as exc:
            raise errors.to_protocol_error(exc) from exc

    async def register_on_initialize(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Register a client of the old protocol on `initialize`. As middleware, this happens before
        the client has its answer, so it misses no change that it causes afterwards."""
        result = await call_next(ctx)
        if ctx.method == "initialize":
            with suppress(StorageClosed):
                await self._register_client(ctx)
        return result

    def subscribe(self, ctx: Context, params: SubscribeRequestParams, uri: str) -> EmptyResult:
        """Subscribe a client; `uri` is the normalized URI."""
        client = self._clients.get(id(_connection(ctx)))
        if client is None:
            raise errors.to_protocol_error(
                InvalidInput("this connection cannot receive notifications")
            )
        if len(client.subscribed) >= MAX_URIS:
            raise errors.to_protocol_error(
                Overloaded(f"{MAX_URIS:,} URIs are subscribed to, the limit: unsubscribe from one")
            )
        client.subscribed[uri] = params.uri
        return EmptyResult()

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """Unsubscribe a client. A URI without a subscription is no error."""
        client = self._clients.get(id(_connection(ctx)))
        if client is not None:
            client.subscribed = {
                uri: written for uri, written in client.subscribed.items() if written != params.uri
            }
        return EmptyResult()

    def close(self) -> None:
        """End all streams."""
        self._streams.close()
        for client in self._clients.values():
            client.end()
        self._stop()

    async def _register_client(self, ctx: Context) -> None:
        connection = _connection(ctx)
        if id(connection) in self._clients:
            return
        await self._acquire_feed()
        self._clients[id(connection)] = _Client(ctx.session)
        connection.exit_stack.callback(self._remove_client, id(connection))

    def _remove_client(self, name: int) -> None:
        client = self._clients.pop(name, None)
        if client is not None:
            client.end()
            self._release_feed()

    @asynccontextmanager
    async def _hold_feed(self) -> AsyncIterator[None]:
        await self._acquire_feed()
        try:
            yield
        finally:
            self._release_feed()

    async def _acquire_feed(self) -> None:
        """Start the feed if it is not running, and keep it running. Raises StorageClosed."""
        async with self._beginning:
            if self._follower is None:
                self._follower = await self._follow()
                self._feed = asyncio.create_task(self._run_feed())
            self._present += 1

    def _release_feed(self) -> None:
        self._present -= 1
        if not self._present:
            self._stop()

    def _stop(self) -> None:
        if self._feed is not None:
            self._feed.cancel()
            self._feed = None
        if self._follower is not None:
            self._follower.leave()
            self._follower = None

    async def _follow(self) -> MemoryFollower:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(self._woken.set)

        return await feed_follower.follow(
            self._bridge, lambda: self._open_feed(wake), lambda follower: follower.leave()
        )

    async def _run_feed(self) -> None:
        while self._follower is not None:
            await self._woken.wait()
            self._woken.clear()
            follower = self._follower
            if changed := follower.take():
                await self._publish(changed)
            if follower.dropped and not await self._follow_again():
                return

    async def _follow_again(self) -> bool:
        """Follow again after a gap: old clients read everything again, new ones listen again.

        Return False if the daemon is stopping.
        """
        self._follower = None
        while self._follower is None:
            try:
                self._follower = await self._follow()
            except StorageClosed:
                break  # the daemon is stopping
            except AgentMemoryError as exc:
                log.warning("mcp.cannot_follow", error=str(exc))
                await asyncio.sleep(RETRY_SECONDS)
        self._streams.close()
        for client in self._clients.values():
            client.notify_all()
        return self._follower is not None

    async def _publish(self, changed: Sequence[Memory]) -> None:
        touched = dict.fromkeys(uri for memory in changed for uri in uris.list_affected(memory))
        for client in self._clients.values():
            client.notify(touched.keys())
        for uri in touched:
            await self._bus.publish(ResourceUpdated(uri))
        await self._bus.publish(ResourcesListChanged())


def _connection(ctx: Context) -> Connection:
    """Return the connection of a request. The SDK has no public way to it, and `ctx.session` is
    made anew for each request."""
    return ctx.session._connection  # noqa: SLF001


def resolve_uri(request: RequestContext, uri: str) -> str:
    """Normalize the URI of a subscription. Raises InvalidInput."""
    plain = uris.to_plain(uri).rstrip("/")
    if len(uri) > MAX_URI_CHARS or not plain.startswith(SCHEME):
        raise InvalidInput(
            f"subscribe to a memory, namespace or domain: a URI that begins with {SCHEME}, of at"
            f" most {MAX_URI_CHARS:,} characters"
        )
    if memories.parse_area(plain).domain == PROJECT and request.list_nearby() is not None:
        return plain.replace(f"{SCHEME}{PROJECT}", f"{SCHEME}{request.resolve_domain(PROJECT)}", 1)
    return plain
