"""The states that benches measure a daemon in, all of them in one run.

idle      nothing in the background: the scheduler is off
stream    everything on, and a program records 20 new events a second
backlog   everything on, and 20,000 older events wait to be indexed and embedded

Each state has a daemon of its own on a copy of one store. All but the one whose turn it is are
frozen with their children: their background work would slow it down.
"""

import shutil
import statistics
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_memory.features.index.adapters.bge import Bge
from agent_memory.features.index.adapters.vectors import FlatVectors
from bench import recall_data, tables
from bench.launch import percentile, verdict
from bench.processes import Daemon, Process
from bench.results import Group, Plot

IDLE, STREAM, BACKLOG = "idle", "stream", "backlog"
EVERYTHING_ON: dict[str, object] = {"scheduler.enabled": True}
WORDS_ALONE: dict[str, object] = {"embedder.provider": "none"}
BACKLOG_EVENTS = 20_000
BACKLOG_AT = 50_000_000  # number of its first turn
INDEXING = "outbox-processor"
EMBEDDING = "backlog-embedder"
JOBS = ("segment-summarizer", "hourly-rollup", INDEXING)
RATIO = 1.5
HEAD = ("", "calls", "median ms", "p99 ms", "median / idle", "p99 / idle", "goal")

Times = Sequence[float]  # seconds


@dataclass(frozen=True, slots=True)
class Subject:
    """A daemon in one of the states. It runs in its turns only."""

    daemon: Daemon
    feeder: Process | None = None
    catches_up: bool = False
    documents: int = 0  # in its indexes before its first turn

    @contextmanager
    def turn(self) -> Iterator[Daemon]:
        processes = [self.daemon] if self.feeder is None else [self.daemon, self.feeder]
        for process in processes:
            process.thaw()
        try:
            if self.catches_up:  # a search reads all that is not indexed
                catch_up(self.daemon)
            yield self.daemon
        finally:
            for process in reversed(processes):
                process.freeze()


@contextmanager
def open_states(
    store: Path, settings: Mapping[str, object] | None = None
) -> Iterator[dict[str, Subject]]:
    """Bring a daemon into each state, on copies of a folder that a daemon has written.

    What it holds counts as embedded, as to embed 100,000 events takes an hour."""
    FlatVectors(store / ".local/share/agent-memory/index/vectors", Bge().model).mark_complete()
    folders = {name: store.with_name(f"{store.name}-{name}") for name in (IDLE, STREAM, BACKLOG)}
    with ExitStack() as stack:
        subjects = {}
        for name, folder in folders.items():
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            shutil.copytree(store, folder)
            on = {} if name == IDLE else EVERYTHING_ON
            daemon = stack.enter_context(Daemon(folder, {**on, **(settings or {})}))
            with daemon.connect() as memory:
                memory.search("a question to be embedded")  # loads the model
            feeder = None
            if name == STREAM:
                feeder = stack.enter_context(Process("bench.feeder", str(daemon.port)))
                feeder.ask({})
                feeder.freeze()
            if name == BACKLOG:
                add_backlog(daemon)
            documents = count_documents(daemon)
            daemon.freeze()
            subjects[name] = Subject(daemon, feeder, name == IDLE, documents)
        yield subjects


def take_turns(subjects: Mapping[str, Subject], rounds: int) -> Iterator[tuple[str, Daemon]]:
    """Let each state run once a round, in one order and then in the other."""
    for number in range(rounds):
        for name in subjects if number % 2 else reversed(list(subjects)):
            with subjects[name].turn() as daemon:
                yield name, daemon


def add_backlog(daemon: Daemon) -> None:
    with daemon.connect() as memory:
        memory.ingest_batch(recall_data.turns(BACKLOG_EVENTS, first=BACKLOG_AT))


def catch_up(daemon: Daemon, jobs: Sequence[str] = (INDEXING,)) -> None:
    """Do the work that waits while the scheduler is off."""
    with daemon.connect() as memory:
        for name in jobs:
            job = memory.run_job(name)
            if job.last_error:
                raise RuntimeError(f"{name}: {job.last_error}")


def count_documents(daemon: Daemon) -> int:
    stats = daemon.index_stats()
    return int(stats["words"]["documents"]) + int(
        (stats["vectors"] or {"documents": 0})["documents"]
    )


def count_waiting(daemon: Daemon) -> int:
    """Count the records that wait for the index of words or to be embedded."""
    stats = daemon.index_stats()
    return int(stats["words_waiting"]) + int(stats["vectors_waiting"])


def describe_end(subjects: Mapping[str, Subject]) -> str:
    """Say whether the daemons were in their states until the end."""
    feeder = subjects[STREAM].feeder
    backlog = describe_backlog(subjects[BACKLOG])
    if feeder is None or not feeder.is_running():
        return f"THE STREAM ENDED EARLY, its figures are partly of an idle store; {backlog}"
    return backlog


def describe_backlog(subject: Subject) -> str:
    with subject.turn() as daemon:
        done = count_documents(daemon) - subject.documents
        waiting = count_waiting(daemon)
    shown = f"backlog: {done:,} indexed or embedded meanwhile, {waiting:,} wait at the end"
    return shown if waiting else f"THE BACKLOG ENDED EARLY, its figures are partly idle; {shown}"


def compare(
    times: Mapping[str, Mapping[str, Times]], judged: Collection[str] = ()
) -> tuple[list[tables.Row], list[Group]]:
    """Return the rows, and the bars of p99, for the times of each thing in each state. Those of
    `judged` should take at most `RATIO` times as long as on an idle store."""
    rows: list[tables.Row] = []
    groups = []
    for thing, by_state in times.items():
        median, worst = _middle_and_worst(by_state[IDLE])
        for state, values in by_state.items():
            its_median, its_worst = _middle_and_worst(values)
            ratios = (its_median / median, its_worst / worst)
            met = max(ratios) <= RATIO
            rows.append(
                (
                    f"{thing}, {state}",
                    str(len(values)),
                    f"{its_median * 1000:.1f}",
                    f"{its_worst * 1000:.1f}",
                    *(("", "") if state == IDLE else (f"{ratio:.2f}" for ratio in ratios)),
                    verdict(f"<= {RATIO:g}", met) if thing in judged and state != IDLE else "",
                )
            )
        rows.append(())
        worsts = {state: percentile(values, 0.99) * 1000 for state, values in by_state.items()}
        groups.append(Group(thing, worsts, worst * 1000 * RATIO if thing in judged else None))
    return rows[:-1], groups


def plot(name: str, title: str, groups: Sequence[Group]) -> Plot:
    return Plot(f"{name}-states", f"{title}: p99 in ms, by what else the daemon does", groups)


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep cores busy, as builds and tests do."""
    spin = (sys.executable, "-I", "-S", "-c", "while True: sum(range(1000))")
    loops = [subprocess.Popen(spin) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _middle_and_worst(values: Times) -> tuple[float, float]:
    return statistics.median(values), percentile(values, 0.99)
