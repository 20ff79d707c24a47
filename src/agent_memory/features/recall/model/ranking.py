"""Ranking: how well each of some candidates answers a question. Pure, with all weights here.

    score = words + MEANING x meaning + SPEAKER x named + TIME x nearness

*words* is BM25 in which a turn of a conversation also carries the words of the turns around it, as
a share of the most that the question could get; *meaning* is a cosine, evened out over the turns
around. Both are on scales of their own, so that a score does not depend on what else was found.
What each ingredient brings is written down in docs/decisions.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from operator import itemgetter
from typing import NamedTuple

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document, DocumentKind
from agent_memory.features.index.model.queries import SearchMode, TermStatistics
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import analysis, time_expressions
from agent_memory.kernel.text.time_expressions import TimeWindow
from agent_memory.kernel.text.vocabulary import ASKING

BM25_K1 = 1.0  # BM25's k1: small, so that a word counts once, roughly
BM25_B = 0.75  # BM25's b
# shares of its words that a turn takes from the one, two and three turns before
BEFORE = (0.4, 0.2, 0.1)
AFTER = (0.2, 0.1, 0.05)
QUESTION_BOOST = 2.5  # times the share from the turn before, where that turn asks something
ASKING_TURN = 0.25  # what a turn that ends with a question loses: it asks and does not answer
LONG_TURN_WORDS = 50  # words: a longer turn takes less from the turns around it
COVERAGE_WEIGHT = 0.4  # how much of the word score depends on how much of the question is met
MEANING = 0.8
MEANING_BEFORE = (0.3, 0.15)
MEANING_AFTER = (0.2, 0.1)
LEAST_MEANING = 0.15  # a cosine below it means that two texts are unrelated
SPEAKER = 0.1
TIME = 0.3
MOST_TERMS = 48  # terms of a question
LATER_DAYS_SHARE = (
    0.5  # share of the time bonus in the days after a time: things are reported later
)
TOLD_LATER_DAYS = 7.0
RECENT_DAYS = 30.0
MOST_WORDS = 1_024  # words of one text that are tokenized; longer texts are sampled

REACH = max(len(BEFORE), len(AFTER))  # turns to either side that count
_ENDING = 20  # characters
_DAY_MS = 86_400_000
_SMALL = 20_000  # characters of a text that is tokenized whole
_LEAST_SAMPLE = 64  # words sampled per term, however many terms there are
_TIES = 4  # decimal places of a score that count; equal scores are ties

_ROLES = frozenset({"assistant"})  # roles that are names, however they are written
# roles that are ordinary words of a question
_NO_NAMES = frozenset({"user", "tool", "system", "human"})
_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile(r"['\u2019]s\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuestion:
    """A question split into what ranking needs."""

    words: tuple[tuple[str, str], ...]  # words that carry meaning, each with its term
    names: frozenset[str]  # speakers that the question names
    windows: tuple[TimeWindow, ...]
    meaning: str  # text to embed

    @property
    def terms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term for _, term in self.words))

    @property
    def needles(self) -> tuple[str, ...]:
        """Return strings of which every matching text, folded, contains at least one."""
        return tuple(dict.fromkeys(_needle(term) for term in self.terms))


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A hit or a turn beside one. `before` and `after` are indexes into the pool, nearest first."""

    document: Document
    cosine: float | None = None
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


class Ranked(NamedTuple):
    """A candidate's index in the pool, its score, and the parts of the score."""

    place: int
    score: float
    words: float
    meaning: float
    speaker: float
    time: float

    @property
    def parts(self) -> dict[str, float]:
        named = {
            "words": self.words,
            "meaning": self.meaning,
            "speaker": self.speaker,
            "time": self.time,
        }
        return {name: part for name, part in named.items() if part}


def parse_question(question: str, now: Millis, zone: tzinfo = UTC) -> ParsedQuestion:
    """Parse a question without knowing the speakers; see `resolve_speakers`."""
    windows = time_expressions.find(question, now, zone)
    said = _WORD.findall(_POSSESSIVE.sub(" ", time_expressions.remove_windows(question, windows)))
    words = tuple((word, term) for word in said for term in analysis.extract_terms(word))
    content = tuple((word, term) for word, term in words if word.lower() not in ASKING) or words
    return ParsedQuestion(words=content, windows=windows, names=frozenset(), meaning=question)


def resolve_speakers(question: ParsedQuestion, speakers: frozenset[str]) -> ParsedQuestion:
    """Return the question with some terms marked as speakers: who said something is not part of
    what was said."""
    names = frozenset(
        term
        for word, term in question.words
        if term in speakers - _NO_NAMES and (word[0].isupper() or term in _ROLES)
    )
    if not names:
        return question
    rest = tuple((word, term) for word, term in question.words if term not in names)
    kept = [word for word in question.meaning.split() if not _any_of(names, word)]
    tells = any(part.lower() not in ASKING for part in _WORD.findall(" ".join(kept)))
    return replace(
        question,
        words=rest or question.words,
        names=names,
        meaning=" ".join(kept) if tells else question.meaning,
    )


