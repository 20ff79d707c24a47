"""HTTP connections over real sockets: what a client may send, and how long it may take."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import uvloop
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from agent_memory.interfaces import listening
from agent_memory.interfaces.http import connections
from agent_memory.interfaces.http.asgi import Application, Receive, Scope, Send, send_json
from agent_memory.interfaces.http.bodies import BodyLimitMiddleware
from agent_memory.interfaces.http.connections import Bounds
from agent_memory.interfaces.http.refusals import RequestRefused, refuse
from agent_memory.interfaces.http.server import MAX_WS_MESSAGE_BYTES, HttpServer

SECONDS = 20.0
MOST = 1 << 20
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
Address = tuple[str, int]


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the size of the body; over WebSocket, echo."""
    if scope["type"] == "websocket":
        if scope["path"] == "/refused":
            await refuse(RequestRefused(418, "not here"), scope, receive, send, 0)  # type: ignore[arg-type]
            return
        await receive()
        await send({"type": "websocket.accept"})
        if scope["path"] == "/flood":
            with suppress(OSError):  # the client is gone
                for _ in range(2000):
                    await send({"type": "websocket.send", "bytes": b"x" * 65536})
            return
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    if scope["path"] == "/flood":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2000):
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send_json(send, 200, b"%d" % size)


