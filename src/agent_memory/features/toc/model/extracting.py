"""The extractive summarizer: a conversation in short, in its own words. No model, no network.

Sentences are weighed by how central they are (power iteration over their TF-IDF similarity), by
who says them and by their cues. They are chosen one by one, each for what it adds to those before.
"""

import re
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from math import log, sqrt

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import statements
from agent_memory.features.toc.model.digests import MAX_KEYWORDS, brief, digest
from agent_memory.features.toc.model.statements import Statement, build_support, clean_excerpt
from agent_memory.features.toc.model.summaries import EMPTY, Point, Summary, Utterance
from agent_memory.kernel.text import phrases, sentences

__all__ = ["digest", "summarize"]

MAX_POINTS = 5
MAX_TITLE = 80
LEAST_WEIGHT = 0.001

_MARKERS = frozenset({EventType.SESSION_START, EventType.SESSION_END})
_DECISIVE = 1.7  # emphasis above which the cue counts beside the words
_CUE = 12.0
_NAMED = 1.25
_CALLED = 0.1  # the name of a speaker, called all the time
_ONCE = 1.2  # worth of being said at all, next to the logarithm of how often
_ROUNDS = 3  # of the power iteration
_DAMPING = 0.85
_CENTRAL = 0.8
_ROOM = 0.25  # how much a long sentence pays for its length
_SEEN = 0.1  # what is left of a term's worth once a bullet has it
_FIRST_SHARE = (0.0, 0.1, 0.1)  # of the best sentence's value, to be a bullet at all
_LATER_SHARE = 0.15

_POLITE = re.compile(
    r"(?:(?:please|ok(?:ay)?|so|now|hey|hi|and|also|well|great|yes),?\s+)*"
    r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?"
    r"|(?:i['\u2019]d\s+like|i\s+want|i\s+need)\s+(?:you\s+)?to\s+"
    r"|let['\u2019]s\s+|please\s+|help\s+me\s+(?:to\s+)?)?",
    re.IGNORECASE,
)


def summarize(conversation: Sequence[Utterance], overlap: Sequence[Utterance] = ()) -> Summary:
    """A conversation in short. `overlap` tells what it is about; no bullet rests on it."""
    spoken = [one for one in conversation if one.type not in _MARKERS and one.text.strip()]
    found = statements.read(spoken)
    if not found:
        return _bare(spoken)
    context = statements.read([one for one in overlap if one.type not in _MARKERS])
    worth = _worth(found, context)
    _rank(found, worth)
    chosen = sorted(_choose_statements(found, worth), key=lambda one: one.place)
    points = tuple(_point(one, len(found)) for one in chosen)
    said = [one.words for one in found if one.source.role is not EventRole.TOOL]
    keys = phrases.extract_key_phrases(
        said or [one.words for one in found], worth, 4 * MAX_KEYWORDS
    )
    people = list(dict.fromkeys(one.speaker for one in spoken if one.speaker))
    return Summary(
        title=_title(found, keys, people),
        text=brief(_lead(points, people, keys), keys, [one.text for one in points]),
        points=points,
        keywords=tuple(keys[:MAX_KEYWORDS]),
    )


def _worth(found: Sequence[Statement], context: Sequence[Statement]) -> dict[str, float]:
    """How much a term stands for the conversation: how telling it is, and how often it is said."""
    said: dict[str, float] = {}
    weight: dict[str, float] = {}
    for one in found:
        share = 0.5 if one.source.role is EventRole.TOOL else 1.0
        for stem, telling in one.words.stems.items():
            said[stem] = said.get(stem, 0.0) + share
            if telling > weight.get(stem, 0.0):
                weight[stem] = telling
        for stem in one.words.named:
            weight[stem] = max(weight[stem], _NAMED)
    for one in context:
        for stem in one.words.stems:
            if stem in said:
                said[stem] += 0.5
    for speaker in {one.source.speaker for one in found}:
        for stem in phrases.split_words(speaker).stems:
            if stem in weight:
                weight[stem] = _CALLED
    return {stem: weight[stem] * (_ONCE + log(1.0 + count)) for stem, count in said.items()}


