"""The conversations that recall is measured on, with questions and the turns that answer them.

LoCoMo: persons who talk, in short turns. BEAM: a user and an assistant who writes long turns.
Coding: imported sessions of a coding agent, and questions with expressions that an answer matches.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_memory.client import Event, EventRole, EventType

LOCOMO, BEAM, CODING = "LoCoMo", "BEAM", "coding"

_CATEGORIES = {1: "several turns", 2: "time", 3: "inference", 4: "one turn", 5: "adversarial"}
_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D\d+:\d+")
_APPENDED = re.compile(r"\s*->->.*", re.DOTALL)  # notes of BEAM's authors behind a message
_UNANSWERABLE = "abstention"
_BEAM_STARTS_MS = 1_700_000_000_000  # the protocol has no dates: a batch a day, a turn a minute
_MINUTE_MS, _DAY_MS = 60_000, 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    event_id: str
    session: str
    said: str
    at_ms: int
    role: EventRole = EventRole.USER
    speaker: str = ""
    date: str = ""

    @property
    def whole(self) -> str:
        """What a baseline ranks."""
        return f"({self.date}) {self.speaker}: {self.said}" if self.speaker else self.said


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    text: str
    category: str
    gold: frozenset[str]  # ids of the events that answer it
    answers: tuple[re.Pattern[str], ...] = ()  # a text that matches one of them answers it, too

    def is_answered_by(self, text: str) -> bool:
        return any(pattern.search(text) for pattern in self.answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    dev_set: str
    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def read_locomo(folder: Path) -> list[Conversation]:
    return [_read_persons(path) for path in sorted(folder.glob("*.json"))]


def read_beam(folder: Path) -> list[Conversation]:
    found = sorted(folder.glob("*/chat.json"), key=lambda path: int(path.parent.name))
    return [_read_assistant(path.parent) for path in found]


def read_coding(folder: Path, events: Iterable[Event]) -> Conversation:
    """Read the questions, and find the events among these that answer them."""
    turns = tuple(
        Turn(
            event_id=event.event_id,
            session=event.session_id,
            said=event.text,
            at_ms=int(event.timestamp.timestamp() * 1000),
            role=event.role,
        )
        for event in events
        if event.text.strip()
    )
    questions = []
    for asked in json.loads((folder / "questions.json").read_text())["questions"]:
        answers = tuple(re.compile(each, re.IGNORECASE | re.DOTALL) for each in asked["gold"])
        question = Question(
            text=asked["q"],
            category=asked["kind"],
            gold=frozenset(
                turn.event_id for turn in turns if any(each.search(turn.said) for each in answers)
            ),
            answers=answers,
        )
        questions.append(question)
    return Conversation(
        dev_set=CODING, name=CODING, turns=turns, questions=tuple(q for q in questions if q.gold)
    )


def to_event(conversation: Conversation, turn: Turn) -> Event:
    said_by_user = turn.role is EventRole.USER
    named = {"speaker": turn.speaker} if turn.speaker else {}
    return Event(
        event_id=turn.event_id,
        session_id=turn.session,
        timestamp=turn.at_ms,
        event_type=EventType.USER_MESSAGE if said_by_user else EventType.ASSISTANT_MESSAGE,
        role=turn.role,
        text=turn.said,
        metadata={"project": conversation.name, **named},
    )


def _read_persons(path: Path) -> Conversation:
    data = json.loads(path.read_text())
    talk: Mapping[str, Any] = data["conversation"]
    turns = []
    for name, said in talk.items():
        session = _SESSION.fullmatch(name)
        if session and said:
            date = talk[f"{name}_date_time"]
            began = int(_parse_date(date).timestamp() * 1000)
            turns += [
                Turn(
                    event_id=f"{path.stem}/{each['dia_id']}",
                    session=f"{path.stem}/{session[1]}",
                    said=_join_caption(each),
                    at_ms=began + place * 1000,
                    speaker=each["speaker"],
                    date=date,
                )
                for place, each in enumerate(said)
            ]
    known = frozenset(each.event_id for each in turns)
    asked = (
        Question(
            text=one["question"],
            category=_CATEGORIES[one["category"]],
            gold=known.intersection(
                f"{path.stem}/{name}"
                for each in one["evidence"]
                for name in _EVIDENCE.findall(each)
            ),
        )
        for one in data["qa"]
    )
    return Conversation(
        dev_set=LOCOMO,
        name=path.stem,
        turns=tuple(turns),
        questions=tuple(one for one in asked if one.gold),
    )


def _join_caption(said: Mapping[str, Any]) -> str:
    caption = said.get("blip_caption")
    return f"{said['text']} [shares {caption}]" if caption else said["text"]


def _parse_date(date: str) -> datetime:
    """1:56 pm on 8 May, 2023."""
    return datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def _read_assistant(folder: Path) -> Conversation:
    name = f"beam-{folder.name}"
    turns: list[Turn] = []
    for number, batch in enumerate(json.loads((folder / "chat.json").read_text())):
        messages = (message for group in batch["turns"] for message in group)
        turns += [
            Turn(
                event_id=f"{name}/{message['id']}",
                session=f"{name}/{number}",
                said=_APPENDED.sub("", message["content"]),
                at_ms=_BEAM_STARTS_MS + number * _DAY_MS + place * _MINUTE_MS,
                role=EventRole[message["role"].upper()],
            )
            for place, message in enumerate(messages)
        ]
    known = frozenset(each.event_id for each in turns)
    asked = (
        Question(
            text=one["question"],
            category=category.replace("_", " "),
            gold=known.intersection(
                f"{name}/{number}" for number in _find_numbers(one.get("source_chat_ids"))
            ),
        )
        for category, some in json.loads((folder / "probing_questions.json").read_text()).items()
        if category != _UNANSWERABLE
        for one in some
    )
    return Conversation(
        dev_set=BEAM,
        name=name,
        turns=tuple(turns),
        questions=tuple(one for one in asked if one.gold),
    )


def _find_numbers(value: object) -> Iterator[int]:
    """Find the numbers in lists and objects within each other."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _find_numbers(each)
