"""Ranking: how well each of some candidates answers a question. Pure, with the weights here.

    evidence = words + MEANING x meaning + SPEAKER x named + TIME x nearness

*words* is BM25 in which a turn of a conversation also carries the words of the turns before it, as
a share of the most that the question could get; *meaning* is a cosine, evened out over the turns
around. Both are on scales of their own, so that the evidence does not depend on what else was
found. A score is the share of hits that were right in our measurements, with this evidence and
this lead over the others.
What each ingredient brings is written down in docs/decisions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from agent_memory.features.index.model import impacts, term_vectors
from agent_memory.features.index.model.documents import DocumentKey, DocumentKind
from agent_memory.features.index.model.queries import IndexHit, SearchMode, TermStatistics
from agent_memory.features.index.model.term_vectors import TermVector
from agent_memory.features.recall.model import questions
from agent_memory.features.recall.model.questions import ParsedQuestion
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.late_package import LatePackage
from agent_memory.kernel.text import analysis
from agent_memory.kernel.text.time_expressions import TimeWindow
from agent_memory.kernel.text.vocabulary import ASKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]
else:
    np = LatePackage("numpy")

BM25_K1 = 1.0  # BM25's k1: small, so that a word counts once, roughly
BM25_B = 0.75  # BM25's b
# shares of its words that a turn takes from the one, two and three turns before
BEFORE = (0.5, 0.25, 0.12)
QUESTION_BOOST = 2.5  # times the share from the turn before, where that turn asks something
SHORT_QUESTION_WORDS = 15  # words: a longer turn that ends with a question also tells something
NO_ANSWER = 0.25  # what a turn loses that only asks, or announces what the agent looks at next
LONG_TURN_WORDS = 50  # words: a longer turn takes less from the turns around it and gives less
MEANING = 1.0
MEANING_BEFORE = (0.3, 0.15)
MEANING_AFTER = (0.2, 0.1)
LEAST_MEANING = 0.1  # below it two texts are unrelated
SPEAKER = 0.15
TIME = 0.3
DECIDED = 1.15  # times the evidence of a memory: what was decided stands before what was said
SUMMARIZED = 0.7  # times that of a segment: the event itself stands before its dense summary
ECHO = 0.05  # times that of a turn that asks what the question asks
MOST_NON_ANSWER = 0.7  # share of a summary that may be questions
SAME_QUESTION = 0.6  # share of their words that two questions have in common if they are the same
USUAL_SHARE = 0.3  # evidence of the best wrong hit, as a share; a small store may have none
LATER_DAYS_SHARE = (
    0.5  # share of the time bonus in the days after a time: things are reported later
)
TOLD_LATER_DAYS = 7.0
RECENT_DAYS = 30.0

CERTAIN_SCORE = 0.3  # below it, seven hits of ten are wrong: an answer says that nothing is certain
INJECTED_SCORE = 0.15  # below it, a hit shares a word with a prompt by chance: no agent is given it

REACH = max(len(BEFORE), len(MEANING_BEFORE), len(MEANING_AFTER))  # turns to either side
_DAY_MS = 86_400_000
_TIES = 4  # decimal places of the evidence that count; equal evidence is a tie
_USER = "user"
_AS_USER = tuple(map(term_vectors.hash_term, analysis.extract_terms(_USER)))

_WEIGHTS = {
    SearchMode.HYBRID: (1.0, MEANING),
    SearchMode.BM25: (1.0, 0.0),
    SearchMode.VECTOR: (0.0, 1.0),
}
_KINDS = {DocumentKind.MEMORY: DECIDED, DocumentKind.SEGMENT: SUMMARIZED}


class _Curve(NamedTuple):
    """A logistic curve, fitted to the share of right hits (see docs/decisions)."""

    evidence: float
    lead: float
    offset: float


_CURVES = {
    SearchMode.HYBRID: _Curve(3.59, 13.22, -2.47),
    SearchMode.BM25: _Curve(2.20, 8.72, -2.16),
    SearchMode.VECTOR: _Curve(1.62, 12.29, -2.29),
}


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A hit or a turn beside one. `before` and `after` are indexes into the pool, nearest first.

    `meaning` is its nearness in meaning, from 0 for texts that are unrelated to 1.
    """

    key: DocumentKey
    hit: IndexHit
    vector: TermVector
    meaning: float | None = None
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    ends_session: bool = False
    part: int = 0  # the number of its part that is nearest in meaning
    is_pending: bool = False  # a memory that the user has not confirmed


class Ranked(NamedTuple):
    """A candidate's index in the pool, its score, and its evidence with the parts of it."""

    place: int
    evidence: float  # a share of the most that a candidate could have
    words: float
    meaning: float
    speaker: float
    time: float
    score: float = 0.0  # see `calibrate`

    @property
    def parts(self) -> dict[str, float]:
        named = {
            "words": self.words,
            "meaning": self.meaning,
            "speaker": self.speaker,
            "time": self.time,
        }
        return {name: part for name, part in named.items() if part}


