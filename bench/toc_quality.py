"""How well a session is found by its summary: extractive, written by an LLM, and the raw text.

python -m bench.toc_quality <folder of LoCoMo conversations>

Every question ranks the sessions of its own conversation by BM25; R@k is the share of the sessions
holding its evidence that are among the first k.
"""

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import extracting
from agent_memory.features.toc.model.summaries import Summary, Utterance
from agent_memory.kernel.ids import EventId, Millis
from bench import tables
from bench.bm25 import Bm25

CUTOFFS = (1, 3, 5, 10)
SOURCES = ("extractive", "LLM-written", "raw text")

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D(\d+):\d+")


@dataclass(frozen=True, slots=True)
class Session:
    utterances: tuple[Utterance, ...]
    date: str
    written: str  # the data set's own summary


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    gold: frozenset[int]


@dataclass(frozen=True, slots=True)
class Conversation:
    sessions: Mapping[int, Session]
    questions: tuple[Question, ...]


def main() -> None:
    conversations = [conversation(path) for path in sorted(Path(sys.argv[1]).glob("*.json"))]
    sessions = [one for each in conversations for one in each.sessions.values()]
    began = time.process_time()
    summaries = {id(one): extracting.summarize(one.utterances) for one in sessions}
    seconds = time.process_time() - began

    recalls: dict[str, list[list[float]]] = {source: [] for source in SOURCES}
    sizes: Counter[str] = Counter()
    for each in conversations:
        texts = {
            "extractive": {key: shown(summaries[id(one)]) for key, one in each.sessions.items()},
            "LLM-written": {key: one.written for key, one in each.sessions.items()},
            "raw text": {key: raw(one) for key, one in each.sessions.items()},
        }
        for source, documents in texts.items():
            sizes[source] += sum(map(len, documents.values()))
            index = Bm25(documents)
            recalls[source] += [recall(index, one) for one in each.questions]

    events = sum(len(one.utterances) for one in sessions)
    rows = [
        [
            source,
            f"{sizes[source] / len(sessions):,.0f}",
            *(
                f"{100 * sum(column) / len(column):.1f}"
                for column in zip(*recalls[source], strict=True)
            ),
        ]
        for source in SOURCES
    ]
    title = (
        f"Session recall: {len(conversations)} conversations, {len(sessions)} sessions,"
        f" {len(recalls['raw text'])} questions"
    )
    head = ["ranked by", "characters", *(f"R@{k}" for k in CUTOFFS)]
    sys.stdout.write(tables.render(title, head, rows))
    sys.stdout.write(
        f"extractive: {1000 * seconds / len(sessions):.1f} ms a session,"
        f" {events / seconds:,.0f} events/s of processor time\n"
    )


def conversation(path: Path) -> Conversation:
    data = json.loads(path.read_text())
    talk, written = data["conversation"], data["session_summary"]
    sessions: dict[int, Session] = {}
    for name, turns in talk.items():
        found = _SESSION.fullmatch(name)
        if found and turns:
            sessions[int(found[1])] = Session(
                tuple(utterance(turn, at) for at, turn in enumerate(turns)),
                talk[f"{name}_date_time"],
                written.get(f"{name}_summary", ""),
            )
    asked = (
        Question(
            one["question"],
            frozenset(int(d) for each in one["evidence"] for d in _EVIDENCE.findall(each)),
        )
        for one in data["qa"]
    )
    return Conversation(sessions, tuple(one for one in asked if one.gold & sessions.keys()))


def utterance(turn: Mapping[str, Any], at: int) -> Utterance:
    shared = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return Utterance(
        event_id=EventId(turn["dia_id"]),
        at_ms=Millis(at),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=turn["text"] + shared,
        speaker=turn["speaker"],
    )


def shown(summary: Summary) -> str:
    bullets = (point.text for point in summary.points)
    return "\n".join([summary.title or "", *bullets, *summary.keywords, summary.text])


def raw(session: Session) -> str:
    turns = (f"{one.speaker}: {one.text}" for one in session.utterances)
    return "\n".join([session.date, *turns])


def recall(index: Bm25[int], question: Question) -> list[float]:
    ranked = index.ranked(question.text)
    return [len(question.gold & set(ranked[:k])) / len(question.gold) for k in CUTOFFS]


if __name__ == "__main__":
    main()
