"""Cue words: a sentence with them matters more (a decision, a cause, an outcome) or less."""

import re
from collections.abc import Sequence
from itertools import pairwise

MAX_BOOST = 1.2
_CHATTER = -1.0  # a marker, not a boost
_CHATTING, _DULL_OPENING = 0.45, 0.7
_MEASURED, _PERSONAL = 0.35, 0.25


def _table(text: str) -> dict[str, float]:
    """Read lines of a boost and its cues. The boost of chatter is _CHATTER."""
    rows = (line.split(":") for line in text.strip().splitlines())
    return {cue.strip(): float(boost) for boost, cues in rows for cue in cues.split(",")}


# An apostrophe separates words: "let's use" ends in the pair "s use".
_PAIRS = _table(
    """
    0.45: go with, going with, went with, settled on, s use, s keep, s take, s stick, s switch
    0.45: s leave, s drop, s do, ll use, ll keep, will use, should use, we use, we keep, we chose
    0.45: now on, must not, changed my, leave it
    0.2: make sure, we need, i want, we want, i need, failing test
    0.5: root cause, turned out, turns out, found it, found the, caused by, fixed by, the fix
    0.5: bug was, bug is, issue was, issue is, problem was, problem is, cause was, cause is
    0.5: reason was, reason is, culprit was, culprit is, error was, because of
    0.35: pass now, passes now, tests pass, all tests, works now, work now, is gone, no longer
    0.35: down from, instead of, goes out, went from, went live, is done, are done
    0.25: plan to, planning to, plans to, plan on, planning on, going to, signed up
    0.25: looking forward, next week, next month, next year, next summer, next weekend, last week
    0.25: last month, last year, last summer, last weekend, last night, last friday
    -1.0: let me, ll help, ll start, ll begin, ll now, ll check, ll look, ll read, ll go, will now
    -1.0: here s, here is, here are, feel free, me know, to see, to hear, sounds great
    -1.0: sounds good, sounds like, sounds awesome, you like, got this, me posted, t wait
    -1.0: thanks for, thank you, glad you, glad to, so glad, so happy, so proud, i bet
    """
)
_WORDS = _table(
    """
    0.7: decided, decision, agreed, chose, approved, settled
    0.2: always, never, must, prefer, remember, instead
    0.15: actually, correction, wrong, rather
    0.3: fixed, resolved, solved, because, cause, culprit
    0.25: error, exception, fails, failed, failing, crash, crashed, broken, timeout, regression
    0.25: blocked, blocks, bug, locked, missing, passed, passes, released, shipped, deployed
    0.25: merged, published, completed, finished, learned, implemented, created, added, removed
    0.2: january, february, march, april, june, july, august, september, october, november
    0.2: december, monday, tuesday, wednesday, thursday, friday, saturday, sunday, yesterday
    0.2: tomorrow, tonight, ago, deadline
    """
)
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
    boosts = [_PAIRS[pair] for pair in map(" ".join, pairwise(words)) if pair in _PAIRS]
    damp = _CHATTING if _CHATTER in boosts else 1.0
    boost = sum([boost for boost in boosts if boost != _CHATTER])
    boost += max([_WORDS[word] for word in words if word in _WORDS], default=0.0)
    if _MEASURE.search(text):
        boost += _MEASURED
    if not (_ME.isdisjoint(words) or _LIFE.isdisjoint(words)):
        boost += _PERSONAL
    if words[0] in _DULL_START and boost < 0.5:
        damp *= _DULL_OPENING
    return (1.0 + min(boost, MAX_BOOST)) * damp
