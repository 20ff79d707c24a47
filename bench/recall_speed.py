"""How fast a question is answered, and what the indexes cost, beside SQLite FTS5 and plain numpy.

python -m bench.recall_speed [--sizes 10k,100k,1m] [--quick]

Made-up conversations are recorded through the client library and indexed on one core. Their vectors
are mixed of real ones and written into the vector index as the daemon writes it, up to 100,000: to
embed that many takes an hour. What comes later, and each question, is really embedded. As mixed
vectors have nothing to do with the words of their turns, both indexes find different turns: more is
ranked than in real use. Segments are not cut: the events alone are searched. The same questions are
also asked in each of the states of bench.states.
"""

import argparse
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np

from agent_memory import client
from agent_memory.client import EventRole, MemoryClient
from agent_memory.features.index.adapters.bge import Bge
from agent_memory.features.index.adapters.vectors import FlatVectors
from agent_memory.features.index.model import documents
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import SearchScope
from agent_memory.features.recall.model import questions
from agent_memory.kernel.ids import Millis
from bench import recall_data, results, states, tables
from bench.launch import BARE, percentile, run
from bench.processes import Daemon
from bench.results import Table
from bench.states import WORDS_ALONE

GOAL_SIZE = 100_000
MOST_VECTORS = 100_000
FIRST = 10
BLOCK = 20  # questions before it is the next one's turn: whatever else runs falls on all alike
WARM = 5
PART = 5_000
FRESH_SECONDS = 30.0  # before a new event is given up
FRESH_AT, LIVE_AT = 90_000_000, 95_000_000  # numbers of turns
SIZES = {"2k": 2_000, "10k": 10_000, "100k": 100_000, "1m": 1_000_000}

CONTENTS = ("segment-summarizer", "hourly-rollup")

T = TypeVar("T")
Ask = Callable[[str], object]
Floats = recall_data.Floats
Times = Sequence[float]


@dataclass(frozen=True, slots=True)
class Plan:
    sizes: tuple[int, ...]
    questions: int
    commands: int
    backlog: int
    fresh: int  # events that are looked for
    embedded: int  # events of the run with embeddings
    sessions: int  # whose embeddings are mixed


FULL = Plan((10_000, 100_000), 500, 100, 20_000, 10, 600, 50)
QUICK = Plan((2_000,), 40, 10, 500, 2, 40, 2)


@dataclass(slots=True)
class Figures:
    """What was measured at one size, by name; times are in seconds."""

    size: int
    times: dict[str, Times] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    in_states: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    end: str = ""  # how the states ended


def main() -> None:
    options, plan = _plan()
    embedder = Bge()
    _say(f"embedding {plan.sessions} sessions ...")
    meanings = recall_data.Meanings(embedder, plan.sessions)
    with tempfile.TemporaryDirectory(prefix="bench-recall-") as name:
        folder = Path(name)
        _say(f"indexing and embedding {plan.embedded:,} events ...")
        pace = embedding_rate(folder / "pace", plan.embedded)
        found = [
            measured(folder / str(size), size, embedder, meanings, plan) for size in plan.sizes
        ]
    judged = next((f for f in found if f.size == GOAL_SIZE), found[-1])
    head = [f"goals, at {judged.size:,}", "measured", "goal", "verdict"]
    shown = [
        Table(_title(plan), ["", *(f"{f.size:,}" for f in found)], rows(found)),
        Table("p50 and p99 of hybrid, over gRPC", head, goals(judged, pace)),
    ]
    groups: list[results.Group] = []
    for each in found:
        if each.in_states:
            compared, groups = states.compare(each.in_states, judged=each.in_states)
            shown.append(Table(f"{each.size:,} events; {each.end}", states.HEAD, compared))
    results.report(
        options, "recall_speed", shown, [states.plot("recall", "Recall", groups)] if groups else []
    )


