"""What an MCP client waits for: `python -m bench.mcp`.

From the start of `memory serve` to its first answer, with a daemon that has served one before, with
one that has not, and with none; and a call of a tool, over standard input and output and over HTTP,
with the daemon in each of the states of bench.states.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import httpx

from agent_memory import launch
from bench import recall_data, results, states
from bench.launch import SCRIPT, isolated, percentile, run, verdict
from bench.processes import Daemon, at_home
from bench.results import Table
from bench.states import IDLE

SERVE = (sys.executable, "-I", "-S", launch.__file__, "memory", "serve")
PARAMS = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ACCEPT = "application/json, text/event-stream"
WARM, COLD, CALL = 0.3, 5.0, 0.1  # seconds, the goals
UNLIMITED = {"http.burst": 0}  # what is measured is how fast, not how often
BLOCK = 100  # calls before it is the next daemon's turn
STDIO, HTTP = "call over stdio", "call over HTTP"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--cold-rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--tool", default="memory_status")
    parser.add_argument("--events", type=int, default=10_000, help="in the store")
    options = results.parse_options(parser, rounds=5, cold_rounds=1, calls=BLOCK, events=500)
    rows = measure_starts(options)
    times, end = measure_calls(options)
    rows.append([])
    rows += [row(name, by_state[IDLE], CALL) for name, by_state in times.items()]
    title = f"bench.mcp, {options.rounds} starts, {options.calls} calls of {options.tool}"
    compared, groups = states.compare(times)
    shown = [
        Table(title, ("", "median ms", "p99 ms", "goal"), rows),
        Table(f"{title}; {end}", states.HEAD, compared),
    ]
    results.report(options, "mcp", shown, [states.plot("mcp", options.tool, groups)])


def measure_starts(options: argparse.Namespace) -> list[list[str]]:
    with isolated() as folder:
        marker = folder / ".local/share/agent-memory/mcp-used"

        def stopped() -> None:
            run([SCRIPT[0], "stop"])
            marker.unlink(missing_ok=True)

        def unused() -> None:
            stopped()
            run([SCRIPT[0], "start"])

        try:
            cold = starts(options.cold_rounds, stopped)
            unloaded = starts(min(3, options.cold_rounds), unused)
            warm = starts(options.rounds, lambda: None)
        finally:
            run([SCRIPT[0], "stop"])
    return [
        row("spawn to first answer, no daemon", cold, COLD),
        row("spawn to first answer, SDK not loaded", unloaded, COLD),
        row("spawn to first answer, warm", warm, WARM),
    ]


def measure_calls(
    options: argparse.Namespace,
) -> tuple[Mapping[str, Mapping[str, list[float]]], str]:
    """Return the seconds of each call, by way and state, and how the states ended."""
    with tempfile.TemporaryDirectory(prefix="am-") as name:
        store = Path(name) / "store"
        with Daemon(store, states.WORDS_ALONE) as daemon:
            with daemon.connect() as memory:
                memory.ingest_batch(recall_data.turns(options.events))
            states.catch_up(daemon, states.JOBS)
        with states.open_states(store, UNLIMITED) as subjects:
            times: dict[str, dict[str, list[float]]] = {
                way: {state: [] for state in subjects} for way in (STDIO, HTTP)
            }
            rounds = -(-options.calls // BLOCK)
            # The first round is not counted: it loads the SDK.
            for number, (state, daemon) in enumerate(states.take_turns(subjects, rounds + 1)):
                took = over_stdio(daemon, BLOCK, options.tool)
                web = over_http(daemon.http_port, daemon.key, BLOCK, options.tool)
                if number >= len(subjects):
                    times[STDIO][state] += took
                    times[HTTP][state] += web
            return times, states.describe_end(subjects)


def row(name: str, seconds: Sequence[float], goal: float) -> list[str]:
    worst = percentile(seconds, 0.99)
    return [
        name,
        f"{statistics.median(seconds) * 1000:.1f}",
        f"{worst * 1000:.1f}",
        verdict(f"<= {goal * 1000:.0f}", worst <= goal),
    ]


def starts(rounds: int, prepare: Callable[[], None]) -> list[float]:
    times = []
    for _ in range(rounds):
        prepare()
        began = time.perf_counter()
        with Spoken() as client:
            client.ask("initialize", PARAMS)
            times.append(time.perf_counter() - began)
    return times


def over_stdio(daemon: Daemon, calls: int, tool: str) -> list[float]:
    times = []
    with Spoken(daemon.environ) as client:
        client.ask("initialize", PARAMS)
        client.say(INITIALIZED)
        for _ in range(calls):
            began = time.perf_counter()
            answer = client.ask("tools/call", {"name": tool, "arguments": {}})
            times.append(time.perf_counter() - began)
            if "result" not in answer:
                raise SystemExit(f"{tool} failed: {answer}")
    return times


def over_http(port: int, key: str, calls: int, tool: str) -> list[float]:
    async def talk() -> list[float]:
        head = {"Authorization": f"Bearer {key}", "Accept": ACCEPT}
        url = f"http://127.0.0.1:{port}/mcp"
        times = []
        async with httpx.AsyncClient(headers=head, timeout=30, trust_env=False) as http:
            opened = await http.post(url, json=request(0, "initialize", PARAMS))
            http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            await http.post(url, json=INITIALIZED)
            for number in range(1, calls + 1):
                params = {"name": tool, "arguments": {}}
                began = time.perf_counter()
                answer = await http.post(url, json=request(number, "tools/call", params))
                times.append(time.perf_counter() - began)
                answer.raise_for_status()
        return times

    return asyncio.run(talk())


def request(number: int, method: str, params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class Spoken:
    """A client that does nothing but wait for its answers."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            at_home(SERVE, os.environ["HOME"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path.cwd(),
            env={**os.environ, **(environ or {})},
        )
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def say(self, message: object) -> None:
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: object) -> dict[str, object]:
        self._asked += 1
        self.say(request(self._asked, method, params))
        assert self._process.stdout is not None  # noqa: S101
        answer: dict[str, object] = json.loads(self._process.stdout.readline())
        return answer


if __name__ == "__main__":
    main()
