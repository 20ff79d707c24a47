"""How soon a change is told: `python -m bench.streams`, to a hundred WebSockets and a hundred SSE
streams at once, one of each frozen.

From before the event is sent to the daemon (so its fsync is in it) until each client has read it.
The clients share one process, one core and one loop: of the last of them, most is their own time.
"""

import argparse
import asyncio
import json
import os
import resource
import socket
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from websockets.asyncio.client import ClientConnection, connect

from agent_memory import config
from agent_memory.client import Event, EventRole, EventType, MemoryClient
from bench import results
from bench.launch import SCRIPT, isolated, percentile, run, verdict
from bench.results import Table

SESSION = "bench"
GOAL_SECONDS = 1.0
FILES = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=100)
    options = results.parse_options(parser, rounds=10)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), hard))
    with isolated({"embedder.provider": "none"}):
        run([SCRIPT[0], "start"])
        try:
            times = asyncio.run(measure(options.clients, options.rounds))
        finally:
            run([SCRIPT[0], "stop"])
    rows = [
        [
            name,
            str(len(values)),
            *(f"{percentile(values, share) * 1000:.1f}" for share in (0.5, 0.99)),
            f"{max(values) * 1000:.1f}",
            verdict(f"max <= {GOAL_SECONDS * 1000:.0f} ms", max(values) <= GOAL_SECONDS),
        ]
        for name, values in times.items()
    ]
    head = ["told to", "changes", "median ms", "p99 ms", "max ms", "goal"]
    title = f"bench.streams, {options.clients} of each, one of each frozen"
    results.report(options, "streams", [Table(title, head, rows)])


async def measure(clients: int, rounds: int) -> dict[str, list[float]]:
    folders = config.folders(os.environ)
    address = json.loads((folders.data / "daemon.json").read_text())["http_port"]
    key = (folders.data / "key").read_text().strip()
    times: dict[str, list[float]] = {"WebSocket": [], "SSE": []}
    async with AsyncExitStack() as stack:
        memory = stack.enter_context(MemoryClient.connect_default())
        sockets = [await subscribed(stack, address, key) for _ in range(clients)]
        streams = [await followed(stack, address, key) for _ in range(clients)]
        sockets.pop().transport.pause_reading()
        streams.pop()  # nobody reads it any more
        for number in range(rounds):
            started = time.perf_counter()
            told = asyncio.gather(
                *(heard(ws.recv(), started, times["WebSocket"]) for ws in sockets),
                *(heard(read_event(stream), started, times["SSE"]) for stream in streams),
            )
            await asyncio.to_thread(memory.ingest, event(number))
            await told
    return times


async def heard(reading: object, started: float, times: list[float]) -> None:
    await reading  # type: ignore[misc]  # one of two kinds of awaitable
    times.append(time.perf_counter() - started)


def event(number: int) -> Event:
    return Event(
        session_id=SESSION,
        timestamp=time.time_ns() // 1_000_000,
        event_type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=f"Change number {number}, of about as many words as people use to say something.",
    )


async def subscribed(stack: AsyncExitStack, port: int, key: str) -> ClientConnection:
    ws = await stack.enter_async_context(
        connect(
            f"ws://127.0.0.1:{port}/ws",
            additional_headers={"Authorization": f"Bearer {key}"},
            compression=None,
            close_timeout=0.1,
        )
    )
    await ws.send(json.dumps({"operation": "subscribe", "events": {"session_id": SESSION}}))
    await ws.recv()
    return ws


async def followed(stack: AsyncExitStack, port: int, key: str) -> asyncio.StreamReader:
    narrow = socket.create_connection(("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=narrow, limit=1 << 16)
    stack.callback(writer.close)
    lines: Sequence[str] = (
        f"GET /stream/events?session_id={SESSION} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {key}",
    )
    writer.write("\r\n".join((*lines, "", "")).encode())
    await reader.readuntil(b"event: start")
    return reader


async def read_event(reader: asyncio.StreamReader) -> bytes:
    await reader.readuntil(b"event: event\n")
    return await reader.readuntil(b"\n\n")


if __name__ == "__main__":
    main()
