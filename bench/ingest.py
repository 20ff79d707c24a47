"""How fast, how small and how steady ingest is, next to peers in the same run.

python -m bench.ingest [--seconds S] [--events N] [--quick] [--filter | --states]

With `--filter`, nothing but what the secrets filter costs; with `--states`, nothing but what the
background work of the daemon costs, on a quiet machine and with other work on every core.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench import conversation, disk, results, states, tables
from bench.processes import Cpu, Daemon, Process
from bench.results import Group, Plot, Table
from bench.states import Subject

CALLERS = (1, 16, 64)
THREADS = 64
FAMILIES = ("events", "event_ids", "session_events", "outbox")
# Windows of the flatness run as shares of all events. The first ends before the first flush of
# a million-event run; each later one is wide enough to hold its share of compactions.
WINDOWS = ((0.005, 0.02), (0.06, 0.14), (0.2, 0.4), (0.8, 1.0))

ECHO_SHARES = {1: 0.7, 64: 0.85}  # by callers
LOOP_SHARE = 0.5
SQLITE_FACTOR = 5.0
FILTER_SHARE = 0.9
EVENT_BYTES = 400.0
FLATNESS = 1.2
STATE_CALLERS = (1, 64)
# Everything on, to the scheduler off; by whether other work keeps every core busy.
STATE_SHARES = {False: 0.9, True: 0.75}
OFF, ON, BACKLOG = "scheduler off", "everything on", "everything on, backlog"

# By the name of a contender: the same with `security.secrets = off`.
UNFILTERED = {name: f"{name} off" for name in (f"unary {CALLERS[-1]}", "stream")}
HEAD = ("ingest of 500-byte events", "measured", "CPU µs/event", "ratio", "to", "goal", "verdict")
STATE_HEAD = ("unary ingest", "measured", "p50 ms", "p99 ms", "ratio", "to", "goal", "verdict")


class Sample(NamedTuple):
    """What one round of a contender gave. Only unary calls have `p50` and `p99`, in ms, and only a
    stream has its longest `pause` between two answers."""

    events: int
    seconds: float
    cpu: Cpu
    p50: float = 0.0
    p99: float = 0.0
    pause: float = 0.0


Measure = Callable[[], Sample]


@dataclass
class Rounds:
    """What the rounds of one contender gave."""

    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    p50s: list[float] = field(default_factory=list)
    p99s: list[float] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        if not sample.events:
            raise RuntimeError("a round answered no event")
        self.rates.append(sample.events / sample.seconds)
        self.costs.append(sample.cpu.total / sample.events * 1e6)
        self.p50s.append(sample.p50)
        self.p99s.append(sample.p99)

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
    ) -> Sample:
        before = server.cpu()
        answer = self._process.ask(
            {"port": port, "callers": callers, "seconds": seconds, "limit": limit,
             "first": self.sent if fresh else 0}
        )  # fmt: skip
        spent = server.cpu() - before
        if fresh:
            self.sent += answer["events"]
        return Sample(cpu=spent, **answer)


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
        shown: list[Table] = []
        plots: list[Plot] = []
        if not arguments.states:
            rounds = _throughput(
                folder, corpus, arguments.seconds, arguments.rounds, every=not arguments.filter
            )
            title, rows = _title(arguments), _filter_rows(rounds)
            if not arguments.filter:
                title += f"; {arguments.events:,} events"
                rows = [*_speed_rows(rounds), (), *rows, ()]
                rows += _growth_rows(folder, corpus, arguments)
            shown.append(Table(title, HEAD, rows))
        if not arguments.filter:
            found, end = _in_states(folder, corpus, arguments.seconds, arguments.rounds)
            rows, groups = _state_rows(found)
            shown.append(Table(f"{_title(arguments)}; {end}", STATE_HEAD, rows))
            plots.append(Plot("ingest-states", "Unary ingest: events a second", groups))
    results.report(arguments, "ingest", shown, plots)
    return 0


def _title(arguments: argparse.Namespace) -> str:
    return (
        f"{arguments.rounds} interleaved rounds of {arguments.seconds:g} s, medians;"
        f" {os.cpu_count()} cores shared by client and server"
    )


def _throughput(
    folder: Path, corpus: Path, seconds: float, count: int, *, every: bool
) -> dict[str, Rounds]:
    """All contenders, each once a round, in one order and then in the other."""
    with ExitStack() as stack:
        sender = stack.enter_context(Process("bench.client", str(corpus)))
        client, other = Client(sender), Client(sender)  # each store gets each event once
        daemon = stack.enter_context(Daemon(folder / "speed"))
        unfiltered = stack.enter_context(Daemon(folder / "unfiltered", {"security.secrets": "off"}))
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
            contenders[f"echo {callers}"] = drive_calls(
                client, echo, echo_port, callers, seconds, fresh=False
            )
            contenders[f"unary {callers}"] = drive_calls(
                client, daemon, daemon.port, callers, seconds
            )
        # Next to what it is compared with.
        contenders[UNFILTERED[f"unary {CALLERS[-1]}"]] = drive_calls(
            other, unfiltered, unfiltered.port, CALLERS[-1], seconds
        )
        contenders[UNFILTERED["stream"]] = drive_calls(
            other, unfiltered, unfiltered.port, 0, seconds
        )
        contenders["stream"] = drive_calls(client, daemon, daemon.port, 0, seconds)
        contenders["loop"] = _asked(loop, {"seconds": seconds, "threads": THREADS})
        contenders["sqlite"] = _asked(sqlite, {"seconds": seconds})

        if not every:
            compared = {*UNFILTERED, *UNFILTERED.values()}
            contenders = {name: run for name, run in contenders.items() if name in compared}
        return race(contenders, count)


def _in_states(
    folder: Path, corpus: Path, seconds: float, count: int
) -> tuple[dict[bool, dict[str, Rounds]], str]:
    """Unary calls with the scheduler off, with everything on, and with a backlog beside; first on a
    quiet machine and then with other work on every core. And how the backlog ended."""
    with ExitStack() as stack:
        sender = stack.enter_context(Process("bench.client", str(corpus)))
        echo = stack.enter_context(Process("bench.echo"))
        port = int(echo.ask({})["port"])
        contenders: dict[str, Measure] = {}
        for callers in STATE_CALLERS:
            contenders[f"echo {callers}"] = drive_calls(
                Client(sender), echo, port, callers, seconds, fresh=False
            )
        subjects = {}
        for name, settings in (
            (OFF, {}),
            (ON, states.EVERYTHING_ON),
            (BACKLOG, states.EVERYTHING_ON),
        ):
            daemon = stack.enter_context(Daemon(folder / name.replace(", ", "-"), settings))
            if name == BACKLOG:
                _say(f"recording a backlog of {states.BACKLOG_EVENTS:,} ...")
                states.add_backlog(daemon)
            subjects[name] = Subject(daemon, documents=states.count_documents(daemon))
            daemon.freeze()
            client = Client(sender)
            for callers in STATE_CALLERS:
                contenders[f"{name} {callers}"] = _in_turn(subjects[name], client, callers, seconds)
        found = {False: race(contenders, count)}
        with states.busy_cores(os.cpu_count() or 1):
            found[True] = race(contenders, count)
        return found, states.describe_backlog(subjects[BACKLOG])


def race(contenders: Mapping[str, Measure], count: int) -> dict[str, Rounds]:
    # A first round, not counted: connections, imports and first pages cost once.
    for measure in contenders.values():
        measure()
    rounds = {name: Rounds() for name in contenders}
    for name in _order(contenders, count):
        found = rounds[name]
        found.add(contenders[name]())
        _say(f"{name:10} {found.rates[-1]:9,.0f}/s {found.costs[-1]:7.1f} µs")
    return rounds


def _order(contenders: Mapping[str, Measure], count: int) -> Iterator[str]:
    for number in range(count):
        yield from contenders if number % 2 else reversed(list(contenders))


def drive_calls(
    client: Client, server: Process, port: int, callers: int, seconds: float, *, fresh: bool = True
) -> Measure:
    def measure() -> Sample:
        return client.drive(server, port, callers, seconds=seconds, limit=1 << 40, fresh=fresh)

    return measure


def _in_turn(subject: Subject, client: Client, callers: int, seconds: float) -> Measure:
    measure = drive_calls(client, subject.daemon, subject.daemon.port, callers, seconds)

    def measure_thawed() -> Sample:
        with subject.turn():
            return measure()

    return measure_thawed


def _asked(process: Process, request: dict[str, Any]) -> Measure:
    first = 0

    def measure() -> Sample:
        nonlocal first
        answer = process.ask({**request, "first": first})
        first += answer["events"]
        return Sample(answer["events"], answer["seconds"], Cpu(answer["cpu"], 0.0))

    return measure


def _flatness(folder: Path, corpus: Path, total: int) -> tuple[list[Window], Path]:
    """Stream all events into an empty store, with a look at the clocks at each window's ends."""
    windows: list[Window] = []
    with Process("bench.client", str(corpus)) as process, Daemon(folder) as daemon:
        client = Client(process)
        for start, end in WINDOWS:
            _stream(client, daemon, int(start * total) - client.sent)
            found = _stream(client, daemon, int(end * total) - client.sent)
            rate, each = found.events / found.seconds, 1e6 / found.events
            windows.append(
                Window(client.sent, rate, found.cpu.total * each, found.cpu.background * each)
            )
            _say(f"{windows[-1]}")
    return windows, daemon.db


