"""A team server of a test, with the people who use it, and calls over each of its interfaces."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import grpc
import httpx
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from websockets.sync.client import connect

from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import SECONDS, Home
from tests.mcp_clients import over_http

CONFIG = "[team]\nenabled = true\n"
SERVICE = "memory.MemoryService"


@dataclass
class Caller:
    """A person with a key. Every method returns the whole answer as text, also of a refusal."""

    name: str
    secret: str
    http_port: int
    grpc_port: int
    status: int = 0  # of the last answer over REST
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def rest(self, method: str, path: str, **options: Any) -> str:
        with httpx.Client(
            base_url=self.base, headers=self.headers, timeout=SECONDS, trust_env=False
        ) as client:
            answer = client.request(method, path, **options)
        self.status = answer.status_code
        return answer.text

    def get(self, path: str, **parameters: Any) -> str:
        return self.rest("GET", path, params=parameters)

    def rpc(
        self,
        method: str,
        request: Message,
        answer: type[Message],
        *,
        timeout: float = SECONDS,
    ) -> str:
        """Return the answer as JSON, or the name of the status and its message."""
        with grpc.insecure_channel(
            f"127.0.0.1:{self.grpc_port}", options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            call = channel.unary_unary(
                f"/{method if '/' in method else f'{SERVICE}/{method}'}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=answer.FromString,
            )
            metadata = tuple((name.lower(), value) for name, value in self.headers.items())
            try:
                return MessageToJson(call(request, metadata=metadata, timeout=timeout))
            except grpc.RpcError as exc:
                return f"{exc.code().name}: {exc.details()}"

    @contextmanager
    def ingest_stream(self) -> Iterator[Callable[[str], str]]:
        """Open a stream of events, and yield a function that sends one and returns the answer."""
        requests: SimpleQueue[pb.IngestEventsRequest | None] = SimpleQueue()
        with grpc.insecure_channel(
            f"127.0.0.1:{self.grpc_port}", options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            call = channel.stream_stream(
                f"/{SERVICE}/IngestEvents",
                request_serializer=pb.IngestEventsRequest.SerializeToString,
                response_deserializer=pb.IngestEventsResponse.FromString,
            )
            metadata = tuple((name.lower(), value) for name, value in self.headers.items())
            given = iter(requests.get, None)
            answers = iter(call(given, metadata=metadata, timeout=SECONDS))

            def send(event_id: str) -> str:
                event = pb.Event(event_id=event_id, session_id="s-stream", text=event_id)
                event.event_type = pb.EVENT_TYPE_USER_MESSAGE
                event.role = pb.EVENT_ROLE_USER
                event.metadata["project"] = "shop"
                requests.put(pb.IngestEventsRequest(events=[event]))
                try:
                    return MessageToJson(next(answers))
                except grpc.RpcError as exc:
                    return f"{exc.code().name}: {exc.details()}"

            yield send
            requests.put(None)

    def search(self, query: str) -> str:
        return self.rpc("Search", pb.SearchRequest(query=query), pb.SearchResponse)

    def tool(self, name: str, **arguments: Any) -> str:
        """Call a tool of MCP over HTTP."""

        async def call() -> str:
            async with over_http(f"{self.base}/mcp", self.secret) as client:
                return (await client.call_tool(name, arguments)).model_dump_json()

        return asyncio.run(call())

    def resource(self, uri: str) -> str:
        async def read() -> str:
            async with over_http(f"{self.base}/mcp", self.secret) as client:
                try:
                    return (await client.read_resource(uri)).model_dump_json()
                except Exception as exc:  # the SDK has several
                    return str(exc)

        return asyncio.run(read())

    def resources(self) -> str:
        """List the resources of MCP, of every page."""

        async def list_all() -> str:
            pages: list[str] = []
            cursor = None
            async with over_http(f"{self.base}/mcp", self.secret) as client:
                while not pages or cursor is not None:
                    page = await client.list_resources(cursor=cursor)
                    pages.append(page.model_dump_json())
                    cursor = page.next_cursor
            return "\n".join(pages)

        return asyncio.run(list_all())

    def websocket(self, *requests: dict[str, Any], last: str = "complete") -> str:
        """Send requests and return everything up to an answer of this type, or an error."""
        received: list[str] = []
        with connect(
            f"ws://127.0.0.1:{self.http_port}/ws",
            additional_headers=self.headers,
            open_timeout=SECONDS,
        ) as socket:
            for request in requests:
                socket.send(json.dumps(request))
                while not received or json.loads(received[-1])["type"] not in (last, "error"):
                    received.append(str(socket.recv(SECONDS)))
        return "\n".join(received)


class TeamServer:
    """A daemon that serves a team. Its home must be configured so."""

    def __init__(self, home: Home) -> None:
        self.home = home
        home.serve()
        record = json.loads((home.data / "daemon.json").read_text())
        self.http_port, self.grpc_port = record["http_port"], record["grpc_port"]
        self.http_socket: str = record["http_socket"]

    def create(self, name: str, *words: str) -> Caller:
        """Create a key of a person of this name."""
        answer = self.home.run("memory-daemon", "token", "create", name, "--person", name, *words)
        assert answer.code == 0, answer.errors
        return self.caller(name, answer.text.strip())

    def revoke(self, name: str) -> None:
        answer = self.home.run("memory-daemon", "token", "revoke", name, "--yes")
        assert answer.code == 0, answer.errors

    def caller(self, name: str, secret: str) -> Caller:
        return Caller(name, secret, self.http_port, self.grpc_port)

    def over_socket(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=self.http_socket)
        return httpx.Client(transport=transport, base_url="http://memory", timeout=SECONDS)
