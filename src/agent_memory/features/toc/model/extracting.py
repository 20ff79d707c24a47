"""The extractive summarizer: a summary in the words of the conversation, without a model.

Sentences are weighted by centrality (power iteration over their TF-IDF similarity), by speaker and
by cue words. They are selected one by one, each for what it adds to those before.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from math import log, sqrt

from agent_memory.features.log.model.events import EventRole
from agent_memory.features.toc.model import evidence, naming, outcomes, speech_acts
from agent_memory.features.toc.model.digests import MAX_KEYWORDS, digest, write_brief
from agent_memory.features.toc.model.last_words import LEAST_WEIGHT
from agent_memory.features.toc.model.statements import Statement, clean_excerpt, read_statements
from agent_memory.features.toc.model.summaries import (
    EMPTY,
    Dialogue,
    Digest,
    PeriodSummary,
    Point,
    Summary,
    Utterance,
    filter_spoken,
)
from agent_memory.kernel.text import phrases, sentences

__all__ = ["digest", "summarize"]

MAX_POINTS = 5

_DECISIVE = 1.7  # emphasis above which the cue counts in addition to the words
_CUE = 12.0
_NAMED = 1.25
_CALLED = 0.1  # the name of a speaker, which is mentioned all the time
_ONCE = 1.2  # value of one mention, beside the logarithm of their number
_ROUNDS = 3  # of the power iteration
_DAMPING = 0.85
_CENTRAL = 0.8
_IDLE = 0.1
_ROOM = 0.25  # penalty exponent for the length of a sentence
_SEEN = 0.1  # the rest of a term's value once a bullet has it
_FIRST_SHARE = (0.0, 0.1, 0.1)  # least share of the best sentence's value, to become a bullet
_LATER_SHARE = 0.15


def summarize_all(conversations: Sequence[Dialogue]) -> list[Summary]:
    """Summarize each conversation. The worker process calls this: here, it loads no adapter."""
    return [
        summarize(dialogue.utterances, dialogue.overlap, is_cut=dialogue.is_cut)
        for dialogue in conversations
    ]


def digest_all(periods: Sequence[PeriodSummary]) -> list[Digest]:
    return [digest(period) for period in periods]


def summarize(
    conversation: Sequence[Utterance],
    overlap: Sequence[Utterance] = (),
    *,
    is_cut: bool = False,
) -> Summary:
    """Summarize a conversation. `overlap` is context only; no bullet quotes it. `is_cut` says that
    the agent goes on after it."""
    spoken, before = filter_spoken(conversation), filter_spoken(overlap)
    statements = read_statements(_select_prose(spoken))
    work = evidence.is_work(spoken, before)
    if not statements and not work:
        return _summarize_first_line(spoken)
    worth = _worth(statements, read_statements(before))
    people = list(dict.fromkeys(utterance.speaker for utterance in spoken if utterance.speaker))
    if work:
        _rate(statements, worth)
        title, points = outcomes.read_work(spoken, before, statements, is_cut=is_cut)
        keys = _find_keys([each for each in statements if _is_topical(each)], worth)
    else:
        _rank(statements, worth)
        keys = _find_keys([each for each in statements if not _is_output(each)], worth)
        _damp_pleasantries(statements)
        selected = sorted(_select_statements(statements, worth), key=lambda each: each.place)
        points = tuple(_point(statement, len(statements)) for statement in selected)
        title = naming.name_chat(statements, keys, people)
    if not points:
        return _summarize_first_line(spoken)
    return Summary(
        title=title,
        text=write_brief(_lead(points, people, keys), keys, [point.text for point in points]),
        points=points,
        keywords=tuple(keys[:MAX_KEYWORDS]),
    )


def _find_keys(statements: Sequence[Statement], worth: dict[str, float]) -> list[str]:
    return phrases.extract_key_phrases([each.words for each in statements], worth, 4 * MAX_KEYWORDS)


def _is_output(statement: Statement) -> bool:
    return statement.source.role is EventRole.TOOL


def _is_topical(statement: Statement) -> bool:
    """Return whether key phrases of work are taken from a sentence: narration and the headings of a
    report name no topic."""
    is_heading = statement.span.kind is sentences.SentenceKind.HEADING
    return not is_heading and not _is_output(statement) and statement.kind is not None


def _rate(statements: Sequence[Statement], worth: dict[str, float]) -> None:
    """Set the centrality of sentences of work by the value of their words. It counts less there
    than their kinds: the graph of similar sentences is not worth its time."""
    values = [
        sum([worth[stem] for stem in each.words.stems]) / sqrt(len(each.words.stems))
        for each in statements
    ]
    most = max(values, default=0.0) or 1.0
    for statement, value in zip(statements, values, strict=True):
        statement.central = value / most


def _damp_pleasantries(statements: Sequence[Statement]) -> None:
    """Value what an assistant asks back, offers and announces little."""
    for statement in statements:
        said_by_it = statement.source.role is EventRole.ASSISTANT
        if said_by_it and speech_acts.classify(statement.text, report=True).kind is None:
            statement.factor *= _IDLE


def _select_prose(spoken: Sequence[Utterance]) -> list[Utterance]:
    """Leave out titles and summaries of earlier events: they are evidence, not conversation."""
    return [each for each in spoken if not each.titles and not each.summarizes]


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
    source, span = statement.source, statement.span
    return Point(
        text=statement.text if span.whole else statement.text + "…",
        weight=max(round(weight, 4), LEAST_WEIGHT),
        support=(source.quote(source.text[span.start : span.end]),),
    )


def _summarize_first_line(spoken: Sequence[Utterance]) -> Summary:
    """Summarize a conversation without a meaningful sentence by its first line."""
    for utterance in spoken:
        span = sentences.find_first_line(utterance.text)
        excerpt = utterance.text[span.start : span.end] if span else ""
        if text := clean_excerpt(excerpt):
            point = Point(text=text, weight=LEAST_WEIGHT, support=(utterance.quote(excerpt),))
            title = naming.name_prompt(spoken)
            return Summary(title=title, text=text, points=(point,), keywords=())
    return EMPTY


def _lead(points: Sequence[Point], people: Sequence[str], keys: Sequence[str]) -> str:
    """Return the heaviest bullet or, between several people, who talked about what."""
    if len(people) > 1 and keys:
        return f"{naming.join_words(people[:4])} on {naming.join_words(keys[:4])}"
    return max(points, key=lambda point: point.weight).text
