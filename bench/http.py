"""REST beside the least that could answer: `python -m bench.http`.

`GET /facts/` with 10,000 facts, and `POST /events/` with 500 bytes of text, from a real daemon with
its key and limits, against bare FastAPI routes that return the same facts and keep no event, both
under uvicorn; the same client, by turns. The daemon is in each of the states of bench.states.
"""

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import httpx

from bench import results, states
from bench.launch import verdict
from bench.processes import Daemon
from bench.results import Table
from bench.states import IDLE

BARE = """
import sys
from pathlib import Path
import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel

page = Path(sys.argv[1]).read_bytes()
app = FastAPI()

@app.get("/facts/")
async def facts() -> Response:
    return Response(page, media_type="application/json")

class Event(BaseModel):
    session_id: str
    text: str

@app.post("/events/", status_code=201)
async def record(event: Event) -> Response:
    return Response(b'{"event_id": "1", "created": true}', 201, media_type="application/json")

uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False, loop="uvloop")
"""
FACTS_PATH = "/api/v1/memories/facts/"
EVENTS_PATH = "/api/v1/events/"
TEXT = "The parser keeps its tokens in a queue, and the second try reads them from there. " * 6
EVENT = json.dumps({"session_id": "bench", "text": TEXT[:500]}).encode()
WRITERS = (1, 16)  # connections
GOAL = 0.5
UNLIMITED: dict[str, object] = {"http.burst": 0}  # what is measured is how fast, not how often
BARE_NAME = "bare FastAPI route"
OTHER_PATHS = {
    "daemon, filtered": f"{FACTS_PATH}?scope=global&fact_type=fact&limit=50",
    "daemon, page 100": f"{FACTS_PATH}?offset=5000",
}

Rounds = list[list[float]]  # the seconds of each answer, by round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--connections", type=int, default=16)
    options = results.parse_options(parser, facts=500, rounds=2, seconds=0.5)
    with tempfile.TemporaryDirectory(prefix="am-") as name:
        store = Path(name) / "store"
        with Daemon(store, UNLIMITED | states.WORDS_ALONE) as daemon:
            fill(daemon.http_port, daemon.key, options.facts)
            head = {"Authorization": f"Bearer {daemon.key}"}
            url = f"http://127.0.0.1:{daemon.http_port}{FACTS_PATH}"
            page = httpx.get(url, headers=head).content
        with bare(page) as bare_port, states.open_states(store, UNLIMITED) as subjects:
            found = measure(options, subjects, bare_port)
            end = states.describe_end(subjects)
    title = f"GET /facts/, {len(page):,} bytes, {options.connections} connections"
    compared = {
        "GET /facts/": _in_states(found, subjects, "daemon"),
        **{_name_writing(n): _in_states(found, subjects, _name_writing(n)) for n in WRITERS},
    }
    rows, groups = states.compare(compared)
    shown = [
        Table(title, ("", "requests/s", "x bare", "goal"), list_rows(found, options.seconds)),
        Table(f"{title}; POST /events/, {len(EVENT)} bytes; {end}", states.HEAD, rows),
    ]
    results.report(options, "http", shown, [states.plot("http", "REST", groups)])


def _name_writing(connections: int) -> str:
    return f"POST /events/, {connections} connection{'s' * (connections > 1)}"


def _in_states(
    found: Mapping[str, Rounds], subjects: Iterable[str], name: str
) -> dict[str, list[float]]:
    return {state: list(chain(*found[f"{name}, {state}"])) for state in subjects}


def measure(
    options: argparse.Namespace, subjects: Mapping[str, states.Subject], bare_port: int
) -> dict[str, Rounds]:
    found: dict[str, Rounds] = {}

    def ask(name: str, request: bytes, port: int, connections: int = options.connections) -> None:
        took = asyncio.run(answers(port, request, connections, options.seconds))
        found.setdefault(name, []).append(took)

    for state, daemon in states.take_turns(subjects, options.rounds + 1):
        ask(f"daemon, {state}", build_request(FACTS_PATH, daemon.key), daemon.http_port)
        for count in WRITERS:
            writing = build_request(EVENTS_PATH, daemon.key, EVENT)
            ask(f"{_name_writing(count)}, {state}", writing, daemon.http_port, count)
        if state == IDLE:  # which leaves the machine to the bare routes too
            ask(BARE_NAME, build_request("/facts/"), bare_port)
            for name, path in OTHER_PATHS.items():
                ask(name, build_request(path, daemon.key), daemon.http_port)
            for count in WRITERS:
                writing = build_request("/events/", body=EVENT)
                ask(f"{_name_writing(count)}, bare", writing, bare_port, count)
    # Without the first round, in which the daemons load code.
    return {name: rounds[1:] for name, rounds in found.items()}


def list_rows(found: Mapping[str, Rounds], seconds: float) -> list[list[str]]:
    rates = {name: [len(took) / seconds for took in rounds] for name, rounds in found.items()}
    rows = []
    for name, mine in rates.items():
        writing, _, _ = name.rpartition(", ")
        bare = rates.get(f"{writing}, bare", rates[BARE_NAME])
        ratio = statistics.median(one / least for one, least in zip(mine, bare, strict=True))
        goal = verdict(f">= {GOAL}", ratio >= GOAL) if name == f"daemon, {IDLE}" else ""
        rows.append([name, f"{statistics.median(mine):,.0f}", f"{ratio:.2f}", goal])
    return rows


def build_request(path: str, key: str = "", body: bytes = b"") -> bytes:
    """Return a request: a GET, or a POST if it has a body."""
    head = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", "Host: 127.0.0.1"]
    head += [f"Authorization: Bearer {key}"] * bool(key)
    head += ["Content-Type: application/json", f"Content-Length: {len(body)}"] * bool(body)
    return "\r\n".join([*head, "", ""]).encode() + body


async def answers(port: int, request: bytes, connections: int, seconds: float) -> list[float]:
    """Measure the seconds of each answer over so many open connections."""
    end = time.perf_counter() + seconds
    asked = (_asking(port, request, end) for _ in range(connections))
    return [each for took in await asyncio.gather(*asked) for each in took]


async def _asking(port: int, request: bytes, end: float) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    took = []
    while (began := time.perf_counter()) < end:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(head.decode())
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        took.append(time.perf_counter() - began)
    writer.close()
    return took


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