def limit_terms(question: ParsedQuestion, statistics: TermStatistics) -> ParsedQuestion:
    """Return the question with at most MOST_TERMS terms: the rarest that occur at all."""
    if len(question.terms) <= MOST_TERMS:
        return question
    count = statistics.frequencies
    rarest = sorted(question.terms, key=lambda term: (not count.get(term), count.get(term, 0)))
    kept = frozenset(rarest[:MOST_TERMS])
    return replace(question, words=tuple(each for each in question.words if each[1] in kept))


def weigh_terms(question: ParsedQuestion, statistics: TermStatistics) -> dict[str, float]:
    """Return how rare each term of the question is."""
    return {term: _rarity(term, statistics) for term in question.terms}


def rank(
    question: ParsedQuestion,
    pool: Sequence[Candidate],
    statistics: TermStatistics,
    mode: SearchMode,
) -> list[Ranked]:
    """Rank the pool, best first. The order does not depend on how the pool is arranged."""
    words = (
        [0.0] * len(pool) if mode is SearchMode.VECTOR else _score_words(question, pool, statistics)
    )
    meaning = [0.0] * len(pool) if mode is SearchMode.BM25 else _score_meaning(pool)
    weights = {
        SearchMode.HYBRID: (1.0, MEANING),
        SearchMode.BM25: (1.0, 0.0),
        SearchMode.VECTOR: (0.0, 1.0),
    }
    for_words, for_meaning = weights[mode]
    found = []
    for place, candidate in enumerate(pool):
        document = candidate.document
        named = SPEAKER if _is_named(question.names, document) else 0.0
        time = TIME * _score_nearness(question.windows, document.at_ms) if question.windows else 0.0
        raw = for_words * words[place] + for_meaning * meaning[place] + named + time
        score = min(1.0, max(0.0, raw / (for_words + for_meaning)))
        # Of equal scores, the newer comes first.
        order = -round(score, _TIES), -document.at_ms, document.kind, document.id
        ranked = Ranked(place, score, words[place], meaning[place], named, time)
        found.append((order, ranked))
    found.sort(key=itemgetter(0))
    return [ranked for _, ranked in found]


def score_recency(at_ms: Millis, now: Millis) -> float:
    """Score how recent something is, from 0 to 1: now is 1, a month ago .37, a year ago 0.

    Used for hits that are shown because they are new, where no question was asked.
    """
    return math.exp(-max(0, now - at_ms) / _DAY_MS / RECENT_DAYS)


def is_relevant(ranked: Ranked) -> bool:
    """Tell whether a candidate deserves to be shown: a turn may be in the pool only as a
    neighbor."""
    return bool(ranked.words or ranked.time) or ranked.meaning >= LEAST_MEANING


def _score_words(
    question: ParsedQuestion, pool: Sequence[Candidate], statistics: TermStatistics
) -> list[float]:
    """Score how much of the question each candidate has in words, from 0 to 1."""
    weights = weigh_terms(question, statistics)
    total = sum(weights.values()) or 1.0
    own, gates = _count_terms(question, pool, statistics)
    found: list[float] = []
    for place, candidate in enumerate(pool):
        carried = dict(own[place])
        for sources, shares, asks in (
            (candidate.before, BEFORE, True),
            (candidate.after, AFTER, False),
        ):
            for number, (source, share) in enumerate(zip(sources, shares, strict=False)):
                if not own[source]:
                    continue
                given = share * gates[place]
                if asks and number == 0 and "?" in pool[source].document.text:
                    given *= QUESTION_BOOST
                for term, count in own[source].items():
                    carried[term] = carried.get(term, 0.0) + given * count
        score = sum(weights[term] * n / (n + BM25_K1) for term, n in carried.items())
        met = sum(weights[term] for term in carried) / total
        share = score / total * (1.0 - COVERAGE_WEIGHT + COVERAGE_WEIGHT * met)
        if candidate.document.text[-_ENDING:].rstrip().endswith("?"):
            share *= 1.0 - ASKING_TURN * gates[place]
        found.append(share)
    return found


