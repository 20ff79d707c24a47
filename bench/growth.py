"""The cost of a larger store: `python -m bench.growth`, on one that grows from size to size.

Events of many years are streamed in with the scheduler off. Then the table of contents, the index
of words and the knowledge catch up, and a daemon with everything on but embedding is measured.
Above `--index-limit` nothing catches up, and the scheduler stays off: indexing takes longer than
all else here. Every figure is compared with that of the smallest size: up to 1.2 times it is flat.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from agent_memory import launch
from agent_memory.client import MemoryClient
from agent_memory.kernel.jobs import OUTBOX, ROLLUP, SEGMENTS
from agent_memory.launcher import command_client
from agent_memory.platform.store import families
from bench import conversation, disk, hooks, results, tables
from bench.launch import BARE, cpu_seconds, percentile, run
from bench.processes import READY_SECONDS, Daemon, Process, at_home, resident_megabytes
from bench.results import Table

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (3_000, 12_000)
FULL = (*SIZES, 5_000_000)
FLAT = 1.2
EVENTS_PER_DAY = 2_000
CHUNK = 500_000  # events of a corpus: of all sizes, one would take gigabytes
PATIENCE = 7_200.0
TICK = 0.005
STARTS = 3
IDLE_SECONDS, LOOK_SECONDS, IDLE_SHARE = 60.0, 0.5, 0.05
WARM = 5
LEAST = 1_000

STORING: dict[str, object] = {"embedder.provider": "none"}
EVERYTHING = {**STORING, "scheduler.enabled": True}
HOOKS = ("PostToolUse", "UserPromptSubmit")
KINDS = {
    "events": (families.EVENTS,),
    "ids and sessions": (families.EVENT_IDS, families.SESSION_EVENTS),
    "table of contents": (
        families.TOC_NODES,
        families.TOC_LATEST,
        families.TOC_STATE,
        families.SEGMENTS,
        families.GRIPS,
    ),
    "term vectors": (families.TERM_VECTORS,),
    "knowledge": (families.FACTS, families.KNOWLEDGE),
    "outbox and queue": (families.OUTBOX, families.EMBEDDING_QUEUE),
}

Figures = dict[str, float]
Ask = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Plan:
    sizes: tuple[int, ...]
    index_limit: int
    rounds: int  # of hooks and commands
    questions: int


def main() -> None:
    plan, options = _parse_arguments()
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as name:
        store = GrowingStore(Path(name), plan)
        found = [store.measure(size) for size in plan.sizes]
    title = (
        f"bench.growth, {plan.rounds} rounds, {os.cpu_count()} cores shared by client and daemon"
    )
    head = [
        "events",
        *(f"{size:,}" + ", not indexed" * (size > plan.index_limit) for size in plan.sizes),
    ]
    results.report(options, "growth", [Table(title, head, build_rows(found))])


class GrowingStore:
    """A data folder, a project that hooks are called in, and questions about the first events."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._size = 0
        self._questions: list[str] = []
        self._environ: Mapping[str, str] = {}  # of commands and hooks
        days = -(-plan.sizes[-1] // EVENTS_PER_DAY) + len(plan.sizes)
        today = time.time_ns() // 1_000_000 // conversation.DAY_MS
        self._first_ms = (today - days) * conversation.DAY_MS
        self._project = folder / "project"
        run(["git", "init", "-q", str(self._project)])

    def measure(self, size: int) -> Figures:
        found: Figures = {}
        _say(f"{size:,}: filling ...")
        self._fill(size, found)
        is_indexed = size <= self._plan.index_limit
        if is_indexed:
            _say(f"{size:,}: indexing ...")
            self._catch_up(found)
        _say(f"{size:,}: measuring ...")
        settings = EVERYTHING if is_indexed else STORING
        starts = [self._start(settings) for _ in range(STARTS)]
        for name, seconds in zip(("first answer", "ready"), zip(*starts, strict=True), strict=True):
            found[f"start to {name}, s"] = median(seconds)
        with Daemon(self._folder, settings) as daemon, _connect(daemon) as memory:
            if is_indexed:
                self._run_jobs(memory)  # those that the start has woken
            _wait_until_idle(daemon)
            self._time_commands(found)
            self._time_questions(memory, found)
            _measure_memory(daemon, found)
        self._weigh(daemon, found)
        return found

    def _fill(self, size: int, found: Figures) -> None:
        """Stream events in. What one costs is measured in the last half of the last chunk."""
        corpus = self._folder / "corpus.bin"
        pause = 0.0
        with Daemon(self._folder, STORING) as daemon:
            self._environ = {**os.environ, **daemon.environ}
            while self._size < size:
                count = min(CHUNK, size - self._size)
                self._write_corpus(corpus, count)
                request = {"port": daemon.port, "callers": 0, "seconds": PATIENCE}
                half = count // 2
                with Process("bench.client", str(corpus)) as client:
                    first = client.ask({**request, "first": 0, "limit": half})
                    cpu = daemon.cpu()
                    last = client.ask({**request, "first": half, "limit": count - half})
                    cpu = daemon.cpu() - cpu
                pause = max(pause, first["pause"], last["pause"])
                self._size += count
        found["event, CPU us"] = cpu.total / last["events"] * 1e6
        found["  of it RocksDB's threads"] = cpu.background / last["events"] * 1e6
        found["event, us"] = last["seconds"] / last["events"] * 1e6
        found["longest pause, ms"] = pause * 1e3

    def _write_corpus(self, path: Path, count: int) -> None:
        day = -(-self._size // EVENTS_PER_DAY)
        conversation.write(
            path,
            count,
            seed=self._size,
            first_ms=self._first_ms + day * conversation.DAY_MS,
            events_per_day=EVENTS_PER_DAY,
        )
        if not self._questions:
            self._questions = list(
                _ask_about(conversation.Corpus(path), self._plan.questions + WARM)
            )

    def _catch_up(self, found: Figures) -> None:
        """Index what was streamed in since the last size, and write its table of contents."""
        # The scheduler would begin at once: what the daemon loads after its start would count too.
        with Daemon(self._folder, STORING) as daemon, _connect(daemon) as memory:
            _wait_until_idle(daemon)
            new = self._read_json("admin", "index-stats")["words_waiting"]
            cpu, began = _sum_cpu(daemon), time.perf_counter()
            self._run_jobs(memory)
            found["event indexed, CPU us"] = (_sum_cpu(daemon) - cpu) / new * 1e6
            found["event indexed, us"] = (time.perf_counter() - began) / new * 1e6

    def _start(self, settings: Mapping[str, object]) -> tuple[float, float]:
        """Return the seconds to the first answer to a hook, and until everything is served."""
        began = time.perf_counter()
        with ThreadPoolExecutor(1) as threads:
            answered = threads.submit(self._wait_for_answer)
            with Daemon(self._folder, settings):
                ready = time.perf_counter()
                return answered.result() - began, ready - began

    def _wait_for_answer(self) -> float:
        """Return when a hook is answered."""
        data = self._folder / ".local/share/agent-memory"
        deadline = time.monotonic() + READY_SECONDS
        while (connection := command_client.connect(str(data))) is None:
            if time.monotonic() > deadline:
                raise RuntimeError("no daemon listens for hooks")
            time.sleep(TICK)
        connection.close()
        self._call_hook("UserPromptSubmit", 0)
        return time.perf_counter()

    def _time_commands(self, found: Figures) -> None:
        """Time hooks and a command, in turns with a bare interpreter."""
        asks: dict[str, Ask] = {
            **{name: partial(self._call_hook, name) for name in HOOKS},
            "memory status": lambda _: self._run_command("memory", "status"),
        }
        found |= _race(asks, ("bare interpreter", lambda _: run(BARE)), self._plan.rounds)

    def _time_questions(self, memory: MemoryClient, found: Figures) -> None:
        """Time questions, in turns with a call that reads nothing."""
        asked = self._questions
        asks: dict[str, Ask] = {"recall": lambda number: memory.search(asked[number], limit=10)}
        bare: tuple[str, Ask] = ("bare call", lambda _: memory.get_scheduler_status())
        found |= _race(asks, bare, self._plan.questions)

    def _weigh(self, daemon: Daemon, found: Figures) -> None:
        """Weigh the stopped store by kind, and the index of words."""
        weight = disk.weigh(daemon.db)
        tables_left = dict(weight.tables)
        kinds = {
            kind: sum(tables_left.pop(name) for name in names) for kind, names in KINDS.items()
        }
        kinds["other families"] = sum(tables_left.values())
        kinds["not tables (WAL, manifest, logs)"] = weight.folder - sum(weight.tables.values())
        kinds["index of words"] = sum(
            path.stat().st_size for path in daemon.index.rglob("*") if path.is_file()
        )
        found["disk, bytes/event"] = sum(kinds.values()) / self._size
        found |= {f"  {kind}": size / self._size for kind, size in kinds.items()}
        found["outbox, rows"] = disk.count_rows(daemon.db, families.OUTBOX)
        found["embedding queue, rows"] = disk.count_rows(daemon.db, families.EMBEDDING_QUEUE)

    def _run_jobs(self, memory: MemoryClient) -> None:
        """Run the jobs until nothing waits to be indexed."""
        for name in (SEGMENTS, ROLLUP, OUTBOX):
            while (error := memory.run_job(name).last_error) is not None:
                if not error.startswith("JobStopped"):  # by its time limit
                    raise SystemExit(f"{name}: {error}")
        while self._read_json("admin", "index-stats")["words_waiting"]:
            memory.run_job(OUTBOX)

    def _call_hook(self, name: str, number: int) -> None:
        call = json.dumps(hooks.build_call(name, number, self._project))
        self._run_command("memory", "hook", "auto", given=call)

    def _read_json(self, *words: str) -> dict[str, Any]:
        answer = self._run_command("memory-daemon", *words, "--format", "json")
        parsed: dict[str, Any] = json.loads(answer)
        return parsed

    def _run_command(self, *words: str, given: str = "") -> str:
        return subprocess.run(
            at_home([sys.executable, "-I", "-S", launch.__file__, *words], self._folder),
            input=given,
            env=self._environ,
            cwd=self._project,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout


@contextmanager
def _connect(daemon: Daemon) -> Iterator[MemoryClient]:
    endpoint = f"http://127.0.0.1:{daemon.port}"
    with MemoryClient.connect(endpoint, timeout_seconds=PATIENCE) as memory:
        yield memory


def _ask_about(corpus: conversation.Corpus, count: int) -> Iterator[str]:
    """Yield questions: three words of some event each."""
    chance = random.Random(0)
    for _ in range(count):
        words = re.findall(r"[a-z]{5,}", corpus.event(chance.randrange(len(corpus))).text)
        yield " ".join(chance.sample(words, 3))


def _wait_until_idle(daemon: Daemon) -> None:
    """Wait until the daemon has loaded what it loads after its start, and no job runs."""
    deadline = time.monotonic() + IDLE_SECONDS
    while time.monotonic() < deadline:
        before = _sum_cpu(daemon)
        time.sleep(LOOK_SECONDS)
        if _sum_cpu(daemon) - before < IDLE_SHARE * LOOK_SECONDS:
            return
    _say("warning: the daemon does not come to rest")


def _sum_cpu(daemon: Daemon) -> float:
    """Return the seconds of CPU of the daemon and its children."""
    return sum(map(cpu_seconds, (daemon.pid, *daemon.children())))


def _measure_memory(daemon: Daemon, found: Figures) -> None:
    found["resident, daemon, MB"] = daemon.resident()
    found["  of it mapped files"] = resident_megabytes(daemon.pid, "RssFile")
    found["resident, its children, MB"] = sum(map(resident_megabytes, daemon.children()))


def _race(asks: Mapping[str, Ask], bare: tuple[str, Ask], rounds: int) -> Figures:
    """Time each in turn with the bare one, after some that fill caches."""
    all_asks = {**asks, bare[0]: bare[1]}
    times: dict[str, list[float]] = {name: [] for name in all_asks}
    for number in range(rounds + WARM):
        for name, ask in all_asks.items():
            began = time.perf_counter()
            ask(number)
            times[name].append(time.perf_counter() - began)
    found: Figures = {}
    least = median(times[bare[0]][WARM:])
    for name in asks:
        taken = times[name][WARM:]
        found[f"{name}, p50 ms"] = median(taken) * 1e3
        found[f"{name}, p99 ms"] = percentile(taken, 0.99) * 1e3
        found[f"{name}, p50 / {bare[0]}"] = median(taken) / least
    return found


def build_rows(found: Sequence[Figures]) -> list[tables.Row]:
    names = dict.fromkeys(name for figures in found for name in figures)
    least = found[0]
    return [
        [name, *(_compare(figures.get(name), least.get(name)) for figures in found)]
        for name in names
    ]


def _compare(value: float | None, least: float | None) -> str:
    """Render a value, and how many times that of the smallest size it is."""
    if value is None:
        return ""
    number = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    if not least:
        return number
    ratio = value / least
    return f"{number} {'flat' if ratio <= FLAT else f'x {ratio:.3g}':>7}"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _parse_sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in text.split(",") if size.isdecimal())
    if text.count(",") + 1 != len(sizes) or sizes[0] < LEAST or list(sizes) != sorted({*sizes}):
        raise argparse.ArgumentTypeError(f"give sizes from {LEAST:,} on, the smallest first")
    return sizes


def _parse_arguments() -> tuple[Plan, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--sizes", type=_parse_sizes, help="such as 10000,100000", default=SIZES)
    parser.add_argument("--full", action="store_true", help="up to 5,000,000 events")
    parser.add_argument("--index-limit", type=int, default=1_000_000, metavar="EVENTS")
    parser.add_argument("--rounds", type=int, default=100, help="of hooks and commands")
    parser.add_argument("--questions", type=int, default=500)
    given = results.parse_options(parser, sizes=QUICK_SIZES, rounds=10, questions=50)
    sizes = FULL if given.full else given.sizes
    return Plan(sizes, given.index_limit, given.rounds, given.questions), given


if __name__ == "__main__":
    main()
