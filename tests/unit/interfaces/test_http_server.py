"""The HTTP server reports its end, unless it was stopped."""

import asyncio

from agent_memory.interfaces import listening
from agent_memory.interfaces.http.asgi import Application, Receive, Scope, Send
from agent_memory.interfaces.http.lazy_app import LazyApp
from agent_memory.interfaces.http.server import HttpServer

SECONDS = 20.0


def nothing() -> Application:
    raise AssertionError("no request here needs the application")


def test_an_end_that_nobody_asked_for_is_told_with_its_reason() -> None:
    async def serve() -> BaseException | None:
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        (broken,) = listening.bind(("127.0.0.1",), 0)
        broken.close()
        server = HttpServer()
        server.start(LazyApp(nothing), [broken], ended.set_result)
        reason = await asyncio.wait_for(ended, SECONDS)
        await server.stop()
        return reason

    assert isinstance(asyncio.run(serve()), (OSError, ValueError))


def test_an_answer_to_a_failure_has_the_policy_too() -> None:
    async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("no luck")

    async def ask(*requests: bytes) -> list[bytes]:
        sockets = listening.bind(("127.0.0.1",), 0)
        server, answers = HttpServer(), []
        server.start(fail, sockets, lambda _reason: None)
        for request in requests:
            reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
            writer.write(request)
            answers.append(await reader.read())
            writer.close()
            await writer.wait_closed()
        await server.stop()
        return answers

    failed, unread = asyncio.run(ask(b"GET / HTTP/1.0\r\n\r\n", b"no request\r\n\r\n"))
    assert failed.startswith(b"HTTP/1.1 500")
    assert unread.startswith(b"HTTP/1.1 400")
    for answer in (failed, unread):
        assert b"\r\ncontent-security-policy: default-src 'self';" in answer


def test_a_stop_is_not() -> None:
    async def serve() -> list[BaseException | None]:
        told: list[BaseException | None] = []
        sockets = listening.bind(("127.0.0.1",), 0)
        server = HttpServer()
        server.start(LazyApp(nothing), sockets, told.append)
        reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
        writer.write(b"GET /health HTTP/1.0\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await writer.wait_closed()
        await server.stop()
        return told

    assert asyncio.run(serve()) == []