def _stream(client: Client, daemon: Daemon, limit: int) -> Sample:
    return client.drive(daemon, daemon.port, 0, seconds=1e9, limit=limit, fresh=True)


def _growth_rows(folder: Path, corpus: Path, arguments: argparse.Namespace) -> list[tables.Row]:
    """Whether time and disk per event stay the same, over many events."""
    windows, db = _flatness(folder / "flat", corpus, arguments.events)
    _say("compacting ...")
    weight = disk.compacted(db)
    if weight.keys["event_ids"] != arguments.events:
        raise RuntimeError(f"{arguments.events} events sent, {weight.keys['event_ids']} stored")
    return [*_disk_rows(weight, arguments.events), (), *_flat(windows)]


def _state_rows(found: Mapping[bool, Mapping[str, Rounds]]) -> tuple[list[tables.Row], list[Group]]:
    rows: list[tables.Row] = []
    groups = []
    for busy, rounds in found.items():
        for callers in STATE_CALLERS:
            machine = "other work on all cores" if busy else "quiet machine"
            label = f"{machine}, {callers} caller{'s' * (callers > 1)}"
            echo, off = rounds[f"echo {callers}"], rounds[f"{OFF} {callers}"]
            goal = None if busy else ECHO_SHARES[callers]
            rows.append((f"{label}: bare gRPC echo", *show_latencies(echo), "", "", "", ""))
            judged = judge(off.rate / echo.rate, "unary/echo", at_least=goal)
            rows.append((f"  {OFF}", *show_latencies(off), *judged))
            for name in (ON, BACKLOG):
                on = rounds[f"{name} {callers}"]
                judged = judge(on.rate / off.rate, "on/off", at_least=STATE_SHARES[busy])
                rows.append((f"  {name}", *show_latencies(on), *judged))
            values = {name: rounds[f"{name} {callers}"].rate for name in (OFF, ON, BACKLOG)}
            groups.append(Group(label, values, off.rate * STATE_SHARES[busy]))
        rows.append(())
    return rows[:-1], groups


