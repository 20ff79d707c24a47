"""REST beside the least that could answer: `python -m bench.http`.

`GET /facts/` with 10,000 facts, from a real daemon with its key and limits, against a bare FastAPI
route that returns the same bytes, both under uvicorn; the same client, by turns.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench.launch import SCRIPT, isolated, run, verdict
from bench.tables import render

BARE = """
import sys
from pathlib import Path
import uvicorn
from fastapi import FastAPI, Response

page = Path(sys.argv[1]).read_bytes()
app = FastAPI()

@app.get("/facts/")
async def facts() -> Response:
    return Response(page, media_type="application/json")

uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False, loop="uvloop")
"""
FACTS_PATH = "/api/v1/memories/facts/"
GOAL = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    os.environ["MEMORY_HTTP__BURST"] = "0"  # what is measured is how fast, not how often
    with isolated() as folder:
        run([SCRIPT[0], "start"])
        try:
            key = (folder / "data/agent-memory/key").read_text().strip()
            port = json.loads((folder / "data/agent-memory/daemon.json").read_text())["http_port"]
            fill(port, key, options.facts)
            head = {"Authorization": f"Bearer {key}"}
            page = httpx.get(f"http://127.0.0.1:{port}{FACTS_PATH}", headers=head).content
            with bare(page) as bare_port:
                rows = compare(options, key, port, bare_port)
        finally:
            run([SCRIPT[0], "stop"])
    head_row = ["", "requests/s", "x bare", "goal"]
    sys.stdout.write(render(f"GET /facts/, {len(page):,} bytes", head_row, rows))


def compare(options: argparse.Namespace, key: str, port: int, bare_port: int) -> list[list[str]]:
    ways = {
        "bare FastAPI route": (bare_port, "/facts/"),
        "daemon": (port, FACTS_PATH),
        "daemon, filtered": (port, f"{FACTS_PATH}?scope=global&fact_type=fact&limit=50"),
        "daemon, page 100": (port, f"{FACTS_PATH}?offset=5000"),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, (where, path) in ways.items():
            rates[name].append(
                asyncio.run(rate(where, path, key, options.connections, options.seconds))
            )
    bare_rates = rates["bare FastAPI route"]
    rows = []
    for name, found in rates.items():
        ratios = [mine / bare for mine, bare in zip(found, bare_rates, strict=True)]
        ratio = statistics.median(ratios)
        goal = verdict(f">= {GOAL}", ratio >= GOAL) if name == "daemon" else ""
        rows.append([name, f"{statistics.median(found):,.0f}", f"{ratio:.2f}", goal])
    return rows


async def rate(port: int, path: str, key: str, connections: int, seconds: float) -> float:
    """Measure requests a second over so many open connections."""
    request = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n\r\n"
    ).encode()
    end = time.perf_counter() + seconds
    counts = await asyncio.gather(*(_asking(port, request, end) for _ in range(connections)))
    return sum(counts) / seconds


async def _asking(port: int, request: bytes, end: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.perf_counter() < end:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        count += 1
    writer.close()
    return count


def fill(port: int, key: str, count: int) -> None:
    """Over REST, as a program would."""

    async def add() -> None:
        limits = httpx.Limits(max_connections=32)
        head = {"Authorization": f"Bearer {key}"}
        base = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=base, headers=head, limits=limits) as client:
            turn = asyncio.Semaphore(32)

            async def one(number: int) -> None:
                async with turn:
                    body = {"key": f"setting_{number}", "value": f"value of setting {number}"}
                    (await client.post(FACTS_PATH, json=body)).raise_for_status()

            await asyncio.gather(*(one(number) for number in range(count)))

    asyncio.run(add())


@contextmanager
def bare(page: bytes) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page"
        file.write_bytes(page)
        port = _free_port()
        server = subprocess.Popen([sys.executable, "-c", BARE, str(file), str(port)])
        try:
            deadline = time.monotonic() + 20
            while True:
                try:
                    httpx.get(f"http://127.0.0.1:{port}/facts/")
                    break
                except httpx.TransportError:
                    if time.monotonic() > deadline:
                        raise
            yield port
        finally:
            server.terminate()
            server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
