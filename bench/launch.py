"""What a command costs: `python -m bench.launch`, interleaved with a bare interpreter.

The same with a niced worker at full load and 1,000 events a second coming in; and what an idle
daemon costs.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_memory import launch
from agent_memory.client import Event, EventRole, EventType, MemoryClient
from bench import results
from bench.processes import at_home, write_settings
from bench.results import Table

COMMAND = ("memory-daemon", "query", "events", "--from", "2020", "--to", "2021", "-l", "1")
BARE = (sys.executable, "-I", "-S", "-c", "pass")
FAST = (sys.executable, "-I", "-S", launch.__file__, *COMMAND)
SCRIPT = (str(Path(sys.executable).with_name("memory-daemon")), *COMMAND[1:])
EVENTS_PER_SECOND = 1_000
_TICK = 1 / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--idle-seconds", type=float, default=10.0)
    options = results.parse_options(parser, rounds=10, idle_seconds=3.0)
    with isolated() as folder:
        started = time.perf_counter()
        run([SCRIPT[0], "start"])
        start_seconds = time.perf_counter() - started
        pid = int((folder / ".local/share/agent-memory/daemon.lock").read_text())
        try:
            idle = idle_cost(pid, options.idle_seconds)
            quiet = measure(options.rounds)
            with loaded():
                busy = measure(options.rounds)
        finally:
            run([SCRIPT[0], "stop"])
    rows: list[Sequence[str]] = []
    for title, times in (("quiet", quiet), ("worker + ingest", busy)):
        bare = statistics.median(times["bare"])
        for name, values in times.items():
            rows.append(
                [
                    f"{title}: {name}",
                    f"{statistics.median(values) * 1000:.1f}",
                    f"{percentile(values, 0.99) * 1000:.1f}",
                    f"{statistics.median(values) / bare:.2f}",
                    goal(title, name, values, bare),
                ]
            )
        rows.append([])
    resident, cpu = idle
    rows.append(
        ["idle: resident MB", f"{resident:.0f}", "", "", verdict("<= 150", resident <= 150)]
    )
    rows.append(["idle: CPU %", f"{cpu:.2f}", "", "", verdict("< 0.5", cpu < 0.5)])
    rows.append(
        ["start to serving, s", f"{start_seconds:.2f}", "", "", verdict("<= 2", start_seconds <= 2)]
    )
    head = ["", "median ms", "p99 ms", "x bare", "goal"]
    title = f"bench.launch, {options.rounds} rounds"
    results.report(options, "launch", [Table(title, head, rows)])


def measure(rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"bare": [], "launch.py": [], "script": []}
    for _ in range(rounds):
        for name, command in zip(times, (BARE, FAST, SCRIPT), strict=True):
            started = time.perf_counter()
            run(command)
            times[name].append(time.perf_counter() - started)
    return times


def goal(title: str, name: str, values: Sequence[float], bare: float) -> str:
    ratio = statistics.median(values) / bare
    if title == "quiet" and name == "launch.py":
        return verdict("<= 1.5 x", ratio <= 1.5)
    if title == "quiet" and name == "script":
        return verdict("<= 2.5 x", ratio <= 2.5)
    if title != "quiet" and name != "bare":
        return verdict("p99 <= 100 ms", percentile(values, 0.99) <= 0.1)
    return ""


def verdict(text: str, met: bool) -> str:
    return f"{text} {'ok' if met else 'SHORT'}"


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def run(command: Sequence[str]) -> None:
    words = at_home(command, os.environ["HOME"])
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def idle_cost(pid: int, seconds: float) -> tuple[float, float]:
    """Resident megabytes, and percent of one core."""
    time.sleep(2)
    before = cpu_seconds(pid)
    time.sleep(seconds)
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    return resident / 1024, (cpu_seconds(pid) - before) / seconds * 100


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


@contextmanager
def isolated(settings: Mapping[str, object] | None = None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="am-") as name:
        folder = Path(name)
        os.environ["HOME"] = name
        write_settings(folder, settings or {})
        os.environ.pop("MEMORY_ENDPOINT", None)
        yield folder


@contextmanager
def loaded() -> Iterator[None]:
    """Run a niced process in pure Python, as a summarizing worker is; events come from a
    program."""
    spin = "import os; os.nice(10)\nwhile True: sum(range(1000))"
    worker = subprocess.Popen([sys.executable, "-c", spin])
    ended = threading.Event()
    feeder = threading.Thread(target=feed, args=(ended,))
    feeder.start()
    try:
        yield
    finally:
        ended.set()
        feeder.join()
        worker.kill()
        worker.wait()


def feed(ended: threading.Event) -> None:
    batch = EVENTS_PER_SECOND // 20
    with MemoryClient.connect_default() as memory:
        sent = 0
        while not ended.wait(0.05):
            now = time.time_ns() // 1_000_000
            memory.ingest_batch(
                Event(
                    session_id=f"bench-{sent // 1000}",
                    timestamp=now,
                    event_type=EventType.TOOL_RESULT,
                    role=EventRole.TOOL,
                    text=f"line {number} of the build log, as long as such lines are " * 8,
                )
                for number in range(batch)
            )
            sent += batch


if __name__ == "__main__":
    main()
