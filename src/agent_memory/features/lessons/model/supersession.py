"""Supersession: which lessons a later one replaced. The last word counts, over sessions too.

A lesson replaces an older one of its project that says the same, that it forbids, or that says
something else of the same subject while it says that something changes. What two lessons share is
looked up by their rare terms, so a large project takes no longer per lesson than a small one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from agent_memory.features.lessons.model.lessons import Lesson, LessonId, LessonKind
from agent_memory.kernel.text.analysis import extract_terms
from agent_memory.kernel.text.terms import stem
from agent_memory.kernel.text.vocabulary import GRAMMAR

_STOPPED = frozenset(map(stem, GRAMMAR))
_RARE = 24  # lessons that have a term
_LOOKED_UP = 8  # rare terms of a lesson
_SAME = 0.75  # share of terms of a repetition
_SUBJECT = 0.4  # of an amended rule
_NORMS = frozenset({LessonKind.RULE, LessonKind.DECISION, LessonKind.FACT})
_CHANGES = re.compile(
    r"\b(?:amend(?:ed|ing|ment)?|supersed(?:es|ed|ing)|from now on|no longer|any ?more"
    r"|updates? to|changed?"
    r"|replac(?:es|ed|ing)|as of|instead|new|drop(?:s|ped)?|dead|gone|switch(?:ed|ing)?"
    r"|revert(?:ed|ing)?|mov(?:ed|ing)"
    r"|we go to|was wrong|that's wrong|used to|old|actually|correction|not any|kick out"
    r"|throw out|get rid|breaks)\b",
    re.IGNORECASE,
)
_VALUE = re.compile(r"(?<![\w.])\d+(?:\.\d+)*(?![\w])")


@dataclass(slots=True, eq=False)
class _Read:
    lesson: Lesson
    terms: frozenset[str]
    about: frozenset[str]  # terms of the situation
    changes: bool
    values: frozenset[str]


def find_superseded(lessons: Sequence[Lesson]) -> dict[LessonId, LessonId]:
    """Return the lessons that a later one replaced, with that one. `lessons` are oldest first."""
    read = [_read(lesson) for lesson in lessons]
    counts = Counter(term for each in read for term in each.terms)
    index: dict[tuple[str, str], list[int]] = defaultdict(list)
    found: dict[LessonId, LessonId] = {}
    for number, new in enumerate(read):
        rare = [term for term in new.terms if 1 < counts[term] <= _RARE]
        rare.sort(key=lambda term: (counts[term], term))
        looked_up = rare[:_LOOKED_UP]
        near: Counter[int] = Counter()
        for term in looked_up:
            near.update(index[new.lesson.project, term])
        for place, _ in near.most_common(_RARE):
            old = read[place]
            if old.lesson.id not in found and _replaces(new, old):
                found[old.lesson.id] = new.lesson.id
        for term in rare:
            index[new.lesson.project, term].append(number)
    return found


def _read(lesson: Lesson) -> _Read:
    return _Read(
        lesson=lesson,
        terms=frozenset(extract_terms(lesson.text)) - _STOPPED,
        about=frozenset(extract_terms(lesson.situation)) - _STOPPED,
        changes=bool(_CHANGES.search(lesson.text)),
        values=frozenset(_VALUE.findall(lesson.text)),
    )


def _replaces(new: _Read, old: _Read) -> bool:
    one, other = new.lesson, old.lesson
    if one.session_id == other.session_id and one.events[0] == other.events[0]:
        return False
    if one.kind is LessonKind.FAILURE or other.kind is LessonKind.FAILURE:
        return one.kind is other.kind and _is_same_failure(one, other)
    shared = new.terms & old.terms
    least = min(len(new.terms), len(old.terms)) or 1
    if one.kind is other.kind and len(shared) >= _SAME * max(len(new.terms), len(old.terms)):
        return True
    if one.kind not in _NORMS or other.kind not in _NORMS or one.trust < other.trust:
        return False
    if not new.changes:
        return False
    forbidden = {term for word in one.avoids for term in extract_terms(word)}
    if forbidden & old.terms - {t for word in other.avoids for t in extract_terms(word)}:
        return True
    about = len((new.terms | new.about) & (old.terms | old.about))
    differs = bool(new.values - old.values) and bool(old.values - new.values)
    if len(shared) >= _SUBJECT * least and about >= 4:
        return True
    return differs and len(shared) >= 2 and len(shared) >= 0.2 * least


def _is_same_failure(one: Lesson, other: Lesson) -> bool:
    return bool(set(one.errors[:1]) & set(other.errors[:2])) and bool(
        set(one.commands) & set(other.commands)
    )
