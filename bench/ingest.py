"""How fast, how small and how steady ingest is, next to peers in the same run.

python -m bench.ingest [--seconds S] [--events N] [--quick] [--filter]

With `--filter`, nothing but what the secrets filter costs.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench import conversation, disk, tables
from bench.processes import Cpu, Daemon, Process

CALLERS = (1, 16, 64)
THREADS = 64
FAMILIES = ("events", "event_ids", "session_events", "outbox")
# Windows of the flatness run as shares of all events. The first ends before the first flush of
# a million-event run; each later one is wide enough to hold its share of compactions.
WINDOWS = ((0.005, 0.02), (0.06, 0.14), (0.2, 0.4), (0.8, 1.0))

ECHO_SHARE = 0.75
LOOP_SHARE = 0.5
SQLITE_FACTOR = 5.0
FILTER_SHARE = 0.9
EVENT_BYTES = 400.0
FLATNESS = 1.2

# By the name of a contender: the same with `security.secrets = off`.
UNFILTERED = {name: f"{name} off" for name in (f"unary {CALLERS[-1]}", "stream")}
HEAD = ("ingest of 500-byte events", "measured", "CPU µs/event", "ratio", "to", "goal", "verdict")
Measure = Callable[[], tuple[int, float, float]]  # events, seconds, seconds of CPU


@dataclass
class Rounds:
    """What the rounds of one contender gave."""

    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def add(self, events: int, seconds: float, cpu: float) -> None:
        if not events:
            raise RuntimeError("a round answered no event")
        self.rates.append(events / seconds)
        self.costs.append(cpu / events * 1e6)

    @property
    def rate(self) -> float:
        return median(self.rates)

    @property
    def cost(self) -> float:
        return median(self.costs)


class Client:
    """Drives servers from a process of its own, each event at most once."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.sent = 0

    def drive(
        self, server: Process, port: int, callers: int, *, seconds: float, limit: int, fresh: bool
    ) -> tuple[int, float, Cpu]:
        before = server.cpu()
        answer = self._process.ask(
            {"port": port, "callers": callers, "seconds": seconds, "limit": limit,
             "first": self.sent if fresh else 0}
        )  # fmt: skip
        spent = server.cpu() - before
        if fresh:
            self.sent += answer["events"]
        return answer["events"], answer["seconds"], spent


@dataclass(frozen=True)
class Window:
    last: int
    rate: float
    cost: float
    background: float


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    with tempfile.TemporaryDirectory(prefix="bench-ingest-") as name:
        folder = Path(name)
        corpus = folder / "corpus.bin"
        _say(f"writing {arguments.corpus:,} events ...")
        conversation.write(corpus, arguments.corpus)
        rounds = _throughput(
            folder, corpus, arguments.seconds, arguments.rounds, all_of_them=not arguments.filter
        )
        if arguments.filter:
            sys.stdout.write(tables.render(_title(arguments), HEAD, _filter_rows(rounds)))
            return 0
        windows, db = _flatness(folder / "flat", corpus, arguments.events)
        _say("compacting ...")
        weight = disk.compacted(db)
        if weight.keys["event_ids"] != arguments.events:
            raise RuntimeError(f"{arguments.events} events sent, {weight.keys['event_ids']} stored")
    rows = [*_speed_rows(rounds), (), *_filter_rows(rounds), ()]
    rows += [*_disk_rows(weight, arguments.events), (), *_flat(windows)]
    title = f"{_title(arguments)}; {arguments.events:,} events"
    sys.stdout.write(tables.render(title, HEAD, rows))
    return 0


def _title(arguments: argparse.Namespace) -> str:
    return (
        f"{arguments.rounds} interleaved rounds of {arguments.seconds:g} s, medians;"
        f" {os.cpu_count()} cores shared by client and server"
    )


