"""Made-up conversations of any number of turns, the same each time, and questions about them.

Words are drawn by rank from a few thousand, as in any language; each session has some of its own,
so that its turns are about something. What stands for a turn's meaning is mixed of real embeddings:
to embed 100,000 turns takes an hour.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_memory.client import Event, EventRole, EventType
from agent_memory.features.index.ports import Embedder
from agent_memory.features.log.model import events as domain
from agent_memory.kernel.ids import EventId, Millis, SessionId
from bench import vocabulary

TURNS = 40  # of a session
EMBEDDED_AT = 10_000_000  # number of the first turn whose embedding is mixed with others
PROJECTS = 20
FIRST_MS = 1_735_689_600_000  # 1 January 2025
YEAR_MS = 365 * 86_400_000
SPEAKERS = (
    "Amara", "Bjorn", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hiro", "Ines", "Jonas",
    "Katya", "Lucien",
)  # fmt: skip
SHORTEST, LONGEST = 10, 60  # words of a turn
_TURN_MS = 45_000
_FLATTENING = 3.0  # Zipf-Mandelbrot: the first ranks are not as common as 1/rank says
_NAMES = 1_500  # made-up words, the rarest
_STEP = 13
_TOPIC = (9, 3)  # words that a session is about, and names of these
_ON_TOPIC = 0.25
_COMMON = 150  # ranks that tell nothing
_TEMPLATES = (
    "What did {who} say about the {a} and the {b}?",
    "When did we talk about {a} and {b}?",
    "Which {a} was it that {who} wanted to change because of the {b}?",
    "{a} {b} {c}",
    "How did the {a} with the {b} and the {c} come about?",
)
_NOISE = 0.025  # of each dimension

Floats = NDArray[np.float32]


@cache
def words() -> tuple[str, ...]:
    """Commonest first."""
    function, verbs, qualifiers, content = (
        kind.split()
        for kind in (
            vocabulary.FUNCTION,
            vocabulary.VERBS,
            vocabulary.QUALIFIERS,
            vocabulary.CONTENT,
        )
    )
    forms = [f"{word}s" for word in (*content, *verbs)]
    # As products, people and modules are called. A step, since neighbours begin alike.
    pairs = (f"{one}{other}" for one, other in product(qualifiers, content))
    names = islice(pairs, 0, _NAMES * _STEP, _STEP)
    return tuple(dict.fromkeys([*function, *verbs, *qualifiers, *content, *forms, *names]))


@cache
def _chances() -> NDArray[np.float64]:
    weights = 1.0 / (np.arange(len(words())) + _FLATTENING)
    return np.asarray(np.cumsum(weights) / weights.sum())


def turns(count: int, first: int = 0) -> Iterator[Event]:
    """Return the turns from this number on. They do not depend on `count`."""
    session, skipped = divmod(first, TURNS)
    found = (event for number in _from(session) for event in _session(number))
    return islice(found, skipped, skipped + count)


def stored(event: Event) -> domain.Event:
    """Build the event that the daemon stores."""
    return domain.Event(
        event_id=EventId(event.event_id),
        session_id=SessionId(event.session_id),
        at_ms=Millis(round(event.timestamp.timestamp() * 1000)),
        type=domain.EventType(event.event_type),
        role=domain.EventRole(event.role),
        text=event.text,
        metadata=dict(event.metadata),
    )


def questions(count: int, among: int, seed: int = 0) -> list[str]:
    """About some of the first `among` turns."""
    chance = np.random.default_rng([seed, among])
    ranks = {word: rank for rank, word in enumerate(words())}
    asked = []
    for number in range(count):
        (turn,) = turns(1, int(chance.integers(among)))
        telling = [w for w in turn.text.split() if ranks.get(w, 0) >= _COMMON] or ["parser"]
        a, b, c = chance.choice(telling, 3)
        template = _TEMPLATES[number % len(_TEMPLATES)]
        asked.append(template.format(a=a, b=b, c=c, who=turn.metadata["speaker"]))
    return asked


def dated(asked: Sequence[str]) -> list[str]:
    """Ask the same about some month."""
    months = (datetime(2025, 1 + number % 12, 1, tzinfo=UTC) for number in range(len(asked)))
    return [
        f"{question.rstrip('?')} in {month:%B %Y}"
        for question, month in zip(asked, months, strict=True)
    ]


class Meanings:
    """A vector for every turn, near those of texts that were really embedded: turns of one session
    near turns of one session."""

    def __init__(self, embedder: Embedder, sessions: int) -> None:
        found = embedder.embed([each.text for each in turns(sessions * TURNS, first=EMBEDDED_AT)])
        self._sessions = sessions
        self._real = np.stack([np.frombuffer(vector, "<f4") for vector in found])

    def some(self, count: int, seed: int) -> Floats:
        """Of `count` turns, whole sessions."""
        chance = np.random.default_rng(seed)
        like = np.repeat(chance.integers(self._sessions, size=-(-count // TURNS)), TURNS)[:count]
        one = like * TURNS + chance.integers(TURNS, size=count)
        other = chance.integers(len(self._real), size=count)
        share = chance.uniform(0.5, 1.0, (count, 1))
        mixed = share * self._real[one] + (1.0 - share) * self._real[other]
        mixed += chance.normal(0.0, _NOISE, mixed.shape)
        return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), np.float32)


def _from(number: int) -> Iterator[int]:
    while True:
        yield number
        number += 1


def _session(number: int) -> list[Event]:
    chance = np.random.default_rng(number)
    known = words()
    rare = len(known) - _NAMES
    topic = np.concatenate(
        [chance.integers(_COMMON, rare, _TOPIC[0]), chance.integers(rare, len(known), _TOPIC[1])]
    )
    sizes = chance.integers(SHORTEST, LONGEST + 1, TURNS)
    drawn: NDArray[Any] = np.searchsorted(_chances(), chance.random(int(sizes.sum())))
    on_topic = chance.random(len(drawn)) < _ON_TOPIC
    drawn[on_topic] = chance.choice(topic, int(on_topic.sum()))
    # A step that shares no factor with the minutes of a year: sessions in no order of time.
    begins = FIRST_MS + number * 7_919 * 60_000 % YEAR_MS
    project = f"project-{number % PROJECTS:02}"
    speakers = chance.choice(SPEAKERS, 2, replace=False)
    ends = np.cumsum(sizes)
    return [
        Event(
            event_id=f"s{number:07}-{turn:02}",
            session_id=f"session-{number:07}",
            timestamp=begins + turn * _TURN_MS,
            event_type=EventType.ASSISTANT_MESSAGE if turn % 2 else EventType.USER_MESSAGE,
            role=EventRole.ASSISTANT if turn % 2 else EventRole.USER,
            text=_sentence([known[rank] for rank in drawn[end - size : end]]),
            metadata={"project": project, "speaker": str(speakers[turn % 2])},
        )
        for turn, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]


def _sentence(said: Sequence[str]) -> str:
    line = " ".join(said)
    return f"{line[0].upper()}{line[1:]}{'?' if len(said) % 7 == 0 else '.'}"
