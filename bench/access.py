"""What it costs to look up the user of each connection, next to a daemon that does not.

python -m bench.access [--seconds S] [--rounds N]
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import conversation, tables
from bench.ingest import Client, Rounds
from bench.processes import Daemon, Process

CALLERS = (1, 64)
SHARE = 0.95
HEAD = ("unary ingest over TCP", "looked up", "open", "CPU µs/event", "open", "CPU ratio", "goal")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench-access-") as name, ExitStack() as stack:
        folder = Path(name)
        corpus = folder / "corpus.bin"
        conversation.write(corpus, 400_000)
        settings = folder / "open/.config/agent-memory/config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text("grpc.require_key = false\n")
        sender = stack.enter_context(Process("bench.client", str(corpus)))
        # Each store gets each event once.
        servers = {
            name: (Client(sender), stack.enter_context(Daemon(folder / name)))
            for name in ("guarded", "open")
        }
        rounds = {(name, callers): Rounds() for callers in CALLERS for name in servers}
        for number in range(arguments.rounds + 1):
            order = list(rounds) if number % 2 else list(reversed(rounds))
            for each in order:
                (client, server), callers = servers[each[0]], each[1]
                sample = client.drive(
                    server,
                    server.port,
                    callers,
                    seconds=arguments.seconds,
                    limit=1 << 40,
                    fresh=True,
                )
                if number:  # the first round is for connections and imports
                    rounds[each].add(sample)
    title = f"{arguments.rounds} interleaved rounds of {arguments.seconds:g} s, medians"
    sys.stdout.write(tables.render(title, HEAD, [_row(rounds, callers) for callers in CALLERS]))
    return 0


def _row(rounds: dict[tuple[str, int], Rounds], callers: int) -> tuple[str, ...]:
    guarded, free = (rounds[name, callers] for name in ("guarded", "open"))
    return (
        f"{callers} callers",
        f"{guarded.rate:,.0f}/s",
        f"{free.rate:,.0f}/s",
        f"{guarded.cost:.1f}",
        f"{free.cost:.1f}",
        f"{free.cost / guarded.cost:.3f}",
        f">= {SHARE:g}",
    )


if __name__ == "__main__":
    sys.exit(main())
