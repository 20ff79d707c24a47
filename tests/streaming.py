"""Clients of a real daemon's streams: httpx for SSE, websockets for WebSocket."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.sync.client import ClientConnection as SyncConnection
from websockets.sync.client import connect as connect_sync

from tests.command_runner import SECONDS, Home, Running
from tests.memory_client import Client, message

COMMENT = ":"


class ServerEvent(NamedTuple):
    """One server-sent event. A comment has the event `:`."""

    event: str
    data: Any
    token: str


class ServedDaemon:
    """A daemon with its addresses and key."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.start()

    def start(self) -> None:
        """Start the daemon, or start it again on the same data."""
        home = self.home
        home.serve()
        status = home.status()
        self.address = f"127.0.0.1:{status['http_port']}"
        self.key = (home.data / "key").read_text().strip()
        self.headers = {"Authorization": f"Bearer {self.key}"}
        self.grpc_port = status["grpc_port"]

    @property
    def base(self) -> str:
        return f"http://{self.address}"

    def ingest(self, session: str, *names: str, text: str = "x", **metadata: str) -> None:
        with Client(f"127.0.0.1:{self.grpc_port}") as client:
            for name in names:
                event = message(name, 1_700_000_000_000, session_id=session, text=text)
                event.metadata.update(metadata)
                assert client.ingest(event).created

    def capture(self, summary: str, *words: str, namespace: str = "decisions") -> str:
        """Capture a memory and return its URI."""
        answer = self.home.run("memory", "capture", namespace, summary, "--format", "json", *words)
        uri: str = answer.json()["uri"]
        return uri

    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.base, headers=self.headers, timeout=SECONDS)

    def http_async(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None)
        return httpx.AsyncClient(
            base_url=self.base, headers=self.headers, timeout=SECONDS, limits=limits
        )

    def socket(self, path: str = "/ws", *, address: str = "", **options: Any) -> SyncConnection:
        connected: SyncConnection = connect_sync(
            f"ws://{address or self.address}{path}", additional_headers=self.headers, **options
        )
        return connected

    def socket_async(self, **options: Any) -> connect:
        return connect(f"ws://{self.address}/ws", additional_headers=self.headers, **options)

    @contextmanager
    def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> Iterator[Iterator[ServerEvent]]:
        with (
            self.http() as http,
            http.stream(method, path, headers=dict(headers or {}), **options) as response,
        ):
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield parse_stream(response.iter_lines())

    def post(self, path: str, **body: Any) -> list[ServerEvent]:
        """Return all events of an operation, without comments."""
        with self.stream("POST", path, json=body) as events:
            return [event for event in events if event.event != COMMENT]


def parse_stream(lines: Iterator[str]) -> Iterator[ServerEvent]:
    parser = _Parser()
    for line in lines:
        if (event := parser.parse_line(line)) is not None:
            yield event


async def parse_stream_async(lines: AsyncIterator[str]) -> AsyncIterator[ServerEvent]:
    parser = _Parser()
    async for line in lines:
        if (event := parser.parse_line(line)) is not None:
            yield event


class _Parser:
    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def parse_line(self, line: str) -> ServerEvent | None:
        if line.startswith(COMMENT):
            return ServerEvent(COMMENT, line[1:].strip(), "")
        if line:
            name, _, value = line.partition(": ")
            self._fields[name] = value
            return None
        fields, self._fields = self._fields, {}
        if "event" not in fields:
            return None
        return ServerEvent(fields["event"], json.loads(fields["data"]), fields.get("id", ""))


@contextmanager
def start_serve(home: Home, transport: str, *words: str) -> Iterator[tuple[Running, str]]:
    """Run `memory serve` on a free port, and yield the command and its address."""
    arguments = ("serve", "--transport", transport, "--port", "0", "--format", "json", *words)
    with home.begin("memory", *arguments) as command:
        output = b""
        assert command.stdout is not None
        while not output.endswith(b"}\n"):
            part = command.stdout.read(4096)
            assert part, output
            output += part
        address: str = json.loads(output)["addresses"][0]
        yield command, address


def ask(socket: SyncConnection, **request: Any) -> None:
    socket.send(json.dumps(request))


def receive(socket: SyncConnection) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(socket.recv(timeout=SECONDS))
    return answer


async def ask_async(socket: ClientConnection, **request: Any) -> dict[str, Any]:
    await socket.send(json.dumps(request))
    answer: dict[str, Any] = json.loads(await socket.recv())
    return answer
