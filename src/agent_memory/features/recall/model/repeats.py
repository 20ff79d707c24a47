"""Which sentences say the same: an agent reads none twice, and none that no longer holds."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agent_memory.features.toc.model.last_words import stems

SAME = 0.8  # share of common stems at which two sentences are one
_TELLING = 3  # stems: with fewer, being part of a longer sentence means little
_NOT = re.compile(r"\b(?:not|never|no|avoid|stop|without|cannot|\w+n['\u2019]t)\b", re.IGNORECASE)
_LONGER = 2  # times: a sentence that is longer than that says more than the one before it


@dataclass(frozen=True, slots=True)
class RetiredText:
    """What no longer holds, and what is said instead, if anything."""

    text: str
    instead: str = ""


def is_said(terms: frozenset[str], known: frozenset[str]) -> bool:
    """Return whether a sentence with these stems says nothing that another does not."""
    common = len(terms & known)
    if common < SAME * min(len(terms), len(known)):
        return False
    if common >= SAME * len(terms | known):
        return True
    shorter, longer = sorted((terms, known), key=len)
    if len(shorter) < _TELLING:
        return False
    if any(term.isdigit() for term in shorter - longer):  # another value
        return False
    return shorter is terms or len(longer) <= _LONGER * len(shorter)


def is_retired(text: str, retired: Iterable[RetiredText]) -> bool:
    """Return whether a sentence says what no longer holds, rather than what holds instead."""
    terms = stems(text)
    return any(
        is_said(terms, stems(each.text))
        and not (each.instead and _is_nearer(terms, stems(each.instead), stems(each.text)))
        and not _is_opposite(text, each.text)
        for each in retired
    )


def get_said(line: str) -> str:
    """Return the words of a line that tells what they are before them, and an id after them."""
    said = line.partition(": ")[2].rpartition(" (")[0]
    return said or line


def _is_opposite(one: str, other: str) -> bool:
    """Return whether two sentences have the same words, and one of them says not to."""
    if (_NOT.search(one) is None) is (_NOT.search(other) is None):
        return False
    terms, others = stems(_NOT.sub(" ", one)), stems(_NOT.sub(" ", other))
    return len(terms & others) >= SAME * len(terms | others)


def _is_nearer(terms: frozenset[str], one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether a sentence is at least as near to one as to the other."""
    return len(terms & one) * len(terms | other) >= len(terms & other) * len(terms | one)
