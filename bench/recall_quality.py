"""How well the turns that answer a question are found, beside BM25 alone and dense vectors alone.

python -m bench.recall_quality <folder of LoCoMo conversations>

A daemon records each conversation as a project of its own; a question searches its project through
the client library. R@k is the share of the answering turns among the first k. The baselines rank
`(session date) Speaker: text [shares caption]` in this process: BM25 with k1 1.2 and b 0.75, and
cosines of the same embedding model.
"""

import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import log2
from pathlib import Path
from typing import Any

import numpy as np

from agent_memory.client import Event, EventRole, EventType, MemoryClient
from agent_memory.features.index.adapters.bge import Bge
from bench import tables
from bench.bm25 import Bm25
from bench.processes import Daemon

FIRST = 10
CATEGORIES = {1: "several turns", 2: "time", 3: "inference", 4: "one turn", 5: "adversarial"}
JOB_SECONDS = 3600.0

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D\d+:\d+")
Ranker = Callable[["Conversation", str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Turn:
    name: str
    session: int
    speaker: str
    said: str
    date: str
    at_ms: int

    @property
    def whole(self) -> str:
        return f"({self.date}) {self.speaker}: {self.said}"


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    category: int
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Score:
    at_5: float
    at_10: float
    ndcg: float


def main() -> None:
    conversations = [conversation(path) for path in sorted(Path(sys.argv[1]).glob("*.json"))]
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder)) as daemon:
        endpoint = f"http://127.0.0.1:{daemon.port}"
        with MemoryClient.connect(endpoint, timeout_seconds=JOB_SECONDS) as client:
            client.ingest_batch(event(each, turn) for each in conversations for turn in each.turns)
            job = client.run_job("outbox-processor")
            if job.last_error:
                raise SystemExit(job.last_error)
            rankers: dict[str, Ranker] = {
                "BM25": baseline(conversations),
                "dense": dense(conversations),
                **{f"ours, {mode}": ours(client, mode) for mode in ("bm25", "vector", "hybrid")},
            }
            scores = {name: measure(rank, conversations) for name, rank in rankers.items()}
    show(conversations, scores)


def measure(rank: Ranker, conversations: Sequence[Conversation]) -> dict[str, list[Score]]:
    """By category, by conversation, and all."""
    found: dict[str, list[Score]] = defaultdict(list)
    for each in conversations:
        for question in each.questions:
            score = judged(rank(each, question.text), question.gold)
            for group in ("all", CATEGORIES[question.category], each.name):
                found[group].append(score)
    return found


def judged(ranked: Sequence[str], gold: frozenset[str]) -> Score:
    gains = [1.0 / log2(place + 2) for place, name in enumerate(ranked[:FIRST]) if name in gold]
    best = sum(1.0 / log2(place + 2) for place in range(min(len(gold), FIRST)))
    return Score(
        at_5=len(gold.intersection(ranked[:5])) / len(gold),
        at_10=len(gold.intersection(ranked[:FIRST])) / len(gold),
        ndcg=sum(gains) / best,
    )


def ours(client: MemoryClient, mode: str) -> Ranker:
    def rank(among: Conversation, question: str) -> list[str]:
        found = client.search(question, kinds=["event"], project=among.name, mode=mode, limit=FIRST)
        return [hit.event_id.partition("/")[2] for hit in found.hits]

    return rank


def baseline(conversations: Sequence[Conversation]) -> Ranker:
    indexes = {
        each.name: Bm25({turn.name: turn.whole for turn in each.turns}) for each in conversations
    }
    return lambda among, question: indexes[among.name].ranked(question)[:FIRST]


def dense(conversations: Sequence[Conversation]) -> Ranker:
    embedder = Bge()

    def embedded(texts: Sequence[str]) -> "np.ndarray[Any, np.dtype[np.float32]]":
        return np.stack([np.frombuffer(vector, "<f4") for vector in embedder.embed(texts)])

    matrices = {each.name: embedded([turn.whole for turn in each.turns]) for each in conversations}

    def rank(among: Conversation, question: str) -> list[str]:
        cosines = matrices[among.name] @ np.frombuffer(embedder.embed_question(question), "<f4")
        best = np.argsort(-cosines, kind="stable")[:FIRST]
        return [among.turns[place].name for place in best]

    return rank


def event(conversation: Conversation, turn: Turn) -> Event:
    return Event(
        event_id=f"{conversation.name}/{turn.name}",
        session_id=f"{conversation.name}/{turn.session}",
        timestamp=turn.at_ms,
        event_type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=turn.said,
        metadata={"project": conversation.name, "speaker": turn.speaker},
    )


def conversation(path: Path) -> Conversation:
    data = json.loads(path.read_text())
    talk: Mapping[str, Any] = data["conversation"]
    turns = []
    for name, said in talk.items():
        session = _SESSION.fullmatch(name)
        if session and said:
            date = talk[f"{name}_date_time"]
            began = int(moment(date).timestamp() * 1000)
            turns += [
                turn(each, int(session[1]), date, began + place * 1000)
                for place, each in enumerate(said)
            ]
    known = {each.name for each in turns}
    asked = (
        Question(
            one["question"],
            one["category"],
            frozenset(
                name for each in one["evidence"] for name in _EVIDENCE.findall(each)
            ) & known,
        )
        for one in data["qa"]
    )  # fmt: skip
    return Conversation(path.stem, tuple(turns), tuple(one for one in asked if one.gold))


def turn(said: Mapping[str, Any], session: int, date: str, at_ms: int) -> Turn:
    caption = said.get("blip_caption")
    text = f"{said['text']} [shares {caption}]" if caption else said["text"]
    return Turn(said["dia_id"], session, said["speaker"], text, date, at_ms)


def moment(date: str) -> datetime:
    """1:56 pm on 8 May, 2023."""
    return datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def show(
    conversations: Sequence[Conversation], scores: Mapping[str, Mapping[str, Sequence[Score]]]
) -> None:
    groups = ["all", *CATEGORIES.values(), *(each.name for each in conversations)]
    first = next(iter(scores.values()))
    rows = []
    for group in groups:
        if group not in first:
            continue
        cells = [" / ".join(mean(by_group[group])) for by_group in scores.values()]
        rows.append([f"{group} ({len(first[group])})", *cells])
    title = "Turns found, R@5 / R@10 / nDCG@10 (number of questions)"
    sys.stdout.write(tables.render(title, ["", *scores], rows))


def mean(scores: Sequence[Score]) -> list[str]:
    return [
        f"{100 * sum(values) / len(scores):.1f}"
        for values in zip(*((s.at_5, s.at_10, s.ndcg) for s in scores), strict=True)
    ]


if __name__ == "__main__":
    main()
