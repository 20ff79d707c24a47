"""Find the passage of a text that answers a question: pure, and bounded in time.

A text is cut into units: lines and sentences. The best passage is the run of units that has most of
the question's terms, the rare ones first, and has them near each other.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agent_memory.features.index.model.documents import Document
from agent_memory.features.index.model.queries import Passage
from agent_memory.features.toc.model.toc import Bullet
from agent_memory.kernel.text import analysis
from agent_memory.kernel.text.analysis import TermMatch
from agent_memory.kernel.text.terms import stem
from agent_memory.kernel.text.vocabulary import COMMON, GRAMMAR

MOST_CHARS = 480  # of a passage
_READ = 8_000  # characters that are read whole; of a longer text, the best stretch of that size
_LEAST_UNIT = 24  # characters: a shorter line belongs to the next one
_PIECE = 160  # characters of a piece of a line that is too long for a passage
_NEAR = 0.5  # what terms in the same sentence count once more
_COMMON = 0.5  # what a common word of English counts, however rare it is in the store
_CODE = 0.8  # what a term in code, data or a listing counts
_SYMBOLS = 16  # code has more than one symbol in so many characters
_FOCUS = 0.05  # what the nearness of the vectors counts, as a share of all terms
_SAMPLED_TERMS = 12  # terms that a long text is searched for
_SAMPLE = 32  # occurrences of each

# It begins with a set of characters, which is fast to find, and never tries again within a run.
_BREAK = re.compile(r"""[\n.!?…。\uff01\uff1f]++[)"'\u201d\u2019*_`\]]*+\s*+""")
_FULL_STOPS = frozenset("\n。\uff01\uff1f")  # a unit ends there, whatever follows
_SYMBOL = re.compile(r"[{}<>|=;\\\[\]/]")
_GAP = re.compile(r"\s|(?<=\W)(?=\w)")
_COMMON_TERMS = frozenset(map(stem, COMMON | GRAMMAR))

Range = tuple[int, int]


class _PassageUnit(NamedTuple):
    """A line or sentence, with what each term in it counts."""

    start: int
    end: int
    worth: Mapping[str, float]


def find_passage(
    text: str,
    weights: Mapping[str, float],
    *,
    focus: Range | None = None,
    most: int = MOST_CHARS,
) -> Passage:
    """Find the passage with most of these weighted terms, in at most `most` characters.

    `focus` is the part of the text that is nearest in meaning: of about equal passages the one in
    it is taken, and it is the answer if no term matches. Otherwise the beginning of the text is.
    """
    weights = _discount(weights)
    first, last = _choose_stretch(text, weights, focus, most)
    matches = analysis.find_terms(text, weights, first, last)
    if len(text) <= most:
        return _cut(text, 0, len(text), matches)
    units = _weigh(text, _split(text, first, last, most), matches, weights)
    begin, end = _add_context(units, *_choose_run(units, weights, focus, most), most)
    return _cut(text, units[begin].start, units[end].end, matches)


def find_in_memory(document: Document, weights: Mapping[str, float]) -> Passage | None:
    """Find the passage of a memory's content, or None if it has no term that the title lacks."""
    known = {match.term for match in analysis.find_terms(document.title, weights)}
    if known >= weights.keys():
        return None
    passage = find_passage(document.text, weights)
    added = {match.term for match in analysis.find_terms(passage.text, weights)} - known
    return passage if added else None


def find_bullet(
    text: str, bullets: Sequence[Bullet], weights: Mapping[str, float]
) -> tuple[Bullet, Passage]:
    """Find the bullet of a segment that answers best, and its place in the segment's text."""
    best = max(bullets, key=lambda bullet: _score(bullet.text, weights))  # of equals the first
    passage = find_passage(best.text, weights, most=len(best.text))
    line = max(0, f"\n{text}\n".find(f"\n{best.text}\n"))
    return best, replace(passage, start=line + passage.start)


def _score(text: str, weights: Mapping[str, float]) -> float:
    """Return the weight of the terms that a short text has."""
    weights = _discount(weights)
    found = {match.term for match in analysis.find_terms(text, weights, 0, _READ)}
    return sum(weight for term, weight in weights.items() if term in found)


def _discount(weights: Mapping[str, float]) -> dict[str, float]:
    return {
        term: weight * _COMMON if term in _COMMON_TERMS else weight
        for term, weight in weights.items()
    }