def _rank(found: Sequence[Statement], worth: dict[str, float]) -> None:
    """Centrality in the graph of similar sentences, which is never built: S·x = V·(Vᵀ·x)."""
    having: dict[str, int] = {}
    for one in found:
        for stem in one.words.stems:
            having[stem] = having.get(stem, 0) + 1
    size = len(found)
    rarity = {stem: worth[stem] * log(1.0 + size / count) for stem, count in having.items()}
    vectors: list[list[tuple[str, float]]] = []
    for one in found:
        row = [(stem, rarity[stem]) for stem in one.words.stems]
        norm = sqrt(sum([value * value for _, value in row]))
        vectors.append([(stem, value / norm) for stem, value in row])
    central = [1.0] * size
    for _ in range(_ROUNDS):
        total = dict.fromkeys(having, 0.0)
        for row, x in zip(vectors, central, strict=True):
            for stem, value in row:
                total[stem] += value * x
        reached = [sum([value * total[stem] for stem, value in row]) for row in vectors]
        most = max(reached)
        central = [1.0 - _DAMPING + _DAMPING * x / most for x in reached]
    for one, x in zip(found, central, strict=True):
        one.central = x


def _choose_statements(found: Sequence[Statement], worth: dict[str, float]) -> list[Statement]:
    """The bullets: each the sentence that adds most to those before it."""
    left = dict(worth)
    heap = [(-_value(one, left), -number) for number, one in enumerate(found)]
    heapify(heap)  # of two equal ones the later comes first: it may correct the earlier
    best = -heap[0][0]
    limit = min(MAX_POINTS, (len(found) + 1) // 2 + 1)
    chosen: list[Statement] = []
    while heap and len(chosen) < limit:
        _, number = heap[0]
        one = found[-number]
        value = _value(one, left)
        heapreplace(heap, (-value, number))
        if heap[0][1] != number:
            continue  # a value only falls: what is still on top with its new one is the highest
        enough = _FIRST_SHARE[len(chosen)] if len(chosen) < len(_FIRST_SHARE) else _LATER_SHARE
        if value < enough * best:
            break
        heappop(heap)
        chosen.append(one)
        for stem in one.words.stems:
            left[stem] *= _SEEN
    return chosen


def _value(one: Statement, left: dict[str, float]) -> float:
    gain = sum([left[stem] for stem in one.words.stems])
    gain += _CUE * max(0.0, one.emphasis - _DECISIVE)
    relevance = 1 - _CENTRAL + _CENTRAL * one.central
    return gain * one.factor * relevance / float((one.words.size + 6) ** _ROOM)


def _point(one: Statement, among: int) -> Point:
    """The weight is of one scale for all segments; those of a few words count for less."""
    weight = one.factor * one.central * min(1.0, 0.5 + among / 40)
    return Point(
        text=one.text if one.span.whole else one.text + "…",
        weight=max(round(weight, 4), LEAST_WEIGHT),
        support=(build_support(one.source, one.span),),
    )


def _bare(spoken: Sequence[Utterance]) -> Summary:
    """A conversation without a telling sentence: the first thing there is to show."""
    for one in spoken:
        span = sentences.find_first_line(one.text)
        text = clean_excerpt(one.text[span.start : span.end]) if span else ""
        if span and text:
            point = Point(text=text, weight=LEAST_WEIGHT, support=(build_support(one, span),))
            return Summary(title=None, text=text, points=(point,), keywords=())
    return EMPTY


def _title(found: Sequence[Statement], keys: Sequence[str], people: Sequence[str]) -> str | None:
    """What the user came for, in their words; between people, what they talked about."""
    if len(people) < 2:
        asked = [one for one in found if one.source.role is EventRole.USER][:12]
        value, request = max((_request(one, at) for at, one in enumerate(asked)), default=(0.0, ""))
        if value > 0:
            return request
    title = ""
    for key in keys[:4]:
        longer = f"{title}, {key}" if title else key
        if len(longer) > MAX_TITLE:
            break
        title = longer
    return _capital(title) or None


def _request(one: Statement, at: int) -> tuple[float, str]:
    polite = _POLITE.match(one.text)
    text = one.text[polite.end() if polite else 0 :].rstrip(" .!:;,…")
    if len(text) > MAX_TITLE:
        cut = max(text.rfind(mark, 24, MAX_TITLE) for mark in (": ", ", ", "; ", " - ", " ("))
        text = text[:cut] if cut > 0 else ""
    if len(text) < 10 or one.telling < 2:
        return 0.0, ""
    return one.central / (1 + 0.15 * at), _capital(text)


def _capital(text: str) -> str:
    word = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text


def _lead(points: Sequence[Point], people: Sequence[str], keys: Sequence[str]) -> str:
    """The heaviest bullet; between people, who talked about what: none of them speaks for all."""
    if len(people) > 1 and keys:
        return f"{_join_names(people[:4])} on {_join_names(keys[:4])}"
    return max(points, key=lambda one: one.weight).text


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
