"""The extractive summarizer: a summary in the words of the conversation, without a model.

Sentences are weighted by centrality (power iteration over their TF-IDF similarity), by speaker and
by cue words. They are selected one by one, each for what it adds to those before.
"""

import re
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from math import log, sqrt

from agent_memory.features.log.model.events import EventRole
from agent_memory.features.toc.model.digests import MAX_KEYWORDS, digest, write_brief
from agent_memory.features.toc.model.statements import (
    Statement,
    build_support,
    clean_excerpt,
    read_statements,
)
from agent_memory.features.toc.model.summaries import (
    EMPTY,
    Point,
    Summary,
    Utterance,
    filter_spoken,
)
from agent_memory.kernel.text import phrases, sentences

__all__ = ["digest", "summarize"]

MAX_POINTS = 5
MAX_TITLE = 80
LEAST_WEIGHT = 0.001

_DECISIVE = 1.7  # emphasis above which the cue counts in addition to the words
_CUE = 12.0
_NAMED = 1.25
_CALLED = 0.1  # the name of a speaker, which is mentioned all the time
_ONCE = 1.2  # value of one mention, beside the logarithm of their number
_ROUNDS = 3  # of the power iteration
_DAMPING = 0.85
_CENTRAL = 0.8
_ROOM = 0.25  # penalty exponent for the length of a sentence
_SEEN = 0.1  # the rest of a term's value once a bullet has it
_FIRST_SHARE = (0.0, 0.1, 0.1)  # least share of the best sentence's value, to become a bullet
_LATER_SHARE = 0.15

_POLITE = re.compile(
    r"(?:(?:please|ok(?:ay)?|so|now|hey|hi|and|also|well|great|yes),?\s+)*"
    r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?"
    r"|(?:i['\u2019]d\s+like|i\s+want|i\s+need)\s+(?:you\s+)?to\s+"
    r"|let['\u2019]s\s+|please\s+|help\s+me\s+(?:to\s+)?)?",
    re.IGNORECASE,
)


def summarize(conversation: Sequence[Utterance], overlap: Sequence[Utterance] = ()) -> Summary:
    """Summarize a conversation. `overlap` is context only; no bullet quotes it."""
    spoken = filter_spoken(conversation)
    statements = read_statements(spoken)
    if not statements:
        return _summarize_first_line(spoken)
    context = read_statements(filter_spoken(overlap))
    worth = _worth(statements, context)
    _rank(statements, worth)
    selected = sorted(_select_statements(statements, worth), key=lambda statement: statement.place)
    points = tuple(_point(statement, len(statements)) for statement in selected)
    words = [
        statement.words for statement in statements if statement.source.role is not EventRole.TOOL
    ]
    keys = phrases.extract_key_phrases(
        words or [statement.words for statement in statements], worth, 4 * MAX_KEYWORDS
    )
    people = list(dict.fromkeys(utterance.speaker for utterance in spoken if utterance.speaker))
    return Summary(
        title=_title(statements, keys, people),
        text=write_brief(_lead(points, people, keys), keys, [point.text for point in points]),
        points=points,
        keywords=tuple(keys[:MAX_KEYWORDS]),
    )


def _worth(statements: Sequence[Statement], context: Sequence[Statement]) -> dict[str, float]:
    """Return the value of each term: how distinctive it is, and how often it is said."""
    counts: dict[str, float] = {}
    weight: dict[str, float] = {}
    for statement in statements:
        share = 0.5 if statement.source.role is EventRole.TOOL else 1.0
        for stem, telling in statement.words.stems.items():
            counts[stem] = counts.get(stem, 0.0) + share
            if telling > weight.get(stem, 0.0):
                weight[stem] = telling
        for stem in statement.words.named:
            weight[stem] = max(weight[stem], _NAMED)
    for statement in context:
        for stem in statement.words.stems:
            if stem in counts:
                counts[stem] += 0.5
    for speaker in {statement.source.speaker for statement in statements}:
        for stem in phrases.split_words(speaker).stems:
            if stem in weight:
                weight[stem] = _CALLED
    return {stem: weight[stem] * (_ONCE + log(1.0 + count)) for stem, count in counts.items()}


