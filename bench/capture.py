"""What a capture costs at 10, 1,000 and 10,000 memories on one commit: `python -m bench.capture`.

Through the CLI (a process for each), through the daemon's command socket (as the CLI does, without
the process), and how long after its answer the note on HEAD shows a capture.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pygit2

from agent_memory import launch
from agent_memory.launcher import command_client
from bench import results
from bench.processes import Daemon, at_home
from bench.results import Table

SIZES = (10, 1_000, 10_000)
FLAT = 2.0
RATE = 100.0
NOTE_SECONDS = 1.0
PATIENCE = 30.0
REF = "refs/notes/mem/decisions"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--notes", type=int, default=20)
    options = results.parse_options(parser, rounds=5, notes=1)
    numbers = count()
    with tempfile.TemporaryDirectory(prefix="am-") as name:
        folder = Path(name)
        repository = made(folder / "shop")
        settings = {"scheduler.enabled": True, "embedder.provider": "none"}
        with Daemon(folder, settings) as daemon:
            os.environ.update(daemon.environ)
            os.chdir(repository)
            rows = [
                measured(size, repository, numbers, options.rounds, options.notes) for size in SIZES
            ]
    results.report(options, "capture", [table(rows, options.rounds)])


Measured = dict[str, list[float]]


def measured(
    size: int, repository: Path, numbers: Iterator[int], rounds: int, notes: int
) -> Measured:
    fill(size, repository, numbers)
    return {
        "bare": times(rounds, lambda: run([sys.executable, "-I", "-S", "-c", "pass"])),
        "cli": times(rounds, lambda: run(command(said(numbers)))),
        "daemon": times(rounds, lambda: through_socket(said(numbers))),
        "note": [noted(repository, said(numbers)) for _ in range(notes)],
    }


def table(measured: Sequence[Measured], rounds: int) -> Table:
    rows = []
    for size, found in zip(SIZES, measured, strict=True):
        cli, daemon = (statistics.median(found[name]) for name in ("cli", "daemon"))
        first_cli, first_daemon = (
            statistics.median(measured[0][name]) for name in ("cli", "daemon")
        )
        rate = len(found["daemon"]) / sum(found["daemon"])
        worst = max(found["note"])
        flat = f"<= {FLAT:g} x the first"
        rows += [
            [f"{size:,} there: CLI p50, ms", f"{cli * 1e3:.1f}",
             f"{cli / first_cli:.2f}", verdict(flat, cli <= FLAT * first_cli)],
            ["  of it a bare interpreter", f"{statistics.median(found['bare']) * 1e3:.1f}", "", ""],
            ["  CLI, captures/s", f"{len(found['cli']) / sum(found['cli']):.0f}", "", ""],
            ["  daemon p50, ms", f"{daemon * 1e3:.1f}",
             f"{daemon / first_daemon:.2f}",
             verdict(flat, daemon <= FLAT * first_daemon)],
            ["  daemon, captures/s", f"{rate:.0f}", "", verdict(f">= {RATE:g}", rate >= RATE)],
            ["  note on HEAD, median s", f"{statistics.median(found['note']):.2f}", "", ""],
            ["  note on HEAD, longest s", f"{worst:.2f}", "",
             verdict(f"<= {NOTE_SECONDS:g}", worst <= NOTE_SECONDS)],
            [],
        ]  # fmt: skip
    head = ["memories on the commit", "measured", "ratio", "goal"]
    return Table(f"bench.capture, {rounds} rounds", head, rows[:-1])


def verdict(text: str, met: bool) -> str:
    return f"{text} {'ok' if met else 'SHORT'}"


def times(rounds: int, action: Callable[[], object]) -> list[float]:
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        found.append(time.perf_counter() - started)
    return found


def said(numbers: Iterator[int]) -> str:
    return f"Decision {next(numbers)}: keep the orders in one place and the rest beside it"


def command(summary: str) -> list[str]:
    words = [sys.executable, "-I", "-S", launch.__file__, "memory", "capture", "decisions", summary]
    return at_home(words, os.environ["HOME"])


def run(arguments: Sequence[str]) -> None:
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)


def through_socket(summary: str) -> None:
    """As the launcher does it."""
    connection = command_client.connect(command_client.data_folder())
    if connection is None:
        raise RuntimeError("the daemon is gone")
    try:
        command_client.send(
            connection, command_client.hello("memory", ["capture", "decisions", summary])
        )
        while True:
            kind, payload = command_client.receive(connection)
            if kind == command_client.EXIT:
                break
        if int.from_bytes(payload, "big"):
            raise RuntimeError(f"a capture ended with {payload!r}")
    finally:
        connection.close()


def noted(repository: Path, summary: str) -> float:
    """Seconds from the answer until the note shows it."""
    through_socket(summary)
    started = time.perf_counter()
    while summary.encode() not in note(repository):
        if time.perf_counter() - started > PATIENCE:
            raise RuntimeError("the note does not come")
        time.sleep(0.005)
    return time.perf_counter() - started


def note(repository: Path) -> bytes:
    opened = pygit2.Repository(str(repository))
    try:
        return opened.lookup_note(str(opened.head.target), REF).message.encode()
    except KeyError:
        return b""
    finally:
        opened.free()


def fill(size: int, repository: Path, numbers: Iterator[int]) -> None:
    """As many memories as are missing, and the notes written."""
    found = json.loads(told("list", "--format", "json", "--limit", "1"))["total"]
    if found < size:
        records = [
            {"namespace": "decisions", "summary": said(numbers), "content": "Because. " * 30}
            for _ in range(size - found)
        ]
        file = repository.with_name("records.json")
        file.write_text(json.dumps(records))
        told("import", str(file))
    told("sync")


def told(*arguments: str) -> str:
    words = [sys.executable, "-I", "-S", launch.__file__, "memory", *arguments]
    at = at_home(words, os.environ["HOME"])
    return subprocess.run(at, check=True, capture_output=True, text=True).stdout


def made(folder: Path) -> Path:
    repository = pygit2.init_repository(str(folder))
    someone = pygit2.Signature("Someone", "someone@example.org")
    tree = repository.TreeBuilder().write()
    repository.create_commit("HEAD", someone, someone, "first", tree, [])
    repository.free()
    return folder


if __name__ == "__main__":
    main()