def _throughput(
    folder: Path, corpus: Path, seconds: float, count: int, *, all_of_them: bool
) -> dict[str, Rounds]:
    """All contenders, each once a round, in one order and then in the other."""
    with ExitStack() as stack:
        sender = stack.enter_context(Process("bench.client", str(corpus)))
        client, other = Client(sender), Client(sender)  # each store gets each event once
        daemon = stack.enter_context(Daemon(folder / "speed"))
        unfiltered = stack.enter_context(
            Daemon(folder / "unfiltered", {"MEMORY_SECURITY__SECRETS": "off"})
        )
        echo = stack.enter_context(Process("bench.echo"))
        echo_port = int(echo.ask({})["port"])
        loop = stack.enter_context(
            Process("bench.group_commit", str(corpus), str(folder / "loop/db"))
        )
        sqlite = stack.enter_context(
            Process("bench.sqlite_log", str(corpus), str(folder / "events.sqlite"))
        )
        contenders: dict[str, Measure] = {}
        for callers in CALLERS:
            contenders[f"echo {callers}"] = _driven(
                client, echo, echo_port, callers, seconds, fresh=False
            )
            contenders[f"unary {callers}"] = _driven(client, daemon, daemon.port, callers, seconds)
        # Next to what it is compared with.
        contenders[UNFILTERED[f"unary {CALLERS[-1]}"]] = _driven(
            other, unfiltered, unfiltered.port, CALLERS[-1], seconds
        )
        contenders[UNFILTERED["stream"]] = _driven(other, unfiltered, unfiltered.port, 0, seconds)
        contenders["stream"] = _driven(client, daemon, daemon.port, 0, seconds)
        contenders["loop"] = _asked(loop, {"seconds": seconds, "threads": THREADS})
        contenders["sqlite"] = _asked(sqlite, {"seconds": seconds})

        if not all_of_them:
            compared = {*UNFILTERED, *UNFILTERED.values()}
            contenders = {name: run for name, run in contenders.items() if name in compared}
        # A first round, not counted: connections, imports and first pages cost once.
        for measure in contenders.values():
            measure()
        rounds = {name: Rounds() for name in contenders}
        for name in _order(contenders, count):
            found = rounds[name]
            found.add(*contenders[name]())
            _say(f"{name:10} {found.rates[-1]:9,.0f}/s {found.costs[-1]:7.1f} µs")
        return rounds


def _order(contenders: dict[str, Measure], count: int) -> Iterator[str]:
    for number in range(count):
        yield from contenders if number % 2 else reversed(contenders)


def _driven(
    client: Client, server: Process, port: int, callers: int, seconds: float, *, fresh: bool = True
) -> Measure:
    def measure() -> tuple[int, float, float]:
        events, took, cpu = client.drive(
            server, port, callers, seconds=seconds, limit=1 << 40, fresh=fresh
        )
        return events, took, cpu.total

    return measure


def _asked(process: Process, request: dict[str, Any]) -> Measure:
    first = 0

    def measure() -> tuple[int, float, float]:
        nonlocal first
        answer = process.ask({**request, "first": first})
        first += answer["events"]
        return answer["events"], answer["seconds"], answer["cpu"]

    return measure


def _flatness(folder: Path, corpus: Path, total: int) -> tuple[list[Window], Path]:
    """Stream all events into an empty store, with a look at the clocks at each window's ends."""
    windows: list[Window] = []
    with Process("bench.client", str(corpus)) as process, Daemon(folder) as daemon:
        client = Client(process)
        for start, end in WINDOWS:
            _stream(client, daemon, int(start * total) - client.sent)
            events, seconds, cpu = _stream(client, daemon, int(end * total) - client.sent)
            each = 1e6 / events
            windows.append(
                Window(client.sent, events / seconds, cpu.total * each, cpu.background * each)
            )
            _say(f"{windows[-1]}")
    return windows, daemon.db


def _stream(client: Client, daemon: Daemon, limit: int) -> tuple[int, float, Cpu]:
    return client.drive(daemon, daemon.port, 0, seconds=1e9, limit=limit, fresh=True)


def _speed_rows(rounds: dict[str, Rounds]) -> list[tables.Row]:
    unary, stream = f"unary {CALLERS[-1]}", rounds["stream"].rate
    loop, sqlite = rounds["loop"], rounds["sqlite"]
    rows: list[tables.Row] = []
    for callers in CALLERS:
        real, bare = rounds[f"unary {callers}"], rounds[f"echo {callers}"]
        rows.append(_row(f"gRPC unary, callers: {callers}", _rate(real), _cost(real)))
        goal = ECHO_SHARE if callers == CALLERS[-1] else None
        rows.append(
            _row(f"  (a) bare gRPC echo, callers: {callers}", _rate(bare), _cost(bare),
                 real.rate / bare.rate, "unary/echo", at_least=goal)
        )  # fmt: skip
    rows.append(
        _row("gRPC stream, 100 a message", _rate(rounds["stream"]), _cost(rounds["stream"]))
    )
    rows.append(
        _row(f"  (b) group commit, {THREADS} threads, no gRPC", _rate(loop), _cost(loop),
             stream / loop.rate, "stream/loop", at_least=LOOP_SHARE)
    )  # fmt: skip
    rows.append(
        _row("  (c) SQLite WAL FULL, commit per event", _rate(sqlite), _cost(sqlite),
             rounds[unary].rate / sqlite.rate, "unary/SQLite", at_least=SQLITE_FACTOR)
    )  # fmt: skip
    rows.append(
        _row("", "", "", stream / sqlite.rate, "stream/SQLite", at_least=SQLITE_FACTOR)
    )  # fmt: skip
    return rows