def _choose_stretch(
    text: str, weights: Mapping[str, float], focus: Range | None, most: int
) -> Range:
    """Choose the part of a text to read: all of it unless it is long."""
    if not weights:
        start = max(0, min(focus[0] if focus else 0, len(text) - most))
        return start, min(len(text), start + 2 * most)
    if len(text) <= _READ:
        return 0, len(text)
    found = sorted(_sample(text, weights))
    middle = focus[0] if focus else 0
    best, begin = 0.0, 0
    counts: dict[str, int] = {}
    for at, term in found:
        counts[term] = counts.get(term, 0) + 1
        while at - found[begin][0] > most:
            counts[found[begin][1]] -= 1
            begin += 1
        score = sum(weights[each] for each, count in counts.items() if count)
        if score > best:
            best, middle = score, at
    start = max(0, min(middle - _READ // 2, len(text) - _READ))
    return start, start + _READ


def _sample(text: str, weights: Mapping[str, float]) -> Iterator[tuple[int, str]]:
    """Yield where a long text seems to have the rarest terms: some places spread over it."""
    lower = text.lower()
    if len(lower) != len(text):  # offsets in one are not offsets in the other
        lower = text
    for term in sorted(weights, key=lambda each: -weights[each])[:_SAMPLED_TERMS]:
        needle = term.removesuffix("y") or term  # a stem ends in y where its word has "ies"
        step = len(text) // _SAMPLE if lower.count(needle) > _SAMPLE else 1
        at = lower.find(needle)
        while at >= 0:
            yield at, term
            at = lower.find(needle, at + step)


def _split(text: str, first: int, last: int, most: int) -> Iterator[Range]:
    """Yield the lines and sentences of a part of a text, long ones in pieces."""
    start = first
    for gap in _BREAK.finditer(text, first, last):
        at, end = gap.span()
        if end - start < _LEAST_UNIT:
            continue
        if _FULL_STOPS.isdisjoint(gap[0]) and not _ends_sentence(text, at, end):
            continue
        yield from _split_long(text, start, end, most)
        start = end
    if start < last:
        yield from _split_long(text, start, last, most)


def _ends_sentence(text: str, at: int, end: int) -> bool:
    """Tell whether a mark ends a sentence, not a number of a list or an abbreviation."""
    mark, following = text[at], text[end : end + 1]
    return text[end - 1].isspace() and not (
        mark == "." and (following.islower() or text[at - 1 : at].isdigit())
    )


def _split_long(text: str, start: int, end: int, most: int) -> Iterator[Range]:
    """Yield a unit; if it is too long, pieces of it that are cut at a blank or before a word."""
    size = min(_PIECE, most)
    while end - start > most:
        stop = start + size
        gaps = [gap.end() for gap in _GAP.finditer(text, start + (size + 1) // 2, stop)]
        blanks = [at for at in gaps if text[at - 1].isspace()]
        stop = (blanks or gaps or [stop])[-1]
        yield start, stop
        start = stop
    yield start, end


def _weigh(
    text: str, ranges: Iterator[Range], matches: Sequence[TermMatch], weights: Mapping[str, float]
) -> list[_PassageUnit]:
    """Say what each term counts in each unit."""
    units: list[_PassageUnit] = []
    number = 0
    for start, end in ranges:
        worth: dict[str, float] = {}
        while number < len(matches) and matches[number].start < end:
            worth[matches[number].term] = weights[matches[number].term]
            number += 1
        if worth and len(_SYMBOL.findall(text, start, end)) * _SYMBOLS > end - start:
            worth = {term: _CODE * weight for term, weight in worth.items()}
        units.append(_PassageUnit(start, end, worth))
    return units


def _choose_run(
    units: Sequence[_PassageUnit], weights: Mapping[str, float], focus: Range | None, most: int
) -> tuple[int, int]:
    """Choose the first and the last unit of the best run; of equals the earliest."""
    bonus = _FOCUS * sum(weights.values())
    best, run = 0.0, _find_start(units, focus)
    for begin, unit in enumerate(units):
        if not unit.worth:
            continue
        covered: dict[str, float] = {}
        nearest, end = 0.0, begin
        for number in range(begin, len(units)):
            each = units[number]
            if each.end - unit.start > most:
                break
            if not each.worth:
                continue
            for term, weight in each.worth.items():
                if weight > covered.get(term, 0.0):
                    covered[term] = weight
                    end = number
            own = sum(each.worth.values())
            if focus and each.start < focus[1] and focus[0] < each.end:
                own += bonus
            if own > nearest:
                nearest, end = own, number
        score = sum(covered.values()) + _NEAR * nearest
        if score > best:
            best, run = score, (begin, end)
    return run


def _find_start(units: Sequence[_PassageUnit], focus: Range | None) -> tuple[int, int]:
    """Return the unit where the focus begins, or the first."""
    at = focus[0] if focus else 0
    number = next((number for number, unit in enumerate(units) if unit.end > at), 0)
    return number, number


def _add_context(units: Sequence[_PassageUnit], begin: int, end: int, most: int) -> tuple[int, int]:
    """Add units after and before, in turn, while they fit: an answer stands near its words."""
    while True:
        known = begin, end
        if end + 1 < len(units) and units[end + 1].end - units[begin].start <= most:
            end += 1
        if begin and units[end].end - units[begin - 1].start <= most:
            begin -= 1
        if known == (begin, end):
            return known


def _cut(text: str, start: int, end: int, matches: Sequence[TermMatch]) -> Passage:
    """Build the passage from a range of the text, without the blanks around it."""
    part = text[start:end].rstrip()
    bare = part.lstrip()
    start += len(part) - len(bare)
    end = start + len(bare)
    marks: list[Range] = []
    for match in matches:
        if start <= match.start and match.end <= end:
            mark = (match.start - start, match.end - start)
            if marks and mark[0] < marks[-1][1]:  # pairs of characters overlap
                mark = (marks.pop()[0], mark[1])
            marks.append(mark)
    return Passage(text=bare, start=start, marks=tuple(marks))
