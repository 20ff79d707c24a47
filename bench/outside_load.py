"""Ingest as an outside client sees it, with everything on and with the scheduler off.

python -m bench.outside_load --ghz FILE [--rounds N]

Both daemons are loaded by turns; the one that is not measured is stopped with its children, so that
its background work takes nothing from the other. Exits with 1 if calls failed. A missed goal is
only shown, because machines are noisy. `tools/interop-load` builds ghz and runs this.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench import tables
from bench.launch import verdict
from bench.processes import Daemon

ROOT = Path(__file__).parents[1]
GOAL = 0.9
CALLS = {1: 1_500, 64: 4_000}  # of a round, by the number of callers
MAX_CONNECTIONS = 2
EVERYTHING_ON = "everything on"
SETTINGS = {"scheduler.enabled": True}
TEXT_BYTES = 500
SENTENCE = "The parser keeps its tokens in a queue, and the second try reads them from there. "
TEXT = f"Call {{{{.RequestNumber}}}}. {SENTENCE * 7}"[: TEXT_BYTES + 15]  # the number is shorter


@dataclass(slots=True)
class Load:
    """What the rounds of one daemon gave, for one number of callers."""

    rates: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.outside_load", description=__doc__)
    parser.add_argument("--ghz", required=True, help="the program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, help="of a round; default: enough for some seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-load-") as name, ExitStack() as stack:
        daemons = {
            "scheduler off": stack.enter_context(Daemon(Path(name) / "off")),
            EVERYTHING_ON: stack.enter_context(Daemon(Path(name) / "on", SETTINGS)),
        }
        found = {(title, callers): Load() for callers in CALLS for title in daemons}
        for number in range(options.rounds + 1):
            for (title, callers), load in found.items():
                others = [daemon for other, daemon in daemons.items() if other != title]
                with _stop(others):
                    report = _call(
                        options.ghz, daemons[title], callers, options.calls or CALLS[callers]
                    )
                if number:  # the first round is not counted: connections and first pages cost once
                    _add(load, report)
    head = ["", "events/s", "p50 ms", "p99 ms", "on / off", "goal"]
    title = f"ingest of {TEXT_BYTES}-byte events by ghz, medians of {options.rounds} rounds"
    sys.stdout.write(tables.render(title, head, _build_rows(found)))


def _call(ghz: str, daemon: Daemon, callers: int, calls: int) -> dict[str, Any]:
    event = {
        "event_id": "{{.UUID}}",
        "session_id": "caller-{{.WorkerID}}",
        "timestamp_ms": "{{.TimestampUnixMilli}}",
        "event_type": 2,
        "role": 1,
        "text": TEXT,
    }
    command = [
        ghz, "--insecure", "--format", "json", "--proto", str(ROOT / "proto/memory.proto"),
        "--call", "memory.MemoryService/IngestEvent", "--data", json.dumps({"event": event}),
        "--concurrency", str(callers), "--connections", str(min(callers, MAX_CONNECTIONS)),
        "--total", str(calls), *_show_key(daemon), f"127.0.0.1:{daemon.port}",
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    if report["statusCodeDistribution"] != {"OK": calls}:
        raise SystemExit(f"error: calls failed: {report['errorDistribution']}")
    return report


def _show_key(daemon: Daemon) -> list[str]:
    """On Linux the kernel tells that we are the daemon's own user; elsewhere we show the key."""
    if platform.system() == "Linux":
        return []
    key = (daemon.db.parent / "key").read_text().strip()
    return ["--metadata", json.dumps({"authorization": f"Bearer {key}"})]


@contextmanager
def _stop(daemons: Sequence[Daemon]) -> Iterator[None]:
    """Keep daemons and their children from running."""
    stopped = [pid for daemon in daemons for pid in (daemon.pid, *daemon.children())]
    _signal(stopped, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(stopped, signal.SIGCONT)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a child has ended by itself
            os.kill(pid, number)


def _add(load: Load, report: dict[str, Any]) -> None:
    times = {each["percentage"]: each["latency"] / 1e6 for each in report["latencyDistribution"]}
    load.rates.append(report["rps"])
    load.p50.append(times[50])
    load.p99.append(times[99])


def _build_rows(found: Mapping[tuple[str, int], Load]) -> list[tables.Row]:
    rows: list[tables.Row] = []
    off = 0.0
    for (title, callers), load in found.items():
        rate = median(load.rates)
        ratio = ["", ""]
        if title == EVERYTHING_ON:
            ratio = [f"{rate / off:.2f}", verdict(f">= {GOAL}", rate / off >= GOAL)]
        off = rate
        name = f"{title}, {callers} {'caller' if callers == 1 else 'callers'}"
        times = (f"{median(values):.1f}" for values in (load.p50, load.p99))
        rows.append([name, f"{rate:,.0f}", *times, *ratio])
    return rows


if __name__ == "__main__":
    main()
