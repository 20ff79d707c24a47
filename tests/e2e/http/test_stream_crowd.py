"""As many clients as may connect, one of each kind frozen: the others receive everything."""

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from tests.command_runner import SECONDS, Home
from tests.streaming import ServedDaemon, ask_async, parse_stream_async

CROWD = 100
ROUNDS = 5
SESSION = "crowd"
HEAVY = "heavy"  # what only those who are frozen are told: more than any buffer on the way holds
MEGABYTE = "x" * 1_000_000


@pytest.fixture
def served() -> Iterator[ServedDaemon]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with Home() as home:
        yield ServedDaemon(home)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_hundred_of_each_are_told_each_change_though_one_is_frozen(served: ServedDaemon) -> None:
    asyncio.run(_crowded(served))


async def _crowded(served: ServedDaemon) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(SECONDS):
        http = await stack.enter_async_context(served.http_async())
        await _freeze_stream(stack, served)
        await _freeze_socket(stack, served)
        sockets = await asyncio.gather(*(_subscribed(stack, served) for _ in range(CROWD - 1)))
        streams = await asyncio.gather(*(_followed(stack, http) for _ in range(CROWD - 1)))

        refused = await http.get("/stream/events")
        assert refused.status_code == 503
        with pytest.raises(InvalidStatus) as denied:
            await served.socket_async()
        assert denied.value.response.status_code == 503

        await asyncio.to_thread(served.ingest, HEAVY, *(f"h{n}" for n in range(8)), text=MEGABYTE)
        for number in range(ROUNDS):
            await asyncio.to_thread(served.ingest, SESSION, f"e{number}")
            uri = await asyncio.to_thread(served.capture, f"Bake number {number}")
            changes = await asyncio.gather(*(_change(each) for each in sockets))
            events = await asyncio.gather(*(anext(each) for each in streams))
            assert set(changes) == {uri}
            assert set(events) == {f"e{number}"}


async def _freeze_stream(stack: AsyncExitStack, served: ServedDaemon) -> None:
    """Ask for the stream, and never read it."""
    _, writer = await asyncio.open_connection(sock=_narrow(served), limit=1024)
    lines = (
        f"GET /stream/events?session_id={HEAVY} HTTP/1.1",
        f"Host: {served.address}",
        f"Authorization: Bearer {served.key}",
    )
    writer.write("\r\n".join((*lines, "", "")).encode())
    await writer.drain()
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of a socket has it
    stack.callback(writer.close)


async def _freeze_socket(stack: AsyncExitStack, served: ServedDaemon) -> None:
    ws = await stack.enter_async_context(served.socket_async(sock=_narrow(served)))
    heavy = {"session_id": HEAVY}
    assert (await ask_async(ws, operation="subscribe", events=heavy))["type"] == "subscribed"
    ws.transport.pause_reading()
    stack.callback(ws.transport.abort)


async def _subscribed(stack: AsyncExitStack, served: ServedDaemon) -> ClientConnection:
    ws = await stack.enter_async_context(served.socket_async())
    assert (await ask_async(ws, operation="subscribe", uri="project"))["type"] == "subscribed"
    return ws


async def _followed(stack: AsyncExitStack, http: httpx.AsyncClient) -> AsyncIterator[str]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncIterator[str]]:
        async with http.stream("GET", f"/stream/events?session_id={SESSION}") as response:
            events = parse_stream_async(response.aiter_lines())
            assert (await anext(events)).event == "start"
            yield (each.data["event_id"] async for each in events if each.event == "event")

    return await stack.enter_async_context(opened())


async def _change(ws: ClientConnection) -> str:
    uri: str = json.loads(await ws.recv())["uri"]
    return uri


def _narrow(served: ServedDaemon) -> socket.socket:
    """Return a connection with small buffers."""
    host, _, port = served.address.partition(":")
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.connect((host, int(port)))
    narrow.setblocking(False)
    return narrow