def measured(
    folder: Path,
    size: int,
    embedder: Bge,
    meanings: recall_data.Meanings,
    plan: Plan,
) -> Figures:
    found = Figures(size)
    asked = recall_data.questions(plan.questions, size)
    _say(f"{size:,}: recording and indexing words ...")
    peer = FullText(folder, size, found)
    with Daemon(folder, WORDS_ALONE) as daemon, daemon.connect() as memory:
        index_words(daemon, memory, size, found)
        if size > MOST_VECTORS:
            _say(f"{size:,}: asking ...")
            words = by_words(memory)
            found.times |= raced({"bare call": bare(memory), "bm25": words} | peer.asks(), asked)
            found.times |= commands(daemon, asked[: plan.commands], "--mode", "bm25")
            found.values["resident, after queries"] = daemon.resident()
            return found
    _say(f"{size:,}: writing vectors ...")
    matrix = write_vectors(daemon.index / "vectors", embedder, meanings, asked, found)
    _say(f"{size:,}: asking in all states ...")
    ask_in_states(folder, asked, found)
    began = time.perf_counter()
    with Daemon(folder, states.EVERYTHING_ON) as daemon, daemon.connect() as memory:
        found.values["start"] = time.perf_counter() - began
        found.values["disk, vectors"] = _size(daemon.index / "vectors")
        _say(f"{size:,}: asking ...")
        found.times |= raced(
            {
                "bare call": bare(memory),
                "hybrid": hybrid(memory),
                "bm25": by_words(memory),
                "vector": lambda q: memory.search(q, kinds=["event"], mode="vector", limit=FIRST),
                "one project": lambda q: memory.search(
                    q, kinds=["event"], project="project-07", limit=FIRST
                ),
            }
            | peer.asks()
            | exact(matrix, embedder),
            asked,
        )
        found.times |= raced({"a month named": hybrid(memory)}, recall_data.dated(asked))
        found.times |= commands(daemon, asked[: plan.commands])
        found.values["resident, after queries"] = daemon.resident()
        fresh(memory, plan.fresh, found, "quiet", count(LIVE_AT))
        _say(f"{size:,}: with a backlog of {plan.backlog:,} ...")
        backlog(daemon, memory, asked, plan, found)
        found.values["resident, with a backlog"] = daemon.resident()
    return found


def embedding_rate(folder: Path, events: int) -> float:
    """Events a second into both indexes, on one core."""
    with Daemon(folder) as daemon, daemon.connect() as memory, _one_core(daemon):
        memory.ingest_batch(recall_data.turns(recall_data.TURNS, first=events))
        _run(memory, states.INDEXING)
        _run(memory, states.EMBEDDING)  # the model is loaded
        memory.ingest_batch(recall_data.turns(events))
        began = time.perf_counter()
        _run(memory, states.INDEXING)
        _run(memory, states.EMBEDDING)
        seconds = time.perf_counter() - began
        if daemon.index_stats()["vectors_waiting"]:
            raise SystemExit("not all events are embedded")
        return events / seconds


def index_words(daemon: Daemon, memory: MemoryClient, size: int, found: Figures) -> None:
    found.values["resident, empty"] = daemon.resident()
    for job in CONTENTS:
        memory.pause_job(job)  # until the end: a table of contents is not measured here
    began = time.perf_counter()
    memory.ingest_batch(recall_data.turns(size))
    found.values["recorded"] = size / (time.perf_counter() - began)
    with _one_core(daemon):
        began = time.perf_counter()
        _run(memory, states.INDEXING)
        found.values["indexed"] = size / (time.perf_counter() - began)
    found.values["disk, words"] = _size(daemon.index / "lexical")
    found.values["disk, store"] = _size(daemon.db)
    found.values["resident, indexed"] = daemon.resident()


def write_vectors(
    folder: Path,
    embedder: Bge,
    meanings: recall_data.Meanings,
    asked: Sequence[str],
    found: Figures,
) -> Floats:
    """All vectors into the index; and how many of the true nearest it finds."""
    index = FlatVectors(folder, embedder.model)
    began = time.perf_counter()
    parts = []
    names: list[str] = []
    for number, part in enumerate(_parts(recall_data.turns(found.size), PART)):
        vectors = meanings.some(len(part), seed=number)
        held = [each for turn in part for each in documents.from_event(recall_data.stored(turn))]
        index.replace(
            {
                document.owner: [(document, [Vector(vector.tobytes())])]
                for document, vector in zip(held, vectors, strict=True)
            }
        )
        parts.append(vectors)
        names += [each.id for each in held]
    index.mark_complete()
    found.values["vectors written"] = found.size / (time.perf_counter() - began)
    matrix = np.concatenate(parts)
    shares = []
    for question in map(embedder.embed_question, asked[:100]):
        cosines = matrix @ np.frombuffer(question, "<f4")
        true = {names[place] for place in np.argsort(-cosines)[:FIRST]}
        near = index.find_nearest(question, SearchScope(), limit=FIRST)
        shares.append(len(true & {each.id for each in near}) / FIRST)
    found.values["nearest found"] = sum(shares) / len(shares)
    return matrix


