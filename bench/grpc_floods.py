"""What floods of frames do to other callers, on the transport of the daemon and beside it.

python -m bench.grpc_floods [--libraries jh2,h2,grpc.aio] [--connections N]

No client has a key. While so many connections flood, a good client calls by turns with a pause; its
slowest call is the stall. `MB` is what the server grew by. The servers are those of
`tests.grpc_interop`. `tools/interop-grpc` runs this; it exits with 1 if a call of the good client
failed, or if jh2 or h2 kept a flooding connection open.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple, TypeAlias

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench import tables
from tests.grpc_floods import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOODS,
    HEADERS,
    OPENING,
    encode_call,
    encode_frame,
)

SERVERS = {
    "jh2": ["tests.grpc_interop.server"],
    "h2": ["tests.on_h2", "tests.grpc_interop.server"],
    "grpc.aio": ["tests.grpc_interop.aio_server"],
}
OURS = ("jh2", "h2")
BLOCK = 1_000  # frames that a flood sends at once
SECONDS = 3.0  # of a flood
CALL_SECONDS = 10.0
HOLDERS = 200  # connections that hold headers that never end
WATCHES = 100  # calls that each connection of the last flood begins, for good
_KIB = 1024

Counter: TypeAlias = "Synchronized[int]"


class Flood(NamedTuple):
    """What a connection sends first, and then for as long as it may."""

    opening: bytes
    block: bytes
    connections: int
    is_endless: bool = False


class Found(NamedTuple):
    stall: float
    megabytes: float
    closed: int
    connections: int


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.grpc_floods", description=__doc__)
    parser.add_argument("--libraries", default=",".join(SERVERS))
    parser.add_argument("--connections", type=int, default=10)
    options = parser.parse_args(argv)
    libraries = options.libraries.split(",")
    floods = _build_floods(options.connections)
    found = {
        (name, library): _measure(library, flood)
        for name, flood in floods.items()
        for library in libraries
    }
    head = ["flood", *(f"{library}: stall ms, MB, closed" for library in libraries)]
    rows = [
        [f"{name}, {flood.connections}", *(_show(found[name, library]) for library in libraries)]
        for name, flood in floods.items()
    ]
    sys.stdout.write(tables.render("floods by clients without a key", head, rows))
    kept = [
        f"{name} on {library}"
        for (name, library), each in found.items()
        if library in OURS and name in FLOODS and each.closed < each.connections
    ]
    if kept:
        sys.stdout.write(f"kept open: {', '.join(kept)}\n")
    return 1 if kept else 0


def _build_floods(connections: int) -> dict[str, Flood]:
    floods = {
        name: Flood(opening, frame * BLOCK, connections, is_endless=True)
        for name, (opening, frame) in FLOODS.items()
    }
    floods["headers that never end"] = Flood(
        encode_call(1, flags=0),
        encode_frame(CONTINUATION, 1, bytes(16 << 10)) * 60,
        HOLDERS,
    )
    floods["calls of no method"] = Flood(
        b"",
        b"".join(
            encode_frame(HEADERS, stream, b"\x83\x86\x84", END_STREAM | END_HEADERS)
            for stream in range(1, 200_000, 2)
        ),
        connections,
    )
    floods["health streams for good"] = Flood(
        b"".join(
            encode_call(stream) + encode_frame(DATA, stream, bytes(5), END_STREAM)
            for stream in range(1, 2 * WATCHES, 2)
        ),
        b"",
        60,
    )
    return floods


def _measure(library: str, flood: Flood) -> Found:
    with _serve(library) as (process, port):
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        check = health_pb2_grpc.HealthStub(channel).Check
        for _ in range(50):
            check(health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS)
        before = _read_memory(process, "VmRSS")
        context = multiprocessing.get_context("spawn")
        closed, is_over = context.Value("i", 0), context.Event()
        flooding = context.Process(target=_flood, args=(port, flood, closed, is_over))
        flooding.start()
        stalls: list[float] = []
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            started = time.perf_counter()
            try:
                check(health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS)
            except grpc.RpcError as exc:
                if library in OURS:
                    raise
                sys.stderr.write(f"{library}: {exc}\n")  # it may keep a caller out for good
            stalls.append(time.perf_counter() - started)
            time.sleep(0.01)
        grown = _read_memory(process, "VmHWM") - before
        is_over.set()
        flooding.join()
        channel.close()
        return Found(max(stalls), grown / _KIB, closed.value, flood.connections)


def _flood(port: int, flood: Flood, closed: Counter, is_over: Event) -> None:
    """Flood on all connections at once. Count those that the server closes."""

    async def flood_all() -> None:
        floods = [asyncio.create_task(flood_one()) for _ in range(flood.connections)]
        await asyncio.to_thread(is_over.wait)
        for each in floods:
            closed.value += each.done()
            each.cancel()

    async def flood_one() -> None:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(OPENING + flood.opening)
            sending = asyncio.create_task(send(writer))
            while await reader.read(1 << 16):
                pass
            sending.cancel()

    async def send(writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(flood.block)
            while flood.is_endless:
                await writer.drain()
                writer.write(flood.block)

    asyncio.run(flood_all())


@contextlib.contextmanager
def _serve(library: str) -> Iterator[tuple[int, int]]:
    """Start a server; yield its process and its port."""
    with subprocess.Popen(
        [sys.executable, "-m", *SERVERS[library]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        if child.stdout is None or child.stdin is None:
            raise RuntimeError("no pipes")
        try:
            yield child.pid, int(child.stdout.readline())
        finally:
            child.kill()


def _read_memory(process: int, field: str) -> int:
    """Read a field of the process's memory, in KiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    raise RuntimeError(f"no {field}")


def _show(found: Found) -> str:
    return f"{found.stall * 1000:,.0f}  {found.megabytes:,.0f}  {found.closed}"


if __name__ == "__main__":
    sys.exit(main())
