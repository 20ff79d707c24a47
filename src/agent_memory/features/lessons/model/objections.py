"""Objections: a user says of what an agent was given that it does not hold any more."""

import re
from collections.abc import Sequence

from agent_memory.features.lessons.model.gate import find_telling_words
from agent_memory.features.lessons.model.lessons import KnownLesson

MAX_READ = 600  # characters of a prompt: an objection comes first
_IT = r"(?:that(?: one)?|this|it|the (?:rule|note|memory|lesson)|your (?:memory|note))"
_OBJECTION = re.compile(
    rf"\b{_IT}(?:'s| is| was)? (?:\w+ ){{0,2}}?(?:outdated|out of date|obsolete|stale"
    r"|no longer (?:true|valid|right|the case)|not true(?: any ?more)?|not valid(?: any ?more)?"
    r"|wrong(?: now| by now)?|history)\b"
    rf"|\b(?:forget|drop|discard) (?:that|this|the) (?:rule|note|memory|lesson)\b"
    r"|\bwe (?:no longer do|don't do) (?:that|this)(?: any ?more)?\b",
    re.IGNORECASE,
)


def find_objected(prompt: str, given: Sequence[Sequence[KnownLesson]]) -> KnownLesson | None:
    """Return the lesson that a prompt objects to: of those that were given, the latest last, the
    one whose words it repeats, or else the last if it was given alone. None: it objects to none,
    or it is not clear to which."""
    text = prompt[:MAX_READ].replace("\u2019", "'")
    if not given or _OBJECTION.search(text) is None:
        return None
    words = find_telling_words(text)
    known = [each for some in reversed(given) for each in some]
    shared = {each.lesson.id: len(words & find_telling_words(each.text)) for each in known}
    best = max(known, key=lambda each: shared[each.lesson.id])
    if shared[best.lesson.id]:
        return best
    return given[-1][0] if len(given[-1]) == 1 else None
