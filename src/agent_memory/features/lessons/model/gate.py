"""The gate: which lessons of a project help with a prompt, with a calibrated score.

The score is the share of lessons with such evidence that helped, fitted over all of our sets (see
docs/decisions). Below the threshold nothing is given: an agent that is given nothing loses nothing,
and half of what memory tools push is pollution.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from agent_memory.features.lessons.model.lessons import KnownLesson, LessonKind
from agent_memory.kernel.late_package import LatePackage
from agent_memory.kernel.text import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
else:
    np = LatePackage("numpy")

THRESHOLD = 0.05  # of the likeliest: 19 of 20 prompts that need nothing get nothing
MORE_THRESHOLD = 0.15  # of those beside it
TELLING = 0.8  # least weight of a word that says what a text is about
_MOST_WORDS = 300  # of a prompt are read
_SAMPLED = 300  # requests of the project that a lesson is compared with
_NEAREST = 10  # of them
_FEWEST = 12  # with fewer, the usual nearness is not known but assumed:
_USUAL = 0.62


class RatedLesson(NamedTuple):
    """A lesson and how likely it is to help."""

    known: KnownLesson
    score: float


class PromptEvidence(NamedTuple):
    """What speaks for a lesson. Also the weights of a logistic regression over it."""

    text: float = 0.0  # the cosine of the prompt and the lesson
    situation: float = 0.0  # and of the prompt and the request that led to the lesson
    text_lead: float = 0.0  # how much nearer than the requests of other sessions are to it
    situation_lead: float = 0.0
    shared: float = 0.0  # how rare are the prompt's telling words which the lesson has
    about: float = 0.0  # or its situation
    unknown: float = 0.0  # the share of them which no lesson of the project has


class Cosines(NamedTuple):
    """How near a prompt is to a lesson, see `PromptEvidence`."""

    text: float
    situation: float
    text_lead: float
    situation_lead: float


class _GateCurve(NamedTuple):
    weights: PromptEvidence
    offset: float


_UNMEASURED = Cosines(0.0, 0.0, 0.0, 0.0)
_BY_MEANING = _GateCurve(
    PromptEvidence(
        text=3.94,
        situation=2.83,
        text_lead=11.57,
        situation_lead=6.52,
        shared=-0.1,
        about=1.21,
        unknown=-1.3,
    ),
    -8.29,
)
_BY_WORDS = _GateCurve(PromptEvidence(shared=0.36, about=2.17, unknown=-0.63), -7.57)


@dataclass(frozen=True, slots=True)
class PromptGate:
    """The lessons that agents may be given, ready to be compared with prompts."""

    lessons: Sequence[KnownLesson]
    texts: Sequence[frozenset[str]]  # the telling words of each
    about: Sequence[frozenset[str]]  # with those of its situation
    rarity: dict[str, float]  # of each word
    nearness: _Nearness | None  # None: there are no vectors

    def rate(self, prompt: str, vector: bytes | None) -> list[RatedLesson]:
        """Return the lessons that pass the gate, the likeliest first. Without a vector, words
        alone count."""
        words = find_telling_words(prompt)
        seen = [word for word in words if word in self.rarity]
        if not seen:
            return []  # such as "go on": nothing is known of what it asks for
        near = {} if vector is None or self.nearness is None else self.nearness.measure(vector)
        rated = []
        for place, known in enumerate(self.lessons):
            nearness = near.get(place, _UNMEASURED)
            evidence = PromptEvidence(
                text=nearness.text,
                situation=nearness.situation,
                text_lead=nearness.text_lead,
                situation_lead=nearness.situation_lead,
                shared=math.log1p(self._weigh(seen, self.texts[place])),
                about=math.log1p(self._weigh(seen, self.about[place])),
                unknown=1 - len(seen) / len(words),
            )
            score = _score(_BY_WORDS if nearness is _UNMEASURED else _BY_MEANING, evidence)
            if score >= THRESHOLD:
                rated.append(RatedLesson(known, score))
        rated.sort(key=lambda each: -each.score)
        return [each for each in rated if each is rated[0] or each.score >= MORE_THRESHOLD]

    def _weigh(self, seen: Iterable[str], words: frozenset[str]) -> float:
        return sum(self.rarity[word] for word in seen if word in words)


class _Nearness(NamedTuple):
    """The vectors of the lessons at some places, and how near the requests of other sessions
    usually are to them."""

    places: Sequence[int]
    texts: Floats
    situations: Floats
    usual_texts: Floats
    usual_situations: Floats

    def measure(self, vector: bytes) -> dict[int, Cosines]:
        prompt = np.frombuffer(vector, dtype="<f4")
        texts, situations = self.texts @ prompt, self.situations @ prompt
        rows = np.stack(
            (texts, situations, texts - self.usual_texts, situations - self.usual_situations), 1
        )
        return {place: Cosines(*row) for place, row in zip(self.places, rows.tolist(), strict=True)}


def build_gate(lessons: Sequence[KnownLesson]) -> PromptGate:
    """Build the gate for the active lessons of a project."""
    active = [known for known in lessons if known.is_active]
    texts = [find_telling_words(known.text) for known in active]
    about = [
        words | find_telling_words(f"{_get_situation(known)} {' '.join(known.lesson.paths)}")
        for known, words in zip(active, texts, strict=True)
    ]
    counts = Counter(word for words in about for word in words)
    return PromptGate(
        lessons=active,
        texts=texts,
        about=about,
        rarity={word: _rate_rarity(count, len(active)) for word, count in counts.items()},
        nearness=_build_nearness(active),
    )


def _get_situation(known: KnownLesson) -> str:
    """Return the request that a lesson is about. A failure is about its command alone: the same
    request opens a whole day of work."""
    return "" if known.lesson.kind is LessonKind.FAILURE else known.lesson.situation


def _get_vectors(known: KnownLesson) -> tuple[bytes, bytes]:
    text, situation = known.vectors
    return text, situation if _get_situation(known) else text


def _rate_rarity(count: int, lessons: int) -> float:
    """Return how rare a word is that so many of all lessons have."""
    return math.log(1 + (lessons + 1) / (count + 0.5))


def find_telling_words(text: str) -> frozenset[str]:
    """Return the stems of the words that say what a text is about."""
    found = (
        term
        for token in terms.tokenize(text)[:_MOST_WORDS]
        for term in terms.to_terms(
            token if len(token) <= terms.MAX_WORD else terms.shorten_path(token)
        )
    )
    return frozenset(term.stem for term in found if term.weight >= TELLING)


def _build_nearness(active: Sequence[KnownLesson]) -> _Nearness | None:
    """Compare lessons with the requests of other sessions: what is near to any request, such as
    "run the tests", says little where it is near to one more."""
    places = [place for place, known in enumerate(active) if len(known.vectors) == 2]
    active = [active[place] for place in places]
    if not active:
        return None
    texts, situations = (
        np.stack([np.frombuffer(vector, dtype="<f4") for vector in vectors])
        for vectors in zip(*map(_get_vectors, active), strict=True)
    )
    step = -(-len(active) // _SAMPLED)
    sessions = np.array([hash(known.lesson.session_id) for known in active])
    others = situations[::step]
    same = sessions[:, None] == sessions[None, ::step]

    def find_usual(vectors: Floats) -> Floats:
        if len(others) < _FEWEST:
            return np.full(len(active), _USUAL, dtype=np.float32)
        near = np.where(same, -1.0, vectors @ others.T)
        nearest = np.sort(near, axis=1)[:, -_NEAREST:]
        usual: Floats = np.where(nearest > -1.0, nearest, _USUAL).mean(axis=1).astype(np.float32)
        return usual

    return _Nearness(places, texts, situations, find_usual(texts), find_usual(situations))


def _score(curve: _GateCurve, evidence: PromptEvidence) -> float:
    total = sum(weight * value for weight, value in zip(curve.weights, evidence, strict=True))
    return 1 / (1 + math.exp(-min(50.0, max(-50.0, total + curve.offset))))