def show_latencies(rounds: Rounds) -> tuple[str, str, str]:
    return _rate(rounds), f"{median(rounds.p50s):.2f}", f"{median(rounds.p99s):.2f}"


def _speed_rows(rounds: dict[str, Rounds]) -> list[tables.Row]:
    unary, stream = f"unary {CALLERS[-1]}", rounds["stream"].rate
    loop, sqlite = rounds["loop"], rounds["sqlite"]
    rows: list[tables.Row] = []
    for callers in CALLERS:
        real, bare = rounds[f"unary {callers}"], rounds[f"echo {callers}"]
        rows.append(_row(f"gRPC unary, callers: {callers}", _rate(real), _cost(real)))
        goal = ECHO_SHARES.get(callers)
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
    if ratio is None:
        return name, measured, cost, "", to, "", ""
    return name, measured, cost, *judge(ratio, to, at_least=at_least, at_most=at_most)


def judge(
    ratio: float, to: str, *, at_least: float | None = None, at_most: float | None = None
) -> tuple[str, str, str, str]:
    shown = f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}"
    if at_least is not None:
        return shown, to, f">= {at_least:g}", _verdict(ratio >= at_least)
    if at_most is not None:
        return shown, to, f"<= {at_most:g}", _verdict(ratio <= at_most)
    return shown, to, "", ""


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
    # Short rounds in quick turn: what else the machine does then falls on all contenders alike.
    parser.add_argument("--seconds", type=float, default=1.0, help="of one round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--events", type=int, default=1_000_000, help="of the flatness run")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--filter", action="store_true", help="only what the secrets filter costs")
    part.add_argument("--states", action="store_true", help="only what background work costs")
    found = results.parse_options(parser, argv, seconds=0.5, rounds=5, events=60_000)
    # Enough for the busiest contender (the stream with the unary rounds) at a high guess.
    sent = int(found.seconds * (found.rounds + 1) * (20_000 if found.states else 60_000))
    found.corpus = sent if found.states else max(found.events, sent)
    return found


if __name__ == "__main__":
    sys.exit(main())
