"""Text analysis for the lexical index and for ranking.

Both use `extract_terms`, so that a match in one is a match in the other.
"""

import re
import unicodedata
from collections.abc import Collection
from typing import NamedTuple

from agent_memory.kernel.text.terms import stem

_WORD = re.compile(r"[^\W_]+")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
LONGEST = 64  # characters of a word; longer ones are hashes, keys and base64
_REMEMBERED = 1 << 17


class TermMatch(NamedTuple):
    """Where a text has a term."""

    start: int
    end: int
    term: str


class _Stems(dict[str, tuple[str, ...]]):
    """A bounded cache of the stems of each word."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= _REMEMBERED:
            self.clear()
        self[word] = stems = _stems(word)
        return stems


_known = _Stems()


def extract_terms(text: str) -> list[str]:
    """Return the terms of a text in order: stems in lower case, without accents.

    An identifier gives itself and its parts. Text in scripts without blanks gives pairs of
    characters.
    """
    known = _known
    return [term for word in _WORD.findall(text) for term in known[word]]


def find_terms(
    text: str, wanted: Collection[str], start: int = 0, end: int | None = None
) -> list[TermMatch]:
    """Return where a part of a text has any of these terms, in order.

    A match is a whole word, or a pair of characters in scripts without blanks.
    """
    known = _known
    wanted = frozenset(wanted)
    found = []
    for word in _WORD.finditer(text, start, len(text) if end is None else end):
        terms = known[word[0]]
        if wanted.isdisjoint(terms):
            continue
        first, last = word.span()
        if terms[0] == word[0][:2] and len(terms) > 1:  # pairs of characters
            for at, pair in enumerate(terms, first):
                if pair in wanted:
                    found.append(TermMatch(at, at + 2, pair))
        else:
            found += [TermMatch(first, last, term) for term in terms if term in wanted]
    return found


def fold(text: str) -> str:
    """Return the text in lower case without accents, so that it contains each term's beginning."""
    if text.isascii():
        return text.lower()
    return _plain(text).lower()


def estimate_length(text: str) -> int:
    """Estimate the number of words in a text; cheaper than counting."""
    return text.count(" ") + text.count("\n") + 1


def _stems(word: str) -> tuple[str, ...]:
    if len(word) > LONGEST:
        return ()
    if not word.isascii():
        if _UNSPACED.search(word):
            return tuple(word[i : i + 2] for i in range(len(word) - 1)) or (word,)
        word = _plain(word)
    whole = stem(word.lower())
    if word.islower() or word.isupper() or word.istitle() or word.isdigit():
        return (whole,)
    parts = [stem(part.lower()) for part in _HUMPS.findall(word)]
    return (whole, *parts) if len(parts) > 1 else (whole,)


def _plain(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text)
    for mark in filter(unicodedata.combining, set(plain)):
        plain = plain.replace(mark, "")
    return plain
