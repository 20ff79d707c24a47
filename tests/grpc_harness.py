"""The gRPC server in a thread of the test, with methods that a test gives it, and a bare HTTP/2
client for what no gRPC client would send."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import uvloop
from jh2.config import H2Configuration
from jh2.connection import H2Connection
from jh2.events import ConnectionTerminated, DataReceived, StreamEnded

from agent_memory.interfaces.grpc.calls import CallHead, Method, ReadRequest, UnaryMethod
from agent_memory.interfaces.grpc.connection import ServedCalls
from agent_memory.interfaces.grpc.http2 import Http2
from agent_memory.interfaces.grpc.server import GrpcServer
from tests.grpc_floods import OPENING

SERVICE = "test.Service"
SECONDS = 30.0


def unary(answer: Callable[[bytes, CallHead], Awaitable[bytes]]) -> UnaryMethod:
    """Return a method that admits every caller."""

    async def read_and_answer(read: ReadRequest, head: CallHead) -> bytes:
        return await answer(await read(), head)

    return UnaryMethod(read_and_answer)


@dataclass
class RunningServer:
    server: GrpcServer
    loop: asyncio.AbstractEventLoop
    errors: list[str] = field(default_factory=list)  # that reached the event loop

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    @property
    def calls(self) -> ServedCalls:
        return self.server.calls

    def run(self, work: Any, seconds: float = SECONDS) -> Any:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)


@contextmanager
def serving(methods: Mapping[str, Method], *, path: Path | None = None) -> Iterator[RunningServer]:
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> GrpcServer:
        paths = {f"/{SERVICE}/{name}".encode(): method for name, method in methods.items()}
        server = GrpcServer(paths)
        server.listen(["127.0.0.1"], 0)
        if path is not None:
            server.listen_on_socket(path)
        await server.start()
        return server

    try:
        running = RunningServer(
            asyncio.run_coroutine_threadsafe(start(), loop).result(SECONDS), loop
        )
        loop.set_exception_handler(lambda _, context: running.errors.append(repr(context)))
        yield running
        running.run(running.server.stop(0))
        assert running.errors == []
        assert (running.calls.running, running.calls.held) == (0, 0)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


class _Http2Client(H2Connection):  # type: ignore[misc]  # has no types
    # After the server's goodbye the library would read no answers that are still to come.
    _receive_goaway_frame = Http2._receive_goaway_frame  # noqa: SLF001


class BareClient:
    """Speaks HTTP/2 over a socket, without knowing gRPC."""

    def __init__(self, port: int, *, settings: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), SECONDS)
        self.http2 = _Http2Client(
            H2Configuration(validate_outbound_headers=False, validate_inbound_headers=False)
        )
        self.http2.initiate_connection()
        self.events: list[Any] = []
        if settings:
            self.flush()
        else:
            self.http2.clear_outbound_data_buffer()
            self.socket.sendall(OPENING)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def flush(self) -> None:
        self.socket.sendall(self.http2.data_to_send())

    def begin(
        self, method: str, headers: Mapping[str, str] | None = None, *, end: bool = False
    ) -> int:
        """Open a stream to a method of the test service. Headers replace the usual ones."""
        stream_id = self._open(method, headers, end=end)
        self.flush()
        return stream_id

    def _open(self, method: str, headers: Mapping[str, str] | None, *, end: bool) -> int:
        usual = {
            ":method": "POST", ":scheme": "http", ":authority": "localhost",
            ":path": f"/{SERVICE}/{method}", "content-type": "application/grpc", "te": "trailers",
        }  # fmt: skip
        stream_id: int = self.http2.get_next_available_stream_id()
        self.http2.send_headers(
            stream_id, list({**usual, **(headers or {})}.items()), end_stream=end
        )
        self.flush()
        return stream_id

    def add(self, method: str, body: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Prepare a whole call, to be sent with the next `flush`."""
        stream_id = self._open(method, headers, end=False)
        self.http2.send_data(stream_id, body, end_stream=True)
        return stream_id

    def count_data(self, stream_id: int) -> int:
        return sum(
            len(event.data)
            for event in self.events
            if isinstance(event, DataReceived) and event.stream_id == stream_id
        )

    def send(self, stream_id: int, data: bytes, *, end: bool = False) -> None:
        self.http2.send_data(stream_id, data, end_stream=end)
        self.flush()

    def receive(self) -> bool:
        """Read once. Return whether the connection is still open."""
        data = self.socket.recv(1 << 16)
        if data:
            self.events += self.http2.receive_data(data)
        return bool(data)

    def wait_for(self, kind: type, stream_id: int | None = None) -> Any:
        while True:
            for event in self.events:
                if isinstance(event, kind) and getattr(event, "stream_id", stream_id) == stream_id:
                    return event
            assert self.receive(), f"closed, with {self.events}"

    def read_headers(self, stream_id: int) -> dict[str, str]:
        """Wait for the end of a stream; return its headers and trailers."""
        self.wait_for(StreamEnded, stream_id)
        return {
            name.decode(): value.decode()
            for event in self.events
            if getattr(event, "stream_id", None) == stream_id
            for name, value in getattr(event, "headers", None) or ()
        }

    def wait_for_end(self) -> ConnectionTerminated | None:
        """Read until the server closes; return its farewell."""
        try:
            while self.receive():
                pass
        except ConnectionError:
            pass
        return next((each for each in self.events if isinstance(each, ConnectionTerminated)), None)