def rank(
    question: ParsedQuestion,
    pool: Sequence[Candidate],
    statistics: TermStatistics,
    mode: SearchMode,
) -> list[Ranked]:
    """Rank the pool, best first. The order does not depend on how the pool is arranged."""
    if not pool:
        return []
    turns = _Turns(pool)
    turns.echoes[_find_echoes(question, turns)] = True
    words = np.zeros(len(pool))
    meaning = np.zeros(len(pool))
    if mode is not SearchMode.VECTOR:
        words = _score_words(question, turns, statistics)
    if mode is not SearchMode.BM25:
        meaning = _score_meaning(turns)
    named = SPEAKER * _find_named(question, turns)
    time = np.array(
        [TIME * _score_nearness(question.windows, each.hit.at_ms) for each in pool]
        if question.windows
        else [0.0] * len(pool)
    )
    for_words, for_meaning = _WEIGHTS[mode]
    evidence = for_words * words + for_meaning * meaning + named + time
    evidence *= 1.0 - NO_ANSWER * turns.non_answer
    evidence *= [1.0 if each.is_pending else _KINDS.get(each.hit.kind, 1.0) for each in pool]
    evidence[turns.echoes] *= ECHO
    shares = np.clip(evidence / (for_words + for_meaning), 0.0, 1.0)
    columns = (shares, words, meaning, named, time)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))

    def sort_key(place: int) -> tuple[float, bool, int, str, str]:
        hit = pool[place].hit
        # Of equal evidence, what is settled comes first, then the newer.
        pending = pool[place].is_pending
        return -round(rows[place][0], _TIES), pending, -hit.at_ms, hit.kind, hit.id

    return [Ranked(place, *rows[place]) for place in sorted(range(len(pool)), key=sort_key)]


def score_recency(at_ms: Millis, now: Millis) -> float:
    """Score how recent something is, from 0 to 1: now is 1, a month ago .37, a year ago 0.

    Used for hits that are shown because they are new, where no question was asked.
    """
    return math.exp(-max(0, now - at_ms) / _DAY_MS / RECENT_DAYS)


def is_relevant(ranked: Ranked) -> bool:
    """Tell whether a candidate deserves to be shown: a turn may be in the pool only as a
    neighbor."""
    return bool(ranked.words or ranked.time) or ranked.meaning >= LEAST_MEANING


def calibrate(ranked: Sequence[Ranked], mode: SearchMode) -> list[Ranked]:
    """Return the hits with their scores: how likely each is right, by its evidence and its lead
    over the best other hit."""
    if not ranked:
        return []
    shares = np.array([each.evidence for each in ranked])
    best = int(np.argmax(shares))
    others = np.full(len(shares), max(USUAL_SHARE, float(shares[best])))
    others[best] = np.max(np.delete(shares, best), initial=USUAL_SHARE)
    curve = _CURVES[mode]
    odds = curve.evidence * shares + curve.lead * (shares - others) + curve.offset
    scores = 1.0 / (1.0 + np.exp(-odds))
    return [each._replace(score=score) for each, score in zip(ranked, scores.tolist(), strict=True)]


class _Turns:
    """The pool as arrays. A place of -1 means that there is no such turn."""

    def __init__(self, pool: Sequence[Candidate]) -> None:
        self.pool = pool
        self.vectors = [candidate.vector for candidate in pool]
        self.words = np.array([max(1, vector.words) for vector in self.vectors], np.float64)
        self.asks = np.array([vector.asks for vector in self.vectors])
        self.ends_asking = np.array([vector.ends_asking for vector in self.vectors])
        self.is_user = np.array([vector.role == _USER for vector in self.vectors])
        self.before = _to_places([candidate.before for candidate in pool])
        self.after = _to_places([candidate.after for candidate in pool])
        self.non_answer = np.array([vector.non_answer for vector in self.vectors])
        self.gates = np.minimum(1.0, LONG_TURN_WORDS / self.words)
        self.echoes = np.zeros(len(pool), np.bool_)

    def share(self, source: Places) -> Floats:
        """Return what each turn takes from the source beside it. An echo leads to its answer, not
        to the next prompt."""
        taken: Floats = self.gates * self.gates[source] * (source >= 0)
        taken[self.echoes[source] & self.is_user] = 0.0
        return taken


def _to_places(links: Sequence[tuple[int, ...]]) -> Places:
    places = np.full((len(links), REACH), -1, np.intp)
    for row, linked in enumerate(links):
        if linked:
            places[row, : len(linked)] = linked
    return places


