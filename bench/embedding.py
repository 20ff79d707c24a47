"""How fast texts are embedded: the limit of the model, the daemon's pipeline, and a question.

python -m bench.embedding [--quick]

The limit is the model on the same texts, sorted into full batches, on as many threads as the
daemon uses. The pipeline reads each record from the queue, embeds it, writes its vectors durably
and removes it from the queue. Both take turns in small rounds, because other programs may run
meanwhile. A question is embedded by a thread of its own, as recall does it.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from statistics import median

from agent_memory.bootstrap import root
from agent_memory.bootstrap.core import build_core
from agent_memory.config import Settings
from agent_memory.features.index.model import documents, embeddings
from agent_memory.features.log.model.events import Event
from agent_memory.features.recall.services.embedding import EmbeddingWriter
from bench import recall_data, results, tables
from bench.launch import percentile
from bench.results import Table

GOAL = 0.8  # of the limit
LONG_TURNS = 22  # turns joined to one of six parts
ROUND_TURNS = 10_000  # between the first turns of two rounds
COMMIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    short: int  # events of a round
    long: int
    questions: int


FULL = Plan(3, 128, 10, 60)
QUICK = Plan(1, 32, 2, 5)


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds and counts of one kind of text."""

    events: int
    limit: float
    pipeline: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    options = results.parse_options(parser)
    table = asyncio.run(_measure(QUICK if options.quick else FULL))
    results.report(options, "embedding", [table])


async def _measure(plan: Plan) -> Table:
    rows: list[tables.Row] = []
    rounds = count()
    with tempfile.TemporaryDirectory(prefix="bench-embedding-") as name:
        folder = Path(name)
        app = root.build(build_core(Settings(), folder / "db", folder, folder / "own"))
        try:
            for load, scene in (("idle", _idle), ("one core busy", _busy)):
                with scene():
                    for kind, size, joined in (
                        ("short events", plan.short, 1),
                        ("long turns", plan.long, LONG_TURNS),
                    ):
                        some = islice(rounds, plan.rounds)
                        rows.append(_row(f"{kind}, {load}", _race(app, size, joined, some)))
                    rows.append(_question_row(load, plan.questions, app))
                rows.append([])
        finally:
            app.close()
    head = ["", "limit/s", "pipeline/s", "share", "goal"]
    return Table("events embedded a second", head, rows[:-1])


def _race(app: root.App, size: int, joined: int, rounds: Iterator[int]) -> Figures:
    """Embed the same texts by the model alone and through the pipeline, in turns."""
    indexes, writer = app.features.recall.indexes, _writer(app)
    indexes.keep_up(lambda: None)  # a new index is filled, then it follows
    done, limit, pipeline = 0, 0.0, 0.0
    for number in rounds:  # new texts each time: what is embedded is not embedded again
        events = list(_events(size, joined, number * ROUND_TURNS))
        parts = [
            part
            for event in events
            for document in documents.from_event(event)
            for part in embeddings.split_parts(document)
        ]
        app.features.log.events.append(events).result(COMMIT_SECONDS)
        indexes.indexing.step()
        began = time.perf_counter()
        writer.embedder.embed(parts)
        between = time.perf_counter()
        while writer.step():
            pass
        pipeline += time.perf_counter() - between
        limit += between - began
        done += size
    return Figures(done, limit, pipeline)


def _writer(app: root.App) -> EmbeddingWriter:
    writer = app.features.recall.indexes.embedding
    if writer is None:
        raise SystemExit("nothing is embedded: embedder.provider is none")
    writer.embedder.embed(["the model is loaded"])
    return writer


def _events(size: int, joined: int, first: int) -> Iterator[Event]:
    """Yield events of so many turns joined to one, from this turn on."""
    turns = list(recall_data.turns(size * joined, first))
    for start in range(0, len(turns), joined):
        text = " ".join(turn.text for turn in turns[start : start + joined])
        yield replace(recall_data.stored(turns[start]), text=text)


def _row(name: str, found: Figures) -> tables.Row:
    share = found.limit / found.pipeline
    return [
        name,
        f"{found.events / found.limit:.1f}",
        f"{found.events / found.pipeline:.1f}",
        f"{share:.0%}",
        "met" if share >= GOAL else "missed",
    ]


def _question_row(load: str, count: int, app: root.App) -> tables.Row:
    embedder = _writer(app).embedder
    with ThreadPoolExecutor(1) as threads:
        times = []
        for question in recall_data.questions(count, 1_000):
            began = time.perf_counter()
            threads.submit(embedder.embed, [question]).result()
            times.append(time.perf_counter() - began)
    p50, p99 = median(times) * 1000, percentile(times, 0.99) * 1000
    return [f"a question, {load}: p50 {p50:.1f} ms, p99 {p99:.1f} ms", "", "", "", ""]


@contextmanager
def _idle() -> Iterator[None]:
    yield


@contextmanager
def _busy() -> Iterator[None]:
    child = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    child.start()
    try:
        yield
    finally:
        child.kill()
        child.join()


def _spin() -> None:
    while True:
        sum(range(10_000))


if __name__ == "__main__":
    main()
