"""A checkpoint of a graph beside one of langgraph's SQLite saver: `python -m bench.checkpoints`.

Both answer a put when it is on disk (SQLite: journal_mode=WAL, synchronous=FULL). They take turns,
put by put, with the same states; ours goes through the daemon's socket.
"""

import argparse
import asyncio
import random
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    empty_checkpoint,
)
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from agent_memory.client.langgraph import AgentMemorySaver
from bench import results
from bench.processes import Daemon
from bench.results import Table

SIZES = {"2 KB": 2_000, "100 KB": 100_000}
GOAL_MS = 2.0
OURS, THEIRS = "ours", "SQLite"
WORDS = ("order", "retry", "queue", "index", "commit", "deploy", "rollback", "schema", "cache")

Times = dict[tuple[str, str, str], list[float]]  # state, action, saver


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    options = results.parse_options(parser, rounds=10)
    rounds = options.rounds
    times: Times = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="am-") as name,
        Daemon(Path(name)) as daemon,
        AgentMemorySaver.connect(f"http://127.0.0.1:{daemon.port}") as over_tcp,
        AgentMemorySaver.connect(f"unix:{daemon.socket}") as ours,
        sqlite(Path(name) / "checkpoints.sqlite") as theirs,
    ):
        savers: dict[str, BaseCheckpointSaver[Any]] = {OURS: ours, THEIRS: theirs}
        for size in SIZES:
            turns(size, 20, savers, defaultdict(list))
            turns(size, rounds, savers, times)
            turns(size, rounds, {"ours, over TCP": over_tcp}, times)
            awaited(size, rounds, ours, times)
    results.report(options, "checkpoints", [table(times, rounds)])


def turns(
    size: str, rounds: int, savers: dict[str, BaseCheckpointSaver[Any]], times: Times
) -> None:
    """One put, one put of writes, one get, by each in turn; who is first changes."""
    draw = random.Random(size)
    configs = {name: thread(f"{size} {name} {uuid6()}") for name in savers}
    for number in range(rounds):
        checkpoint = state(SIZES[size], draw)
        order = list(savers) if number % 2 else list(reversed(savers))
        for name in order:
            saver = savers[name]
            with timed(times[size, "put", name]):
                stored = saver.put(
                    configs[name], checkpoint, {"source": "loop", "step": number}, {}
                )
            configs[name] = stored
        for name in order:
            with timed(times[size, "put writes", name]):
                savers[name].put_writes(configs[name], [("messages", ["a", "b"])], "task")
        for name in order:
            with timed(times[size, "get", name]):
                found = savers[name].get_tuple(thread(configs[name]["configurable"]["thread_id"]))
            if found is None or found.checkpoint["id"] != checkpoint["id"]:
                raise RuntimeError(f"{name} does not give back what was put")


def awaited(size: str, rounds: int, saver: AgentMemorySaver, times: Times) -> None:
    """Do the same with asyncio."""

    async def run() -> None:
        draw = random.Random(size)
        config = thread(f"{size} awaited {uuid6()}")
        for number in range(rounds):
            checkpoint = state(SIZES[size], draw)
            with timed(times[size, "put", "ours, awaited"]):
                config = await saver.aput(config, checkpoint, about(number), {})
            with timed(times[size, "get", "ours, awaited"]):
                await saver.aget_tuple(config)

    asyncio.run(run())


@contextmanager
def timed(into: list[float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    into.append(time.perf_counter() - started)


def thread(name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


def about(step: int) -> CheckpointMetadata:
    return {"source": "loop", "step": step, "parents": {}}


def state(size: int, draw: random.Random) -> Checkpoint:
    """Build a conversation of about so many bytes."""
    messages: list[dict[str, str]] = []
    while size > 0:
        text = " ".join(draw.choices(WORDS, k=draw.randint(5, 60)))
        messages.append({"role": "user", "content": text})
        size -= len(text) + 25
    return {
        **empty_checkpoint(),
        "id": str(uuid6()),
        "channel_values": {"messages": messages},
        "channel_versions": {"messages": len(messages)},
    }


@contextmanager
def sqlite(path: Path) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        saver.setup()
        connection.execute("PRAGMA synchronous=FULL")
        names = ("journal_mode", "synchronous")
        modes = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
        if modes != ["wal", 2]:
            raise RuntimeError(f"SQLite runs with {modes}")
        yield saver


def table(times: Times, rounds: int) -> Table:
    rows: list[list[str]] = []
    for size in SIZES:
        for action in ("put", "put writes", "get"):
            for (_, _, saver), found in sorted(
                (key, value) for key, value in times.items() if key[:2] == (size, action)
            ):
                p50, p99 = (quantile(found, q) * 1e3 for q in (0.5, 0.99))
                beyond = p50 - quantile(times[size, action, THEIRS], 0.5) * 1e3
                judged = saver == OURS
                rows.append(
                    [
                        f"{size}: {action}, {saver}",
                        f"{p50:.2f}",
                        f"{p99:.2f}",
                        "" if saver == THEIRS else f"{beyond:+.2f}",
                        verdict(beyond) if judged else "",
                    ]
                )
        rows.append([])
    head = ["state", "p50, ms", "p99, ms", "beyond SQLite", "goal"]
    return Table(f"bench.checkpoints, {rounds} rounds", head, rows[:-1])


def verdict(beyond: float) -> str:
    return f"<= {GOAL_MS:g} ms {'ok' if beyond <= GOAL_MS else 'SHORT'}"


def quantile(times: list[float], at: float) -> float:
    return sorted(times)[min(len(times) - 1, int(at * len(times)))]


if __name__ == "__main__":
    main()