def bounded(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
    scope["state"]["unread"] = None
    return BodyLimitMiddleware(echo, most=MOST)(scope, receive, send)


def admitted(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
    """Mark all connections as authenticated."""
    scope["state"]["caller"] = "owner"
    return bounded(scope, receive, send)


def guarded(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
    shown = any(name == b"authorization" for name, _ in scope["headers"])
    return (admitted if shown else bounded)(scope, receive, send)


def served(
    client: Callable[[Address], Awaitable[None]],
    *,
    application: Application = bounded,
    bounds: Bounds | None = None,
) -> None:
    """Run a server while the client runs."""

    async def serve() -> None:
        sockets = listening.bind(("127.0.0.1",), 0)
        server = HttpServer(bounds=bounds)
        server.start(application, sockets, _unexpected)
        try:
            await asyncio.wait_for(client(sockets[0].getsockname()), SECONDS)
        finally:
            await server.stop()

    uvloop.run(serve())  # as the daemon does


def _unexpected(reason: BaseException | None) -> None:
    raise AssertionError("the server has ended") from reason


async def ask_raw(address: Address, *pieces: bytes) -> bytes:
    """Read until the end of the connection."""
    reader, writer = await asyncio.open_connection(*address)
    found = b""
    try:
        for piece in pieces:
            writer.write(piece)
        while piece := await reader.read(1 << 16):
            found += piece
    except ConnectionError:
        pass  # what came before it counts
    writer.close()
    return found


def test_requests_on_one_connection_are_answered_in_order() -> None:
    async def client(address: Address) -> None:
        body = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"
        found = await ask_raw(
            address,
            *(body % (size, b"x" * size) for size in range(1, 60)),
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        answers = [part.partition(b"\r\n\r\n")[2] for part in found.split(b"HTTP/1.1 200 OK")[1:]]
        assert answers == [b"%d" % size for size in [*range(1, 60), 0]]

    served(client)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 1_000_000, 431),
        (b"GET /" + b"x" * 1_000_000, 431),
        (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 101 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n" + b"X: 1\r\n" * 101 + b"\r\n12345", 431),
        (b"\r\n" * 50_000, 431),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /ws HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n" + UPGRADE + b"\r\nx", 400),
        (b"GET /ws HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 9000 + b"\r\n" + UPGRADE + b"\r\n", 400),
        (b"GET /refused HTTP/1.1\r\nHost: a\r\n" + UPGRADE + b"\r\n", 418),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_too_large_or_no_http_is_told_and_hung_up_on(request_: bytes, status: int) -> None:
    async def client(address: Address) -> None:
        found = await ask_raw(address, request_)
        head, _, body = found.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        assert json.loads(body)["detail"]

    served(client)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 100_000,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;" + b"x" * 1_000_000,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: 1\r\n" * 200_000,
    ],
    ids=["pipelined", "chunk extension", "trailers"],
)
def test_what_has_no_end_ends(request_: bytes) -> None:
    async def client(address: Address) -> None:
        assert len(await ask_raw(address, request_)) < len(request_)

    served(client)


def test_a_body_that_grows_too_large_is_answered_while_it_is_still_sent() -> None:
    async def client(address: Address) -> None:
        piece = b"%x\r\n%s\r\n" % (1 << 16, b"x" * (1 << 16))
        head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        found = await ask_raw(address, head, *[piece] * 100, b"0\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in found
        assert found.count(b"HTTP/1.1") == 1

    served(client)


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost"])
def test_who_does_not_finish_asking_is_not_waited_for(begun: bytes) -> None:
    async def client(address: Address) -> None:
        assert await ask_raw(address, begun) == b""

    served(client, bounds=Bounds(head_seconds=0.05))


def test_nor_is_one_that_has_asked_before() -> None:
    async def client(address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n0")
        writer.write(b"GET / HTTP/1.1\r\nHost")
        assert await reader.read() == b""
        writer.close()

    served(client, bounds=Bounds(head_seconds=0.05))


async def drip(address: Address, head: bytes) -> bytes:
    """Send a body byte by byte until the server hangs up. Return what it said."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(head)
    found = b""

    async def read() -> None:
        nonlocal found
        with suppress(ConnectionError):  # what came before it counts
            while piece := await reader.read(1 << 16):
                found += piece

    reading = asyncio.ensure_future(read())
    while not reading.done():
        writer.write(b"x")
        await asyncio.wait([reading], timeout=0.005)
    writer.close()
    return found


LONG_BODY = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(body_seconds=0.05, connections=30),
        Bounds(body_seconds=0.05, connections=30, body_rate=1, longest_body_seconds=0.1),
    ],
    ids=["too slow", "too long"],
)
def test_slow_bodies_keep_no_places(bounds: Bounds) -> None:
    """All places are taken, by those who have a key: none of them could be taken away."""

    async def client(address: Address) -> None:
        answers = await asyncio.gather(*[drip(address, LONG_BODY) for _ in range(30)])
        assert {answer.partition(b"\r\n")[0] for answer in answers} == {
            b"HTTP/1.1 408 Request Timeout"
        }
        close = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        while not (await ask_raw(address, close)).startswith(b"HTTP/1.1 200 "):
            pass

    served(client, application=admitted, bounds=bounds)


@pytest.mark.parametrize("more", [b"", b"Expect: 100-continue\r\n"], ids=["plain", "expecting"])
def test_a_body_that_nobody_reads_is_not_waited_for(more: bytes) -> None:
    async def early(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send_json(send, 200, b"1")

    async def client(address: Address) -> None:
        head = LONG_BODY.replace(b"Host: a\r\n", b"Host: a\r\n" + more)
        assert (await drip(address, head)).startswith(b"HTTP/1.1 200 ")

    served(client, application=early, bounds=Bounds(body_seconds=0.05))


def test_a_body_that_has_come_fast_gets_more_time() -> None:
    async def client(address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address)
        head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1001\r\n\r\n"
        writer.write(head + b"x" * 1000)
        await asyncio.sleep(0.1)  # longer than a body of nothing has
        writer.write(b"x")
        assert (await reader.read()).endswith(b"\r\n\r\n1001")
        writer.close()

    served(client, bounds=Bounds(body_seconds=0.01, body_rate=10))


def test_a_body_has_all_the_time_that_the_server_takes() -> None:
    begun = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.sleep(0.1)
        await bounded(scope, receive, send)

    async def client(address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address)
        head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\n"
        writer.write(head + b"Content-Length: 5\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"12345")
        assert (await reader.read()).endswith(b"\r\n\r\n5")
        writer.close()

    served(client, application=slow, bounds=Bounds(body_seconds=0.03))


@pytest.mark.parametrize("upgrade", [b"", UPGRADE], ids=["http", "websocket"])
def test_who_reads_nothing_is_cut_off(upgrade: bytes) -> None:
    ended = asyncio.Event()

    async def noticed(scope: Scope, receive: Receive, send: Send) -> None:
        await echo(scope, receive, send)
        ended.set()

    async def client(address: Address) -> None:
        with socket.create_connection(address) as frozen:
            frozen.sendall(b"GET /flood HTTP/1.1\r\nHost: a\r\n" + upgrade + b"\r\n")
            await ended.wait()  # 128 MB are in no buffer: it was told that nobody is there

    served(client, application=noticed, bounds=Bounds(stalled_seconds=0.05))


def test_the_one_too_many_is_told_so_and_room_is_made_again() -> None:
    async def client(address: Address) -> None:
        held = [await asyncio.open_connection(*address) for _ in range(3)]
        for reader, writer in held:  # each is in when it is answered
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n0")
        assert (await ask_raw(address)).startswith(b"HTTP/1.1 503 ")
        for _, writer in held:
            writer.close()
        close = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        while not (await ask_raw(address, close)).startswith(b"HTTP/1.1 200 "):
            pass

    served(client, application=admitted, bounds=Bounds(connections=3))


def test_the_oldest_without_a_key_makes_room_for_a_new_one() -> None:
    async def client(address: Address) -> None:
        ask = b"GET / HTTP/1.1\r\nHost: a\r\n%s\r\n"
        owner = await asyncio.open_connection(*address)
        owner[1].write(ask % b"Authorization: x\r\n")
        await owner[0].readuntil(b"\r\n\r\n0")
        slow = [await asyncio.open_connection(*address) for _ in range(2)]
        for _, writer in slow:
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        for number in range(3):
            found = await ask_raw(address, ask % b"Connection: close\r\n")
            assert found.startswith(b"HTTP/1.1 200 "), (number, found)
        assert await slow[0][0].read() == b""
        owner[1].write(ask % b"")  # no key with this one: it was shown before
        await owner[0].readuntil(b"\r\n\r\n0")
        newer = await asyncio.open_connection(*address)
        newest = await asyncio.open_connection(*address)
        assert await slow[1][0].read() == b""
        owner[1].write(ask % b"")
        await owner[0].readuntil(b"\r\n\r\n0")
        for _, writer in (owner, newer, newest, *slow):
            writer.close()

    served(client, application=guarded, bounds=Bounds(connections=3))


def test_there_is_room_for_as_many_streams_as_the_settings_allow() -> None:
    assert connections.build_bounds(100).connections == 512
    assert connections.build_bounds(1000).connections == 4000


def test_a_websocket_carries_messages_up_to_its_limit() -> None:
    async def client(address: Address) -> None:
        uri = f"ws://127.0.0.1:{address[1]}/ws"
        async with connect(uri, max_size=None, proxy=None) as connected:
            text = "x" * MAX_WS_MESSAGE_BYTES
            await connected.send(text)
            assert await connected.recv() == text
            await connected.send(text + "x")
            with pytest.raises(ConnectionClosed) as closed:
                await connected.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009

    served(client)


def test_websockets_is_loaded_with_the_first_of_them() -> None:
    program = (
        "import sys, agent_memory.daemon as d;"
        "assert 'fastapi' not in sys.modules and 'starlette' not in sys.modules;"
        "assert 'websockets' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=SECONDS)
