"""Supersession: which lessons a later one replaced. The last word counts, over sessions too.

A lesson replaces an older one of its project that says the same, that it forbids, or that says
something else of the same subject while it says that something changes. What two lessons share is
looked up by their rare terms, so a large project takes no longer per lesson than a small one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property

from agent_memory.features.lessons.model import rules
from agent_memory.features.lessons.model.lessons import Lesson, LessonId, LessonKind
from agent_memory.features.lessons.model.names import find_terms
from agent_memory.kernel.text.analysis import extract_terms
from agent_memory.kernel.text.terms import stem

_RARE = 24  # lessons that have a term
_LOOKED_UP = 8  # rare terms of a lesson
_SAME = 0.85  # share of terms of a repetition
_RESTATED = 0.3  # of what is concluded again of the same function
_DIGIT = re.compile(r"\d")
_NAMED = 2  # terms that say what a value is of
_SAID_BESIDE = 3  # terms of what allows again: "allow", "fine"
_HEAD = 60  # characters
_FUNCTION = re.compile(r"\b(?:[a-z]\w*_\w+|\w+(?=\(\)))")
_KNOWN = 0.2  # of what is replaced by another value
_SUBJECT = 0.4  # of an amended rule
_NORMS = frozenset({LessonKind.RULE, LessonKind.DECISION, LessonKind.FACT})
_CHANGE_WORDS = """
amend amended amending amendment supersede supersedes superseded superseding anymore update updates
change changed replace replaces replaced replacing instead new drop drops dropped dead gone switch
switched switching revert reverted moved moving old actually correction kick throw rid breaks wrong
"""
_CHANGES = frozenset(map(stem, _CHANGE_WORDS.split()))
_USES = frozenset(map(stem, ("use", "using", "used")))
_CHANGE_PHRASES = ("from now on", "no longer", "any more", "as of ", "we go to ", "used to ")
_THROWS_OUT = re.compile(
    r"\b(?:drop|throw|kick|get rid of|replace|forget) (?:\w+ ){0,2}(?:the )?(?:old|other"
    r"|previous)\b|\bis dead\b"
    r"|\bsupersed",
    re.IGNORECASE,
)
_FORBIDS = re.compile(
    r"\b(?:never|not|no|stop|avoid|\w+n't|forbidden|banned|frozen|off[- ]limits)\b", re.IGNORECASE
)
_TAKEN = re.compile(  # one thing for one purpose: "use spaces for indentation from now on"
    r"\b(?:use|take|prefer|(?:switch|switched|move|moved|go|went) (?:over )?(?:to|with)) "
    r"((?:[\w.@/+-]+ ){1,4}?)(?:for|as) (?!now\b)((?:(?!from now|in th|everywhere|instead|any"
    r"|always)[\w.@/+-]+ ?){1,5})",
    re.IGNORECASE,
)
_VALUE = re.compile(r"(?<![\w.])\d+(?:\.\d+)*(?![\w])")


class _Read:
    """A lesson with its terms. What few comparisons need is read when one does."""

    def __init__(self, lesson: Lesson) -> None:
        self.lesson = lesson
        self.terms = find_terms(lesson.text)
        lower = lesson.text.lower()
        self.changes = not _CHANGES.isdisjoint(extract_terms(lesson.text)) or any(
            phrase in lower for phrase in _CHANGE_PHRASES
        )

    @cached_property
    def about(self) -> frozenset[str]:
        """The terms of its situation."""
        return find_terms(self.lesson.situation)

    @cached_property
    def heads(self) -> frozenset[str]:
        """The functions that its beginning is about."""
        return frozenset(_FUNCTION.findall(self.lesson.text[:_HEAD]))

    @cached_property
    def forbidden(self) -> frozenset[str]:
        return frozenset(term for word in self.lesson.avoids for term in extract_terms(word))

    @cached_property
    def gives_back(self) -> bool:
        return rules.gives_back(self.lesson.text)

    @cached_property
    def taken(self) -> tuple[frozenset[str], frozenset[str]] | None:
        """The terms of what is taken for a purpose, and of the purpose."""
        found = None if self.forbidden else _TAKEN.search(self.lesson.text)
        return None if found is None else (find_terms(found[1]), find_terms(found[2]))

    @cached_property
    def values(self) -> frozenset[str]:
        return frozenset(_VALUE.findall(self.lesson.text))


def find_superseded(lessons: Sequence[Lesson]) -> dict[LessonId, LessonId]:
    """Return the lessons that a later one replaced, with that one. `lessons` are oldest first."""
    read = [_Read(lesson) for lesson in lessons]
    counts: Counter[str] = Counter()
    for each in read:
        counts.update(each.terms)
    index: dict[tuple[str, str], list[int]] = defaultdict(list)
    talks: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    found: dict[LessonId, LessonId] = {}
    for number, new in enumerate(read):
        for place in _look_up(new, counts, index):
            old = read[place]
            if old.lesson.id in found or not _replaces(new, old):
                continue
            found[old.lesson.id] = new.lesson.id
            if _amends(new, old):  # and with it what the same talk said point by point
                for other in talks[_name_talk(old.lesson)]:
                    if read[other].lesson.kind in _NORMS:
                        found.setdefault(read[other].lesson.id, new.lesson.id)
        for term in new.terms:
            if counts[term] <= _RARE and not term.isdigit():
                index[new.lesson.project, term].append(number)
        talks[_name_talk(new.lesson)].append(number)
    return found


def _look_up(
    new: _Read, counts: Counter[str], index: dict[tuple[str, str], list[int]]
) -> list[int]:
    """Return the older lessons that share rare terms with a lesson, those that share most first."""
    near: Counter[int] = Counter()
    tells = new.changes and new.lesson.kind in _NORMS
    for terms in (new.terms, new.about - new.terms if tells else ()):
        rare = [(counts[term], term) for term in terms if (new.lesson.project, term) in index]
        for _, term in sorted(rare)[:_LOOKED_UP]:
            near.update(index[new.lesson.project, term])
    return [place for place, _ in near.most_common(_RARE)]


def _name_talk(lesson: Lesson) -> tuple[str, str, str]:
    return lesson.project, lesson.session_id, lesson.situation.partition(" [")[0]


def _amends(new: _Read, old: _Read) -> bool:
    """Return whether a conclusion replaces the conclusion of an earlier talk."""
    one, other = new.lesson, old.lesson
    decided = one.kind is other.kind is LessonKind.DECISION
    if one.session_id == other.session_id or not decided:
        return False
    return new.changes or _restates(new, old)


def _restates(new: _Read, old: _Read) -> bool:
    """Return whether two talks concluded how the same function is to work."""
    one, other = new.lesson, old.lesson
    if one.session_id == other.session_id or not one.kind is other.kind is LessonKind.DECISION:
        return False
    return bool(new.heads & old.heads)


def _replaces(new: _Read, old: _Read) -> bool:
    one, other = new.lesson, old.lesson
    if one.session_id == other.session_id and one.events[0] == other.events[0]:
        return False
    if one.kind is LessonKind.FAILURE or other.kind is LessonKind.FAILURE:
        return one.kind is other.kind and _is_same_failure(one, other)
    shared = {term for term in new.terms & old.terms if not term.isdigit()}
    least = min(len(new.terms), len(old.terms)) or 1
    if one.kind is other.kind and len(shared) >= _SAME * max(len(new.terms), len(old.terms)):
        return not _names_another(new, old)
    if one.kind not in _NORMS or other.kind not in _NORMS or one.trust < other.trust:
        return False
    if _restates(new, old) and len(shared) >= _RESTATED * least:
        return True
    if _contradicts(new, old) or _takes_another(new, old) or _tells_another_value(new, old):
        return True
    return new.changes and _says_otherwise(new, old, len(shared), least)


def _contradicts(new: _Read, old: _Read) -> bool:
    """Return whether one forbids what the other one says, and they say little else."""
    if new.gives_back and old.forbidden:
        return not new.terms.isdisjoint(old.forbidden)
    if new.gives_back and _FORBIDS.search(old.lesson.text):
        return len(new.terms & old.terms) >= 2 and len(new.terms - old.terms) <= _SAID_BESIDE
    meant = new.forbidden & old.terms - old.forbidden or old.forbidden & new.terms - new.forbidden
    return bool(meant) and (new.terms <= old.terms or old.terms - _USES <= new.terms)


def _tells_another_value(new: _Read, old: _Read) -> bool:
    """Return whether two lessons say the same but for a value: "staging is on port 5433"."""
    if new.lesson.kind is not old.lesson.kind or _FORBIDS.search(new.lesson.text):
        return False
    one, other = ({term for term in each.terms if not _DIGIT.search(term)} for each in (new, old))
    return len(one) >= _NAMED and one == other and new.terms != old.terms


def _takes_another(new: _Read, old: _Read) -> bool:
    """Return whether a change takes another thing for the same purpose."""
    if not new.changes or new.taken is None or old.taken is None:
        return False
    return bool(new.taken[1]) and new.taken[1] == old.taken[1] and new.taken[0] != old.taken[0]


def _names_another(new: _Read, old: _Read) -> bool:
    """Return whether two rules each name something that the other one does not: they are alike, but
    of different objects. Another number of the same is a new value."""
    if new.lesson.kind not in _NORMS:
        return False
    one, other = new.terms - old.terms, old.terms - new.terms
    return any(not term.isdigit() for term in one) and any(not term.isdigit() for term in other)


def _has_another_object(new: _Read, old: _Read) -> bool:
    """Return whether two rules say the same of different things: "name the fixtures after the
    ticket", and the migrations. What differs at the end is another value."""
    one, other = (
        [term for term in extract_terms(each.lesson.text) if term in each.terms - _CHANGES]
        for each in (new, old)
    )
    return one[-1:] == other[-1:] and _names_another(new, old)


def _says_otherwise(new: _Read, old: _Read, shared: int, least: int) -> bool:
    """Return whether a lesson that changes something says another thing of the same subject."""
    one, other = new.lesson, old.lesson
    if new.forbidden & old.terms - old.forbidden:
        return True
    if new.forbidden and old.forbidden and new.forbidden.isdisjoint(old.forbidden):
        return False  # each forbids another thing
    rule = one.kind is other.kind is LessonKind.RULE
    if rule and one.paths and other.paths and set(one.paths).isdisjoint(other.paths):
        return False
    about = len((new.terms | new.about) & (old.terms | old.about))
    if shared >= _SUBJECT * least and about >= 4:
        return not (rule and _has_another_object(new, old))
    differs = bool(new.values - old.values) and bool(old.values - new.values)
    known = len((new.terms | new.about) & old.terms)
    told = known >= _KNOWN * len(old.terms)
    if one.session_id != other.session_id and told and _THROWS_OUT.search(one.text):
        return known >= 2 or differs
    return differs and told and shared >= 2


def _is_same_failure(one: Lesson, other: Lesson) -> bool:
    return bool(set(one.errors[:1]) & set(other.errors[:2])) and bool(
        set(one.commands) & set(other.commands)
    )