def _filter_rows(rounds: dict[str, Rounds]) -> list[tables.Row]:
    rows: list[tables.Row] = []
    for name, unfiltered in UNFILTERED.items():
        real, bare = rounds[name], rounds[unfiltered]
        goal = FILTER_SHARE if name.startswith("unary") else None
        rows.append(_row(f"{name}, with the secrets filter", _rate(real), _cost(real)))
        rows.append(
            _row("  (d) secrets = off", _rate(bare), _cost(bare), real.rate / bare.rate, "on/off",
                 at_least=goal)
        )  # fmt: skip
        rows.append(_row("      by CPU", "", "", bare.cost / real.cost, "on/off"))
    return rows


def _disk_rows(weight: disk.Weight, events: int) -> list[tables.Row]:
    rows = [_row("disk, compacted, whole folder", "", "", weight.folder / events, "bytes/event",
                 at_most=EVENT_BYTES)]  # fmt: skip
    named = {name: weight.tables.get(name, 0) for name in FAMILIES}
    named["other families"] = sum(weight.tables.values()) - sum(named.values())
    named["not tables (WAL, manifest, logs)"] = weight.folder - sum(weight.tables.values())
    rows += [
        _row(f"  {name}", "", "", size / events, "bytes/event") for name, size in named.items()
    ]
    return rows


def _flat(windows: Sequence[Window]) -> list[tables.Row]:
    first, last = windows[0], windows[-1]
    rows = [
        _row(f"stream, up to event {window.last:,}", f"{window.rate:,.0f}/s",
             f"{window.cost:.1f} ({window.background:.1f} bg)")
        for window in windows
    ]  # fmt: skip
    rows.append(_row("  time per event, last window to first", "", "", first.rate / last.rate,
                     "last/first", at_most=FLATNESS))  # fmt: skip
    rows.append(_row("  CPU per event, last window to first", "", "", last.cost / first.cost,
                     "last/first", at_most=FLATNESS))  # fmt: skip
    return rows


def _row(
    name: str, measured: str, cost: str, ratio: float | None = None, to: str = "",
    *, at_least: float | None = None, at_most: float | None = None,
) -> tables.Row:  # fmt: skip
    shown = "" if ratio is None else f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}"
    if ratio is not None and at_least is not None:
        return name, measured, cost, shown, to, f">= {at_least:g}", _verdict(ratio >= at_least)
    if ratio is not None and at_most is not None:
        return name, measured, cost, shown, to, f"<= {at_most:g}", _verdict(ratio <= at_most)
    return name, measured, cost, shown, to, "", ""


def _rate(rounds: Rounds) -> str:
    return f"{rounds.rate:,.0f}/s"


def _cost(rounds: Rounds) -> str:
    return f"{rounds.cost:.1f}"


def _verdict(reached: bool) -> str:
    return "ok" if reached else "short"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=__doc__)
    parser.add_argument("--seconds", type=float, help="of one round")
    parser.add_argument("--events", type=int, help="of the flatness and disk run")
    parser.add_argument("--quick", action="store_true", help="short rounds, 60,000 events")
    parser.add_argument("--filter", action="store_true", help="only what the secrets filter costs")
    found = parser.parse_args(argv)
    # Short rounds in quick turn: what else the machine does then falls on all contenders alike.
    found.seconds = found.seconds or (0.5 if found.quick else 1.0)
    found.events = found.events or (60_000 if found.quick else 1_000_000)
    found.rounds = 5 if found.quick else 15
    # Enough for the busiest contender (the stream with the unary rounds) at a high guess.
    found.corpus = max(found.events, int(found.seconds * (found.rounds + 1) * 40_000))
    return found


if __name__ == "__main__":
    sys.exit(main())
