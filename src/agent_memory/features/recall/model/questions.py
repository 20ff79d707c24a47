"""Questions: what ranking needs of a question, read from its words."""

import math
import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

from agent_memory.features.index.model.queries import TermStatistics
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import analysis, time_expressions
from agent_memory.kernel.text.time_expressions import TimeWindow
from agent_memory.kernel.text.vocabulary import ASKING

MOST_TERMS = 48  # terms of a question
MOST_CORRECTED = 4  # unknown words that are looked up in other spellings
SHORTEST_CORRECTED = 4  # letters; a shorter word is another word with any letter changed
LONGEST_CORRECTED = 24

_ROLES = frozenset({"assistant"})  # roles that are names, however they are written
# roles that are ordinary words of a question
_NO_NAMES = frozenset({"user", "tool", "system", "human"})
_FIRST_PERSON = frozenset({"i", "my", "me", "mine", "myself"})
_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile(r"['\u2019]s\b")

CountDocuments = Callable[[list[str]], Mapping[str, int]]  # the number of documents with each term


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuestion:
    """A question split into what ranking needs."""

    words: tuple[tuple[str, str], ...]  # words that carry meaning, each with its term
    names: frozenset[str]  # speakers that the question names
    windows: tuple[TimeWindow, ...]
    meaning: str  # text to embed
    text: str  # as it was asked
    first_person: bool = False  # it asks about the words of the user who asks

    @property
    def terms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term for _, term in self.words))

    @property
    def needles(self) -> tuple[str, ...]:
        """Return strings of which every matching text, folded, contains at least one."""
        return tuple(dict.fromkeys(_needle(term) for term in self.terms))


def parse_question(question: str, now: Millis, zone: tzinfo = UTC) -> ParsedQuestion:
    """Parse a question without knowing the speakers; see `resolve_speakers`."""
    windows = time_expressions.find(question, now, zone)
    said = _WORD.findall(_POSSESSIVE.sub(" ", time_expressions.remove_windows(question, windows)))
    words = tuple((word, term) for word in said for term in analysis.extract_terms(word))
    content = tuple((word, term) for word, term in words if word.lower() not in ASKING) or words
    return ParsedQuestion(
        words=content,
        windows=windows,
        names=frozenset(),
        meaning=question,
        text=question,
        first_person=not _FIRST_PERSON.isdisjoint(word.lower() for word in said),
    )


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


def correct_spelling(
    question: ParsedQuestion, known: Mapping[str, int], count: CountDocuments
) -> ParsedQuestion:
    """Return the question with words that no document has replaced by the likeliest words that
    differ in one letter, left out, added or changed, or in the order of two."""
    unknown = [
        word
        for word in dict.fromkeys(word for word, _ in question.words)
        if _can_be_misspelled(word)
        and not any(known.get(term) for each, term in question.words if each == word)
    ]
    variants = {
        word: {edit: analysis.extract_terms(edit)[0] for edit in _edit(word.lower())}
        for word in unknown[:MOST_CORRECTED]
    }
    # All at once: counting reads the texts that are not indexed yet.
    terms = dict.fromkeys(term for edits in variants.values() for term in edits.values())
    counts = count(list(terms)) if terms else {}
    corrected: dict[str, str] = {}
    for word, edits in variants.items():
        best = max(edits, key=lambda edit: counts.get(edits[edit], 0))
        if counts.get(edits[best], 0):
            corrected[word] = best.title() if word.istitle() else best
    if not corrected:
        return question
    return replace(
        question,
        words=tuple(
            (corrected[word], analysis.extract_terms(corrected[word])[0])
            if word in corrected
            else (word, term)
            for word, term in question.words
        ),
        meaning=_WORD.sub(lambda match: corrected.get(match[0], match[0]), question.meaning),
    )


def _can_be_misspelled(word: str) -> bool:
    right_size = SHORTEST_CORRECTED <= len(word) <= LONGEST_CORRECTED
    return right_size and word.isascii() and word.isalpha() and (word.islower() or word.istitle())


def _edit(word: str) -> Iterator[str]:
    """Yield the words that differ from this one by one edit: two swapped letters first, which
    are the likeliest of several forms of a word."""
    for at in range(len(word) - 1):
        yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            yield before + after[1:]
        for letter in string.ascii_lowercase:
            yield before + letter + after
            if after:
                yield before + letter + after[1:]


def _rarity(term: str, statistics: TermStatistics) -> float:
    """Return BM25's weight of a term."""
    documents = statistics.frequencies.get(term, 0)
    return math.log(
        1.0 + (max(statistics.documents, documents) - documents + 0.5) / (documents + 0.5)
    )


def _needle(term: str) -> str:
    """Return the prefix that all forms of a word share. Only the y of a stem may be missing in
    the word."""
    start = analysis.fold(term)
    return start[:-1] if start.endswith("y") and len(start) > 1 else start


def _any_of(names: frozenset[str], word: str) -> bool:
    return not names.isdisjoint(analysis.extract_terms(_POSSESSIVE.sub(" ", word)))
