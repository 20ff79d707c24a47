"""MCP clients: the SDK's over each transport, and one that writes lines itself."""

import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.command_runner import SECONDS, Home, Running

ERAS = ("legacy", "2026-07-28")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@asynccontextmanager
async def over_stdio(
    home: Home, era: Any = "auto", cwd: Path | None = None
) -> AsyncIterator[Client]:
    """Run `memory serve` as an agent does, in the folders of a test."""
    command, *words = (os.fsdecode(word) for word in home.command("memory", "serve"))
    server = StdioServerParameters(
        command=command, args=words, env=home.environ, cwd=cwd or home.work
    )
    with Path(os.devnull).open("w") as errors:  # noqa: ASYNC230  it takes no time
        async with Client(stdio_client(server, errlog=errors), mode=era) as client:
            yield client


@asynccontextmanager
async def over_http(url: str, key: str = "", era: Any = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            httpx2.AsyncClient(headers=headers, timeout=SECONDS, trust_env=False)
        )
        transport = streamable_http_client(url, http_client=http)
        yield await stack.enter_async_context(Client(transport, mode=era))


@asynccontextmanager
async def over_sse(url: str, key: str = "") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with Client(sse_client(url, headers=headers), mode="legacy") as client:
        yield client


class LineClient:
    """A client of `memory serve` that may send anything."""

    def __init__(self, home: Home) -> None:
        self.process = Running(
            home.command("memory", "serve"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=home.environ,
            cwd=home.work,
        )

    def __enter__(self) -> Self:
        self.send(INITIALIZE)
        assert self.receive()["id"] == 0
        self.send(INITIALIZED)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__(None, None, None)

    def send(self, message: dict[str, Any]) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def call(self, request_id: int, tool: str, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params})

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the server has ended: {self.process.stderr and self.process.stderr.read()!r}"
        message: dict[str, Any] = json.loads(line)
        return message

    def leave(self) -> tuple[int, bytes, bytes]:
        """Close standard input. Return the exit code and the rest of both outputs."""
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err

    def wait_exit(self) -> tuple[int, bytes]:
        """Wait for the server to exit. Return its exit code and its standard error."""
        code = self.process.wait(SECONDS)
        assert self.process.stderr is not None
        return code, self.process.stderr.read()