class FullText:
    """The same turns in SQLite's full text index, which keeps no copy of them."""

    def __init__(self, folder: Path, size: int, found: Figures) -> None:
        folder.mkdir(parents=True)
        path = folder / "turns.sqlite"
        self._database = sqlite3.connect(path)
        self._database.execute(
            "CREATE VIRTUAL TABLE turn USING fts5(said, content='', tokenize='porter unicode61')"
        )
        texts = ((f"{turn.metadata['speaker']}: {turn.text}",) for turn in recall_data.turns(size))
        seconds = 0.0
        for part in _parts(texts, PART):
            began = time.perf_counter()
            with self._database:
                self._database.executemany("INSERT INTO turn (said) VALUES (?)", part)
            seconds += time.perf_counter() - began
        found.values["FTS5 indexed"] = size / seconds
        found.values["disk, FTS5"] = path.stat().st_size / 1e6

    def asks(self) -> dict[str, Ask]:
        return {"FTS5": self._ask}

    def _ask(self, question: str) -> list[Any]:
        telling = questions.parse_question(question, Millis(recall_data.FIRST_MS)).words
        wanted = " OR ".join(f'"{word}"' for word, _ in telling)
        return self._database.execute(
            "SELECT rowid FROM turn WHERE turn MATCH ? ORDER BY rank LIMIT ?", (wanted, FIRST)
        ).fetchall()


def exact(matrix: Floats, embedder: Bge) -> dict[str, Ask]:
    """Every cosine, in 32 bits; with and without the embedding of the question."""
    given = np.frombuffer(embedder.embed_question("a vector at hand"), "<f4")

    def nearest(vector: Floats) -> object:
        cosines = matrix @ vector
        best = np.argpartition(-cosines, FIRST)[:FIRST]
        return best[np.argsort(-cosines[best])]

    return {
        "numpy, vector given": lambda _: nearest(given),
        "numpy": lambda q: nearest(np.frombuffer(embedder.embed_question(q), "<f4")),
    }


def hybrid(memory: MemoryClient) -> Ask:
    return lambda question: memory.search(question, kinds=["event"], limit=FIRST)


def by_words(memory: MemoryClient) -> Ask:
    return lambda question: memory.search(question, kinds=["event"], mode="bm25", limit=FIRST)


def bare(memory: MemoryClient) -> Ask:
    return lambda _: memory.get_toc_root()


def raced(asks: Mapping[str, Ask], questions: Sequence[str]) -> dict[str, Times]:
    """How long each takes for each question, some questions at a time."""
    times: dict[str, list[float]] = {name: [] for name in asks}
    for question in questions[:WARM]:
        for ask in asks.values():
            ask(question)
    for block in _parts(questions, BLOCK):
        for name, ask in asks.items():
            times[name] += [_timed(ask, question) for question in block]
    return dict(times)