def _count_terms(
    question: ParsedQuestion, pool: Sequence[Candidate], statistics: TermStatistics
) -> tuple[list[dict[str, float]], list[float]]:
    """Count each term in each candidate, for its length, and what it takes from the turns around
    it."""
    terms = question.terms
    average = max(1.0, statistics.average_length)
    counts: list[dict[str, float]] = []
    gates: list[float] = []
    for candidate in pool:
        text = documents.join_text(candidate.document)
        size = analysis.estimate_length(text)
        gates.append(min(1.0, LONG_TURN_WORDS / size))
        share = 1.0 / (1.0 - BM25_B + BM25_B * size / average)
        occurrences = _occurrences(terms, text)
        counts.append({term: share * count for term, count in occurrences.items() if count})
    return counts, gates


def _score_meaning(pool: Sequence[Candidate]) -> list[float]:
    """Return the cosine of each candidate and its neighbors, weighted. An unknown cosine counts
    as an average one."""
    known = [candidate.cosine for candidate in pool if candidate.cosine is not None]
    usual = math.fsum(known) / len(known) if known else 0.0
    cosines = [usual if each.cosine is None else each.cosine for each in pool]
    found = []
    for place, candidate in enumerate(pool):
        total, weight = cosines[place], 1.0
        for sources, shares in (
            (candidate.before, MEANING_BEFORE),
            (candidate.after, MEANING_AFTER),
        ):
            for source, share in zip(sources, shares, strict=False):
                total += share * cosines[source]
                weight += share
        found.append(total / weight)
    return found


def _rarity(term: str, statistics: TermStatistics) -> float:
    """Return BM25's weight of a term."""
    documents = statistics.frequencies.get(term, 0)
    return math.log(
        1.0 + (max(statistics.documents, documents) - documents + 0.5) / (documents + 0.5)
    )


def _is_named(names: frozenset[str], document: Document) -> bool:
    if not names or document.kind is not DocumentKind.EVENT:
        return False
    return not names.isdisjoint(analysis.extract_terms(document.speaker or document.role))


def _score_nearness(windows: Sequence[TimeWindow], at_ms: Millis) -> float:
    """Return 1 within one of the times, and less in the days after it."""
    return max((_after(window, at_ms) for window in windows), default=0.0)


def _after(window: TimeWindow, at_ms: Millis) -> float:
    if window.covers(at_ms):
        return 1.0
    late = [at_ms - end for start, end in window.ranges if start > 0 and at_ms > end]
    return LATER_DAYS_SHARE * math.exp(-min(late) / _DAY_MS / TOLD_LATER_DAYS) if late else 0.0


def _needle(term: str) -> str:
    """Return the prefix that all forms of a word share. Only the y of a stem may be missing in
    the word."""
    return _without_y(analysis.fold(term))


def _needle_in_place(term: str) -> str:
    """Return the same prefix for a text that is folded in place."""
    return _without_y(analysis.fold_in_place(term))


def _without_y(start: str) -> str:
    return start[:-1] if start.endswith("y") and len(start) > 1 else start


def _occurrences(terms: Sequence[str], text: str) -> Mapping[str, float]:
    """Count each term in a text.

    Tokenizing a whole text would dominate the cost of ranking, so only words with a needle in them
    are looked at, and only a sample where there are very many.
    """
    folded, needle = analysis.fold(text), _needle
    if len(folded) != len(text):  # offsets in one are not offsets in the other
        if len(text) <= _SMALL:
            return _count_all(terms, text) if any(_needle(t) in folded for t in terms) else {}
        folded, needle = analysis.fold_in_place(text), _needle_in_place
    most = max(_LEAST_SAMPLE, MOST_WORDS // max(1, len(terms)))
    return {term: _occurrences_of(term, needle(term), text, folded, most) for term in terms}


def _count_all(terms: Sequence[str], text: str) -> Mapping[str, float]:
    wanted = frozenset(terms)
    return Counter(term for term in analysis.extract_terms(text) if term in wanted)


def _occurrences_of(term: str, needle: str, text: str, folded: str, most: int) -> float:
    """Count a term by looking at up to `most` words with its needle, spread over the whole text."""
    hits = folded.count(needle)
    stride = len(text) // most if hits > most else 0
    count = seen = 0
    at = folded.find(needle)
    while at >= 0:
        start, end = _word_around(at, at + len(needle), text)
        count += analysis.extract_terms(text[start:end]).count(term)
        seen += 1
        at = folded.find(needle, max(end, at + stride, at + 1))
    return count * max(1.0, hits / seen) if stride else count


def _word_around(start: int, end: int, text: str) -> tuple[int, int]:
    """Extend a range to the word around it, or to more of it than any term has."""
    first, last = max(0, start - analysis.LONGEST), min(len(text), end + analysis.LONGEST)
    while start > first and text[start - 1].isalnum():
        start -= 1
    while end < last and text[end].isalnum():
        end += 1
    return start, end


def _any_of(names: frozenset[str], word: str) -> bool:
    return not names.isdisjoint(analysis.extract_terms(_POSSESSIVE.sub(" ", word)))
