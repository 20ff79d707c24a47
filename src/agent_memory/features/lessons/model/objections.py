"""Objections: a user says of what an agent was given that it does not hold any more."""

import re
from collections.abc import Sequence

from agent_memory.features.lessons.model.gate import find_telling_words
from agent_memory.features.lessons.model.lessons import KnownLesson

MAX_READ = 600  # characters of a prompt: an objection comes first
_LESSON = r"(?:(?:rule|note|memory|lesson)\b)"
_GONE = (
    r"(?:outdated|out of date|obsolete|stale|no longer (?:true|valid|right|the case)"
    r"|not (?:true|valid) any ?more)"
)
# "That's outdated", "the rule about ports is not true any more".
_OBJECTION = re.compile(
    rf"\b(?:that(?: one)?|this|it|(?:the|that|this|your) {_LESSON})"
    rf"(?:'s| is| was| (?:about|on|for) [^.?!,;]{{1,60}}? is)? (?:\w+ )?{_GONE}\b"
    rf"|\b(?:forget|drop|discard) (?:that|this|the|your) (?:\w+ ){{0,2}}{_LESSON}",
    re.IGNORECASE,
)
_NAMES_LESSON = re.compile(rf"\b{_LESSON}", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]*")


def find_objected(prompt: str, given: Sequence[Sequence[KnownLesson]]) -> KnownLesson | None:
    """Return the lesson that a prompt objects to. `given` are those that the session was given of
    late, the latest last.

    It is the one whose words the same sentence repeats; or the last one, if it was given alone and
    the sentence says nothing else. None: it objects to none, or it is not clear to which.
    """
    text = prompt[:MAX_READ].replace("\u2019", "'")
    sentence = next(filter(_OBJECTION.search, _SENTENCE.findall(text)), "").strip()
    if not given or not sentence or sentence.endswith("?"):
        return None
    words = find_telling_words(_NAMES_LESSON.sub("", _OBJECTION.sub(_keep_subject, sentence)))
    if not words:
        return given[-1][0] if len(given[-1]) == 1 else None
    known = [each for some in reversed(given) for each in some]
    best = max(known, key=lambda each: len(words & find_telling_words(each.text)))
    return best if words & find_telling_words(best.text) else None


def _keep_subject(objection: re.Match[str]) -> str:
    """Return what an objection says that it is about."""
    return re.sub(_GONE, "", objection[0], flags=re.IGNORECASE)
