"""Emphasis: how much a sentence matters by what it does and what it is about."""

import re
from collections.abc import Sequence

from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.highlights import HighlightKind

_ACTS = {
    HighlightKind.DECIDED: 0.4,
    HighlightKind.FINISHED: 0.3,
    HighlightKind.DONE: 0.25,
    HighlightKind.STATE: 0.3,
    HighlightKind.OPEN: 0.2,
}
_CORRECTING, _MEASURED, _PERSONAL, _DULL_OPENING = 0.3, 0.35, 0.25, 0.7
_MEASURE = re.compile(
    r"\d\s?(?:ms|s|[kKMGT]B|%|x|seconds|minutes|hours|times|events|tests|users|percent)(?!\w)"
)
_ME = frozenset({"i", "my", "we", "our", "me"})
_ABOUT_LIFE = """
went started began bought moved joined lost won adopted married visited met made built took got
signed finished graduated painted wrote ran hiked volunteered organized attended received applied
opened launched hosted learned broke hired quit named lives work works studying daughter son wife
husband mom dad mother father sister brother grandma grandpa kids dog cat puppy birthday wedding
allergic favorite
"""
_LIFE = frozenset(_ABOUT_LIFE.split())
_DULL = """
sure ok okay great thanks thank perfect excellent absolutely wow hey hi hello yeah yes yep cool
awesome nice congrats sorry glad good right exactly definitely totally
"""
_DULL_START = frozenset(_DULL.split())


def score_emphasis(text: str, words: Sequence[str]) -> float:
    """Return the weight of a sentence: above 1 for important ones, below 1 for chatter.

    `words` are the words of the text in lower case, letters only.
    """
    if not words:
        return 1.0
    act = speech_acts.classify(text)
    boost = 0.0 if act.kind is None else _ACTS.get(act.kind, 0.0)
    if act.corrects:
        boost += _CORRECTING
    if _MEASURE.search(text):
        boost += _MEASURED
    if not (_ME.isdisjoint(words) or _LIFE.isdisjoint(words)):
        boost += _PERSONAL
    damp = _DULL_OPENING if words[0] in _DULL_START and boost < 0.5 else 1.0
    return (1.0 + boost) * damp