def _score_words(question: ParsedQuestion, turns: _Turns, statistics: TermStatistics) -> Floats:
    """Score how much of the question each candidate has in words, from 0 to 1."""
    rarities = questions.weigh_terms(question, statistics)
    weights = np.array(list(rarities.values()))
    if not weights.size:
        return np.zeros(len(turns.pool))
    counts = term_vectors.count(turns.vectors, list(rarities)).astype(np.float64)
    # The average length is fixed: in a store of long texts, an average of its own would let an
    # essay that has every word win over the sentence that answers.
    counts /= (1.0 - BM25_B + BM25_B * turns.words / impacts.TYPICAL_WORDS)[:, None]
    carried = counts.copy()
    for step, share in enumerate(BEFORE):
        source = turns.before[:, step]
        taken = share * turns.share(source)
        if step == 0:
            taken *= np.where(turns.asks[source], QUESTION_BOOST, 1.0)
        carried += taken[:, None] * counts[source]
    score: Floats = carried / (carried + BM25_K1) @ weights / weights.sum()
    short = np.minimum(1.0, SHORT_QUESTION_WORDS / turns.words)
    score *= 1.0 - NO_ANSWER * short * turns.ends_asking
    return score


def _score_meaning(turns: _Turns) -> Floats:
    """Return the meaning of each candidate and its neighbors, weighted. An unknown one counts as
    an average one."""
    known = [candidate.meaning for candidate in turns.pool if candidate.meaning is not None]
    usual = math.fsum(known) / len(known) if known else 0.0
    own = np.array([usual if c.meaning is None else c.meaning for c in turns.pool])
    total, weight = own.copy(), np.ones(len(own))
    for places, shares in ((turns.before, MEANING_BEFORE), (turns.after, MEANING_AFTER)):
        for step, share in enumerate(shares):
            source = places[:, step]
            taken = share * turns.share(source)
            total += taken * own[source]
            weight += taken
    return total / weight


def _find_named(question: ParsedQuestion, turns: _Turns) -> NDArray[np.bool_]:
    """Tell who is named: a speaker by name, or the user who asks about what they said."""
    if question.names:
        names = frozenset(map(term_vectors.hash_term, question.names))
        return np.array(
            [
                each.hit.kind is DocumentKind.EVENT and not names.isdisjoint(each.vector.speaker)
                for each in turns.pool
            ]
        )
    return turns.is_user if question.first_person else np.zeros(len(turns.pool), np.bool_)


def _find_echoes(question: ParsedQuestion, turns: _Turns) -> list[int]:
    """Return the turns of a user that ask and do not answer: the same question, and questions
    and repetitions of the query that nobody answered. Only prompts count, not what named persons
    say to each other. A summary of such prompts is an echo too."""
    whole = np.unique(_hash_terms(analysis.extract_terms(question.text)))
    asked = _hash_terms(question.terms)
    echoes = [
        place
        for place, candidate in enumerate(turns.pool)
        if candidate.hit.kind is DocumentKind.SEGMENT
        and candidate.vector.non_answer > MOST_NON_ANSWER
    ]
    for place in np.flatnonzero(turns.is_user).tolist():
        candidate, vector = turns.pool[place], turns.vectors[place]
        if vector.speaker != _AS_USER:
            continue
        following = candidate.after[0] if candidate.after else None
        unanswered = candidate.ends_session or (
            following is not None and turns.vectors[following].role == _USER
        )
        if unanswered and (vector.asks or np.array_equal(whole, vector.hashes)):
            echoes.append(place)
        elif vector.asks:
            own = np.setdiff1d(vector.hashes, _hash_asking(), assume_unique=True)
            shared = np.isin(asked, own).sum()
            if shared >= SAME_QUESTION * (len(own) + len(asked) - shared):
                echoes.append(place)
    return [*echoes, *_find_excerpts(echoes, turns.pool)]


def _find_excerpts(echoes: Sequence[int], pool: Sequence[Candidate]) -> list[int]:
    """Return the grips in these turns, and the segments that have nothing else."""
    said = {(pool[place].hit.session, pool[place].hit.at_ms): place for place in echoes}
    excerpts = []
    for place, candidate in enumerate(pool):
        kind, echo = candidate.hit.kind, said.get((candidate.hit.session, candidate.hit.at_ms))
        if echo is not None and (
            kind is DocumentKind.GRIP or (kind is DocumentKind.SEGMENT and pool[echo].ends_session)
        ):
            excerpts.append(place)
    return excerpts


@cache
def _hash_asking() -> NDArray[np.uint32]:
    terms = (term for word in ASKING for term in analysis.extract_terms(word))
    return np.unique(_hash_terms(list(terms)))


def _hash_terms(terms: Sequence[str]) -> NDArray[np.uint32]:
    return np.array([term_vectors.hash_term(term) for term in terms], np.uint32)


def _score_nearness(windows: Sequence[TimeWindow], at_ms: Millis) -> float:
    """Return 1 within one of the times, and less in the days after it."""
    return max((_after(window, at_ms) for window in windows), default=0.0)


def _after(window: TimeWindow, at_ms: Millis) -> float:
    if window.covers(at_ms):
        return 1.0
    late = [at_ms - end for start, end in window.ranges if start > 0 and at_ms > end]
    return LATER_DAYS_SHARE * math.exp(-min(late) / _DAY_MS / TOLD_LATER_DAYS) if late else 0.0
