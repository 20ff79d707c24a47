"""How well answers are found, and whether scores can be trusted.

python -m bench.recall_quality --locomo DIR --beam DIR --coding DIR --transcripts DIR

Any of the sets may be missing. A daemon of its own records each set, with a project for each
conversation of LoCoMo and BEAM; a question searches its project through the client library. R@k is
the share of the answering turns among the first k. The questions about coding search everything
that was imported; hit@k is the share of questions with a right answer among the first k, the
second time after every question was recorded as a prompt. The baselines rank whole turns in this
process: BM25 with k1 1.2 and b 0.75, and cosines of the same embedding model.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from math import log2
from pathlib import Path
from typing import Any

import numpy as np

from agent_memory import launch
from agent_memory.client import Event, EventRole, EventType, MemoryClient, SearchHit
from agent_memory.features.index.adapters.bge import Bge
from agent_memory.features.recall.model import ranking
from agent_memory.kernel import jobs
from bench import dev_sets, reliability, tables
from bench.bm25 import Bm25
from bench.dev_sets import Conversation, Question
from bench.processes import Daemon, at_home
from bench.reliability import Curve, Shown

FIRST = 10
JOB_SECONDS = 3600.0
LAST_MS = 9_999_999_999_999  # the last time that a log can hold
HYBRID = "ours, hybrid"
COLUMNS = ("BM25", "dense", "ours, bm25", "ours, vector", HYBRID)
ALL_KINDS, ECHO = "coding, all kinds", "coding, after echo"
DEFAULT_KINDS = ("memory", "fact", "event", "segment")
FACTORS = {"memory": ranking.DECIDED, "segment": ranking.SUMMARIZED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A hit. A baseline has no scores."""

    id: str
    right: bool
    kind: str = "event"
    score: float | None = None
    evidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What each column found for a question, best first."""

    dev_set: str
    conversation: str
    category: str
    question: str
    gold: int  # the number of turns that answer it
    found: Mapping[str, Sequence[Found]]


Ranker = Callable[[Conversation, Question], list[Found]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("locomo", "beam", "coding", "transcripts"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every hit there")
    options = parser.parse_args()
    if (options.coding is None) is not (options.transcripts is None):
        parser.error("--coding and --transcripts need each other")
    locomo = [] if options.locomo is None else dev_sets.read_locomo(options.locomo)
    beam = [] if options.beam is None else dev_sets.read_beam(options.beam)
    answers = [answer for some in (locomo, beam) if some for answer in measure_conversations(some)]
    if options.coding is not None:
        answers += measure_coding(options.coding, options.transcripts)
    if not answers:
        parser.error("name the folder of at least one set")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(answer) for answer in answers], indent=1))
    show_found(answers)
    show_reliability(list(list_shown(answers)))


def measure_conversations(conversations: Sequence[Conversation]) -> list[Answer]:
    with run_daemon() as (daemon, client):
        client.ingest_batch(
            dev_sets.to_event(each, turn) for each in conversations for turn in each.turns
        )
        settle(daemon, client)
        rankers = build_baselines(conversations) | build_ours(client, kinds=["event"])
        return list(ask_all(rankers, conversations))


def measure_coding(folder: Path, transcripts: Path) -> list[Answer]:
    with run_daemon() as (daemon, client):
        run_command(daemon, "memory", "import", "--from", "claude-code", str(transcripts.resolve()))
        settle(daemon, client)
        sessions = dev_sets.read_coding(folder, client.iter_events(0, LAST_MS))
        everywhere = replace(sessions, name="")  # in all projects
        rankers = build_baselines([everywhere]) | build_ours(client, kinds=["event"])
        answers = list(ask_all(rankers, [everywhere]))
        everything = build_ours(client, kinds=DEFAULT_KINDS)
        answers += ask_all(everything, [replace(everywhere, dev_set=ALL_KINDS)])
        client.ingest_batch(to_prompts(sessions.questions))
        settle(daemon, client)
        answers += ask_all(everything, [replace(everywhere, dev_set=ECHO)])
    return [replace(answer, conversation=sessions.name) for answer in answers]


def ask_all(
    rankers: Mapping[str, Ranker], conversations: Iterable[Conversation]
) -> Iterator[Answer]:
    for each in conversations:
        sys.stderr.write(f"asking {len(each.questions)} questions: {each.dev_set} {each.name}\n")
        for question in each.questions:
            yield Answer(
                dev_set=each.dev_set,
                conversation=each.name,
                category=question.category,
                question=question.text,
                gold=len(question.gold),
                found={name: rank(each, question) for name, rank in rankers.items()},
            )


def build_ours(client: MemoryClient, *, kinds: Sequence[str]) -> dict[str, Ranker]:
    def build(mode: str) -> Ranker:
        def rank(among: Conversation, question: Question) -> list[Found]:
            found = client.search(
                question.text, kinds=kinds, project=among.name, mode=mode, limit=FIRST
            )
            return [judge(hit, question) for hit in found.hits]

        return rank

    return {f"ours, {mode}": build(mode) for mode in ("bm25", "vector", "hybrid")}


def judge(hit: SearchHit, question: Question) -> Found:
    if hit.kind == "event":
        right = hit.event_id in question.gold
    else:
        text = f"{hit.title}\n{hit.text}"
        right = hit.session_id != ECHO and question.is_answered_by(text)
    return Found(
        id=hit.id,
        kind=hit.kind,
        right=right,
        score=hit.score,
        evidence=weigh_evidence(hit.kind, hit.score_parts),
    )


def weigh_evidence(kind: str, parts: Mapping[str, float]) -> float | None:
    """Return the evidence as ranking adds it up, before a turn that answers nothing loses some.

    A hit that is listed for its time, and not ranked, has none.
    """
    if parts.get("time", 0.0) > ranking.TIME:
        return None
    weights = {"meaning": ranking.MEANING}
    return FACTORS.get(kind, 1.0) * sum(weights.get(name, 1.0) * parts[name] for name in parts)


def build_baselines(conversations: Sequence[Conversation]) -> dict[str, Ranker]:
    embedder = Bge()
    texts = {each.name: [turn.whole for turn in each.turns] for each in conversations}
    indexes = {name: Bm25(dict(enumerate(whole))) for name, whole in texts.items()}
    matrices = {
        name: np.stack([np.frombuffer(vector, "<f4") for vector in embedder.embed(whole)])
        for name, whole in texts.items()
    }

    def rank_words(among: Conversation, question: Question) -> list[Found]:
        return pick(among, question, indexes[among.name].ranked(question.text))

    def rank_vectors(among: Conversation, question: Question) -> list[Found]:
        asked = np.frombuffer(embedder.embed_question(question.text), "<f4")
        best = np.argsort(-(matrices[among.name] @ asked), kind="stable")
        return pick(among, question, best.tolist())

    return {"BM25": rank_words, "dense": rank_vectors}


def pick(among: Conversation, question: Question, places: Sequence[int]) -> list[Found]:
    names = [among.turns[place].event_id for place in places[:FIRST]]
    return [Found(id=name, right=name in question.gold) for name in names]


def to_prompts(questions: Sequence[Question]) -> Iterator[Event]:
    """Make a session of the questions, one a minute, without an answer."""
    for place, question in enumerate(reversed(questions)):
        yield Event(
            session_id=ECHO,
            timestamp=datetime.now(UTC) - timedelta(minutes=place),
            event_type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text=question.text,
        )


@contextmanager
def run_daemon() -> Iterator[tuple[Daemon, MemoryClient]]:
    with tempfile.TemporaryDirectory(prefix="am-") as folder, Daemon(Path(folder)) as daemon:
        endpoint = f"http://127.0.0.1:{daemon.port}"
        with MemoryClient.connect(endpoint, timeout_seconds=JOB_SECONDS) as client:
            yield daemon, client


def settle(daemon: Daemon, client: MemoryClient) -> None:
    """Cut segments, learn, index and embed until nothing waits."""
    for name in (jobs.SEGMENTS, jobs.ROLLUP, jobs.OUTBOX):
        run_job(client, name)
    before = sys.maxsize
    while (waiting := count_waiting(daemon)) and waiting < before:
        sys.stderr.write(f"{waiting} wait to be indexed\n")
        before = waiting
        for name in (jobs.OUTBOX, jobs.EMBEDDING):
            run_job(client, name)
    if waiting:
        raise SystemExit(f"{waiting} records are not indexed")


def run_job(client: MemoryClient, name: str) -> None:
    job = client.run_job(name)
    if job.last_error:
        raise SystemExit(f"{name}: {job.last_error}")


def count_waiting(daemon: Daemon) -> int:
    status: dict[str, Any] = json.loads(
        run_command(daemon, "memory-daemon", "admin", "index-stats", "--format", "json")
    )
    return int(status["words_waiting"]) + int(status["vectors_waiting"])


def run_command(daemon: Daemon, *command: str) -> str:
    return subprocess.run(
        at_home([sys.executable, "-I", "-S", launch.__file__, *command], daemon.folder),
        env={**os.environ, **daemon.environ},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def show_found(answers: Sequence[Answer]) -> None:
    coding = [each for each in answers if each.conversation == dev_sets.CODING]
    turns = [each for each in answers if each.conversation != dev_sets.CODING]
    for title, some, measure in (
        ("Turns found, R@5 / R@10 / nDCG@10 (number of questions)", turns, measure_recall),
        ("Answers found, hit@1 / hit@5 (number of questions)", coding, measure_hits),
    ):
        rows = []
        for name, group in group_answers(some).items():
            rows.append([f"{name} ({len(group)})"] + [average(group, c, measure) for c in COLUMNS])
        if rows:
            sys.stdout.write(tables.render(title, ["", *COLUMNS], rows) + "\n")


def group_answers(answers: Iterable[Answer]) -> dict[str, list[Answer]]:
    """Group by set, by category within it, and by conversation."""
    groups: dict[tuple[str, int, str], list[Answer]] = {}
    for each in answers:
        for level, name in enumerate(("", each.category, each.conversation)):
            groups.setdefault((each.dev_set, level, name), []).append(each)
    order = list(dict.fromkeys(dev_set for dev_set, _, _ in groups))
    ordered = sorted(groups, key=lambda key: (order.index(key[0]), key[1]))
    return {
        f"{dev_set}: {name}" if name else dev_set: groups[dev_set, level, name]
        for dev_set, level, name in ordered
        if name != dev_sets.CODING
    }


def average(
    answers: Sequence[Answer],
    column: str,
    measure: Callable[[Sequence[Found], int], Sequence[float]],
) -> str:
    """Render the means in percent; "-" where the column does not take part."""
    measured = [measure(each.found[column], each.gold) for each in answers if column in each.found]
    if not measured:
        return "-"
    return " / ".join(f"{100 * sum(some) / len(some):.1f}" for some in zip(*measured, strict=True))


def measure_recall(found: Sequence[Found], gold: int) -> tuple[float, float, float]:
    """R@5, R@10 and nDCG@10."""
    gain = sum(1.0 / log2(place + 2) for place, hit in enumerate(found[:FIRST]) if hit.right)
    best = sum(1.0 / log2(place + 2) for place in range(min(gold, FIRST)))
    return (
        sum(hit.right for hit in found[:5]) / gold,
        sum(hit.right for hit in found[:FIRST]) / gold,
        gain / best,
    )


def measure_hits(found: Sequence[Found], _gold: int) -> tuple[float, float]:
    """hit@1 and hit@5."""
    return (
        float(any(hit.right for hit in found[:1])),
        float(any(hit.right for hit in found[:5])),
    )


def list_shown(answers: Iterable[Answer]) -> Iterator[Shown]:
    """List every hit of hybrid search. Those of coding are of all kinds, without the echo."""
    for answer in answers:
        if answer.dev_set in (dev_sets.CODING, ECHO):
            continue
        hits = [hit for hit in answer.found[HYBRID] if hit.evidence is not None]
        shares = [(hit.evidence or 0.0) / (1.0 + ranking.MEANING) for hit in hits]
        for place, (hit, share) in enumerate(zip(hits, shares, strict=True)):
            others = [ranking.USUAL_SHARE, *shares[:place], *shares[place + 1 :]]
            yield Shown(
                dev_set=answer.dev_set,
                conversation=answer.conversation,
                score=hit.score or 0.0,
                evidence=share,
                lead=share - max(others),
                right=hit.right,
            )


def show_reliability(shown: Sequence[Shown]) -> None:
    curves = {"all, each set alike": reliability.fit_curve(shown)}
    for name in dict.fromkeys(each.dev_set for each in shown):
        curves[name] = reliability.fit_curve([each for each in shown if each.dev_set == name])
    sections = [
        "Hits in each tenth of the score, count: mean score / share that is right.",
        reliability.render_table(shown),
    ]
    if len({each.conversation for each in shown}) > 1:
        sections += [
            "The same with a curve that was fitted on the other conversations.",
            reliability.render_table(reliability.cross_validate(shown)),
        ]
    sections += [
        "score = 1 / (1 + exp(-(a x evidence + b x lead + c))), fitted on all conversations:",
        *(render_curve(name, curve) for name, curve in curves.items()),
    ]
    sys.stdout.write("\n".join([*sections, ""]))


def render_curve(name: str, curve: Curve) -> str:
    return f"- {name}: a = {curve.evidence:.2f}, b = {curve.lead:.2f}, c = {curve.offset:.2f}"


if __name__ == "__main__":
    main()