def _rank(statements: Sequence[Statement], worth: dict[str, float]) -> None:
    """Set the centrality in the graph of similar sentences, which is not built: S·x = V·(Vᵀ·x)."""
    having: dict[str, int] = {}
    for statement in statements:
        for stem in statement.words.stems:
            having[stem] = having.get(stem, 0) + 1
    size = len(statements)
    rarity = {stem: worth[stem] * log(1.0 + size / count) for stem, count in having.items()}
    vectors: list[list[tuple[str, float]]] = []
    for statement in statements:
        row = [(stem, rarity[stem]) for stem in statement.words.stems]
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
    for statement, x in zip(statements, central, strict=True):
        statement.central = x


def _select_statements(statements: Sequence[Statement], worth: dict[str, float]) -> list[Statement]:
    """Select the bullets: each is the sentence that adds most to those before it."""
    left = dict(worth)
    heap = [(-_value(statement, left), -number) for number, statement in enumerate(statements)]
    heapify(heap)  # of two equal sentences the later comes first: it may correct the earlier
    best = -heap[0][0]
    limit = min(MAX_POINTS, (len(statements) + 1) // 2 + 1)
    selected: list[Statement] = []
    while heap and len(selected) < limit:
        _, number = heap[0]
        statement = statements[-number]
        value = _value(statement, left)
        heapreplace(heap, (-value, number))
        if heap[0][1] != number:
            continue  # values only fall: a sentence that stays on top is the best
        enough = _FIRST_SHARE[len(selected)] if len(selected) < len(_FIRST_SHARE) else _LATER_SHARE
        if value < enough * best:
            break
        heappop(heap)
        selected.append(statement)
        for stem in statement.words.stems:
            left[stem] *= _SEEN
    return selected


def _value(statement: Statement, left: dict[str, float]) -> float:
    gain = sum([left[stem] for stem in statement.words.stems])
    gain += _CUE * max(0.0, statement.emphasis - _DECISIVE)
    relevance = 1 - _CENTRAL + _CENTRAL * statement.central
    return gain * statement.factor * relevance / float((statement.words.size + 6) ** _ROOM)


def _point(statement: Statement, among: int) -> Point:
    """Return a bullet. Weights are comparable across segments; short segments count less."""
    weight = statement.factor * statement.central * min(1.0, 0.5 + among / 40)
    return Point(
        text=statement.text if statement.span.whole else statement.text + "…",
        weight=max(round(weight, 4), LEAST_WEIGHT),
        support=(build_support(statement.source, statement.span),),
    )


def _summarize_first_line(spoken: Sequence[Utterance]) -> Summary:
    """Summarize a conversation without a meaningful sentence by its first line."""
    for utterance in spoken:
        span = sentences.find_first_line(utterance.text)
        text = clean_excerpt(utterance.text[span.start : span.end]) if span else ""
        if span and text:
            point = Point(text=text, weight=LEAST_WEIGHT, support=(build_support(utterance, span),))
            return Summary(title=None, text=text, points=(point,), keywords=())
    return EMPTY


def _title(
    statements: Sequence[Statement], keys: Sequence[str], people: Sequence[str]
) -> str | None:
    """Return the user's request in their words or, between people, the topics they discuss."""
    if len(people) < 2:
        asked = [statement for statement in statements if statement.source.role is EventRole.USER][
            :12
        ]
        value, request = max(
            (_request(statement, at) for at, statement in enumerate(asked)), default=(0.0, "")
        )
        if value > 0:
            return request
    title = ""
    for key in keys[:4]:
        longer = f"{title}, {key}" if title else key
        if len(longer) > MAX_TITLE:
            break
        title = longer
    return _capital(title) or None


def _request(statement: Statement, at: int) -> tuple[float, str]:
    polite = _POLITE.match(statement.text)
    text = statement.text[polite.end() if polite else 0 :].rstrip(" .!:;,…")
    if len(text) > MAX_TITLE:
        cut = max(text.rfind(mark, 24, MAX_TITLE) for mark in (": ", ", ", "; ", " - ", " ("))
        text = text[:cut] if cut > 0 else ""
    if len(text) < 10 or statement.telling < 2:
        return 0.0, ""
    return statement.central / (1 + 0.15 * at), _capital(text)


def _capital(text: str) -> str:
    word = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text


def _lead(points: Sequence[Point], people: Sequence[str], keys: Sequence[str]) -> str:
    """Return the heaviest bullet or, between several people, who talked about what."""
    if len(people) > 1 and keys:
        return f"{_join_names(people[:4])} on {_join_names(keys[:4])}"
    return max(points, key=lambda point: point.weight).text


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
