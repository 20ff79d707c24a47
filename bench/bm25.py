"""Textbook BM25 over a handful of texts: what others are measured against."""

import re
from collections import Counter
from collections.abc import Mapping
from math import log
from typing import Generic, TypeVar

K1, B = 1.2, 0.75

_WORD = re.compile(r"\w+")
Key = TypeVar("Key", bound=int | str)


class Bm25(Generic[Key]):
    def __init__(self, documents: Mapping[Key, str]) -> None:
        self._counts = {key: Counter(_words(text)) for key, text in documents.items()}
        self._sizes = {key: counts.total() for key, counts in self._counts.items()}
        self._mean = sum(self._sizes.values()) / len(self._sizes)
        self._having = Counter(word for counts in self._counts.values() for word in counts)

    def ranked(self, query: str) -> list[Key]:
        words = set(_words(query))
        score = {key: self._score(key, words) for key in self._counts}
        return sorted(score, key=lambda key: (-score[key], key))

    def _score(self, key: Key, words: set[str]) -> float:
        counts = self._counts[key]
        norm = K1 * (1 - B + B * self._sizes[key] / self._mean)
        total = 0.0
        for word in sorted(words & counts.keys()):
            having = self._having[word]
            rarity = log(1 + (len(self._counts) - having + 0.5) / (having + 0.5))
            total += rarity * counts[word] * (K1 + 1) / (counts[word] + norm)
        return total


def _words(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(text.lower())]


def _stem(word: str) -> str:
    """Without plurals, -ing and -ed."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