def ask_in_states(folder: Path, questions: Sequence[str], found: Figures) -> None:
    """Ask all questions in each state, some at a time."""
    blocks = list(_parts(questions, BLOCK))
    with states.open_states(folder) as subjects:
        for name in ("hybrid", "by words"):
            found.in_states[name] = {state: [] for state in subjects}
        turns = states.take_turns(subjects, len(blocks))
        for number, (state, daemon) in enumerate(turns):
            with daemon.connect() as memory:
                asks = {"hybrid": hybrid(memory), "by words": by_words(memory)}
                for name, times in raced(asks, blocks[number // len(subjects)]).items():
                    found.in_states[name][state] += times
        found.end = states.describe_end(subjects)


def commands(daemon: Daemon, questions: Sequence[str], *options: str) -> dict[str, Times]:
    """`memory recall`, next to an interpreter that does nothing."""
    asks: dict[str, Ask] = {
        "bare interpreter": lambda _: run(BARE),
        "command": lambda question: daemon.output(
            "memory", "recall", "--in", "events", *options, question
        ),
    }
    return raced(asks, questions)


def fresh(
    memory: MemoryClient, events: int, found: Figures, when: str, numbers: Iterator[int]
) -> None:
    """Record an event and look for it: in words with the next query, in vectors until it is there.
    Each is a session of its own, so that no neighbour brings it along, and an answer: a prompt that
    asks what the query asks is no hit."""
    at_once = 0
    waits = []
    for number in (next(numbers) for _ in range(events)):
        turn = next(
            each for each in recall_data.turns(2, number) if each.role is EventRole.ASSISTANT
        )
        word = f"unheard{number}"
        event = client.Event(
            event_id=f"fresh-{number}",
            session_id=f"fresh-{number}",
            timestamp=time.time_ns() // 1_000_000,
            event_type=turn.event_type,
            role=turn.role,
            text=f"{turn.text} {word}",
        )
        memory.ingest(event)
        began = time.perf_counter()
        hits = memory.search(word, kinds=["event"], mode="bm25", limit=FIRST).hits
        at_once += any(hit.event_id == event.event_id for hit in hits)
        while time.perf_counter() < began + FRESH_SECONDS:
            hits = memory.search(event.text, kinds=["event"], mode="vector", limit=FIRST).hits
            if any(hit.event_id == event.event_id for hit in hits):
                break
            time.sleep(0.02)
        waits.append(time.perf_counter() - began)
    known = found.times.get(f"in vectors, {when}", ())
    found.times[f"in vectors, {when}"] = [*known, *waits]
    share = at_once / events
    found.values[f"in words, {when}"] = min(share, found.values.get(f"in words, {when}", 1.0))


def backlog(
    daemon: Daemon, memory: MemoryClient, asked: Sequence[str], plan: Plan, found: Figures
) -> None:
    """Questions while many old events wait: first for the index of words, then to be embedded."""
    memory.ingest_batch(recall_data.turns(plan.backlog, first=states.BACKLOG_AT))
    numbers = count(FRESH_AT)
    ask = hybrid(memory)
    indexing: list[float] = []
    for block in _parts(asked, BLOCK):
        if daemon.index_stats()["words_waiting"]:
            indexing += [_timed(ask, question) for question in block]
    found.times["hybrid, backlog indexed"] = indexing
    while daemon.index_stats()["words_waiting"]:  # it rests while it is asked
        time.sleep(0.5)
    embedding: list[float] = []
    blocks = list(_parts(asked, -(-len(asked) // plan.fresh)))
    before, began = daemon.index_stats()["vectors_waiting"], time.perf_counter()
    for block in blocks:
        embedding += [_timed(ask, question) for question in block]
        fresh(memory, 1, found, "backlog", numbers)
    waiting = daemon.index_stats()["vectors_waiting"]
    if not waiting:
        _say("the backlog was embedded before all questions were asked")
    found.times["hybrid, backlog embedded"] = embedding
    found.values["embedded meanwhile"] = (before - waiting) / (time.perf_counter() - began)


def rows(found: Sequence[Figures]) -> list[tables.Row]:
    shown: list[tables.Row] = []
    for group in _ROWS:
        for label, name, render in group:
            cells = [render(each, name) for each in found]
            if any(cells):
                shown.append([label, *cells])
        shown.append([])
    return shown[:-1]


def goals(found: Figures, pace: float) -> list[tables.Row]:
    values, times = found.values, found.times
    checks = [
        _goal("indexing with embeddings, one core, events/s", pace, at_least=25.0),
        _goal("indexing without, events/s", values["indexed"], at_least=5_000.0),
    ]
    if "hybrid" not in times:
        return checks
    asked, busy = times["hybrid"], times["hybrid, backlog embedded"]
    late = [*times["in vectors, quiet"], *times["in vectors, backlog"]]
    words = min(values["in words, quiet"], values["in words, backlog"])
    resident = max(values["resident, after queries"], values["resident, with a backlog"])
    return [
        _goal("p50, ms", 1e3 * median(asked), at_most=15.0),
        _goal("p99, ms", 1e3 * percentile(asked, 0.99), at_most=60.0),
        _goal("p99 while a backlog is embedded, ms", 1e3 * percentile(busy, 0.99), at_most=60.0),
        _goal("recall@10 of the vector index", values["nearest found"], at_least=0.95),
        _goal("resident, MB", resident, at_most=600.0),
        *checks,
        _goal("new events that the next query finds by words", words, at_least=1.0),
        _goal("longest until one is found by vectors, s", max(late), at_most=2.0),
    ]


def _goal(
    name: str, value: float, *, at_least: float | None = None, at_most: float | None = None
) -> tables.Row:
    if at_least is not None:
        return name, _number(value), f">= {_number(at_least)}", _verdict(value >= at_least)
    return name, _number(value), f"<= {_number(at_most or 0)}", _verdict(value <= (at_most or 0))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _verdict(reached: bool) -> str:
    return "ok" if reached else "short"


def _times(found: Figures, name: str) -> str:
    values = found.times.get(name)
    if not values:
        return ""
    return f"{1e3 * median(values):.1f} / {1e3 * percentile(values, 0.99):.1f}"


def _rate(found: Figures, name: str) -> str:
    return f"{found.values[name]:,.0f}/s" if name in found.values else ""


def _megabytes(found: Figures, name: str) -> str:
    if name not in found.values:
        return ""
    value = found.values[name]
    return f"{value:,.0f} MB" if value >= 10 else f"{value:.1f} MB"


def _share(found: Figures, name: str) -> str:
    return f"{found.values[name]:.3f}" if name in found.values else ""


def _seconds(found: Figures, name: str) -> str:
    return f"{found.values[name]:.1f} s" if name in found.values else ""


_ROWS: Sequence[Sequence[tuple[str, str, Callable[[Figures, str], str]]]] = (
    (
        ("in the daemon, hybrid", "hybrid", _times),
        ("  of one project", "one project", _times),
        ("  with a month named", "a month named", _times),
        ("  while a backlog's words are indexed", "hybrid, backlog indexed", _times),
        ("  while a backlog is embedded", "hybrid, backlog embedded", _times),
        ("in the daemon, bm25", "bm25", _times),
        ("in the daemon, vector", "vector", _times),
        ("  a gRPC call that does nothing", "bare call", _times),
        ("  SQLite FTS5, in process", "FTS5", _times),
        ("  numpy, embedding and all cosines", "numpy", _times),
        ("  numpy, all cosines alone", "numpy, vector given", _times),
        ("memory recall", "command", _times),
        ("  an interpreter that does nothing", "bare interpreter", _times),
    ),
    (
        ("nearest ten that the vectors find", "nearest found", _share),
        ("new events that the next query finds by words", "in words, quiet", _share),
        ("  with a backlog", "in words, backlog", _share),
        ("until a new event is found by vectors", "in vectors, quiet", _times),
        ("  with a backlog", "in vectors, backlog", _times),
    ),
    (
        ("recorded", "recorded", _rate),
        ("indexed by words, one core", "indexed", _rate),
        ("  SQLite FTS5", "FTS5 indexed", _rate),
        ("vectors written, embedded before", "vectors written", _rate),
        ("backlog embedded between queries", "embedded meanwhile", _rate),
        ("start to serving, with vectors", "start", _seconds),
    ),
    (
        ("resident, empty, no embeddings", "resident, empty", _megabytes),
        ("resident, words indexed", "resident, indexed", _megabytes),
        ("resident, after queries", "resident, after queries", _megabytes),
        ("resident, with a backlog", "resident, with a backlog", _megabytes),
        ("disk, index of words", "disk, words", _megabytes),
        ("  SQLite FTS5, without the texts", "disk, FTS5", _megabytes),
        ("disk, vectors", "disk, vectors", _megabytes),
        ("disk, the store itself", "disk, store", _megabytes),
    ),
)


@contextmanager
def _one_core(daemon: Daemon) -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    daemon.pin({max(cores)})
    try:
        yield
    finally:
        daemon.pin(cores)


def _run(memory: MemoryClient, name: str) -> None:
    job = memory.run_job(name)
    if job.last_error:
        raise SystemExit(f"{name}: {job.last_error}")


def _parts(whole: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(whole)
    while part := list(islice(rest, size)):
        yield part


def _timed(ask: Ask, question: str) -> float:
    began = time.perf_counter()
    ask(question)
    return time.perf_counter() - began


def _size(folder: Path) -> float:
    """Megabytes."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / 1e6


def _title(plan: Plan) -> str:
    mixed = plan.sessions * recall_data.TURNS
    return (
        f"{plan.questions} questions, p50 / p99 in ms; vectors mixed of {mixed:,} real ones;"
        f" backlog of {plan.backlog:,}; {os.cpu_count()} cores shared by client and daemon"
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _plan() -> tuple[argparse.Namespace, Plan]:
    parser = argparse.ArgumentParser(prog="python -m bench.recall_speed", description=__doc__)
    parser.add_argument("--sizes", help=f"some of {','.join(SIZES)}")
    options = results.parse_options(parser)
    plan = QUICK if options.quick else FULL
    if options.sizes:
        sizes = tuple(SIZES[name] for name in options.sizes.lower().split(","))
        plan = replace(plan, sizes=sizes)
    return options, plan


if __name__ == "__main__":
    main()
