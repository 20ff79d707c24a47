"""Findings: what a talk found out, gave up, and left to do, by what its sentences weigh."""

import re
from collections.abc import Sequence

from agent_memory.features.lessons.model.names import find_code, find_paths
from agent_memory.features.lessons.model.talk import Sentence, Turn
from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.act_cues import Act
from agent_memory.features.toc.model.highlights import HighlightKind
from agent_memory.kernel.text.analysis import extract_terms

LEAST_GOTCHA = 3.0
_PROMISE = re.compile(
    r"^(?:(?:ok(?:ay)?|so|now|then|good|alright|hm+|sorry)[,.! ]+)*(?:let me|let's|i'll|i will"
    r"|i'm going to"
    r"|now (?:i|let)|next,? i|shall i|should i|do you want|want me|i can |i could |i'd "
    r"|first,? i|looking at"
    r"|checking|running|reading)\b"
)
_TRIED = re.compile(
    r"\b(?:tried|try|attempt(?:ed)?|experiment\w*|tested|approach|measured|benchmark\w*)\b"
)
_VERDICT = re.compile(
    r"\b(?:forget (?:it|about it|that)|dead[- ]end|it'?s out|so no \w+|no [\w.-]+ then"
    r"|not usable|unusable"
    r"|scrap (?:it|that)|drop (?:it|that|the idea)|leave it,|not worth|give (?:it )?up"
    r"|gave (?:it )?up)\b"
)
_FINAL = re.compile(
    r"\b(?:gave (?:it |that |this )?up|given up|backed (?:it|that|this) out|backed out"
    r"|abandon(?:ed)?|dead[- ]end"
    r"|no good|scrapped|not worth|can'?t be worked around|don't see a (?:good )?way|twice as slow"
    r"|undid it|leads nowhere|reverted (?:it|that|this) because|rolled (?:it|that|this) back"
    r"|(?:made|makes) (?:\w+ ){0,2}(?:slower|worse))\b"
)
_MEASURED = re.compile(r"\d")
_VALUE = re.compile(
    r"\b\d{2,5}\b|\bv?\d+\.\d+(?:\.\d+)*\b|\b[\w-]+(?:\.[\w-]+)+\b|[\w.-]+@[\w.-]+"
    r"|(?:/[\w.-]+){2,}|\b\w+/\w+"
    r"|\b[A-Z][A-Z0-9_-]{2,}\b|\b(?:\w+ )?(?:port|version|branch|bucket|account|user) \S+"
)
_NAMED = re.compile(r"(?<=[a-z,] )(?:Dr\.? )?[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})?")
_FACT = re.compile(
    r"\b(?:listens? on|runs? (?:on|in|at|as)|lives? (?:in|at|on|under)|is (?:at|on|in|under"
    r"|called|named|still"
    r"|responsible|now|the (?:old|new) one)|are (?:at|on|in|under|called|still|in charge)"
    r"|moved (?:to|it)|port"
    r"|version|belongs? to|owned by|owner|responsible for|maintain(?:s|ed)|in charge of|hosted"
    r"|stands for|means"
    r"|user(?:name)? is|password is in|account|limit(?:ed)? (?:to|is)|expires?|every \w+ at"
    r"|takes? \d|\w+ not \w+"
    r"|is \S*\d\S*|are \S*\d\S*|so \d[\d.]*|needs? an? ok|sign(?:s|ed)? off)\b"
)
_DONE = re.compile(r"\b(?:done|written|finished|added|implemented|fixed|merged|now)\b")
_LEAVES = re.compile(
    r"\b(?:not (?:done|written|implemented|migrated|finished|tested|covered|wired|replaced|there"
    r"|moved|started"
    r"|handled|converted|in place|yet)|isn't[.,;: ]|isn't (?:done|finished|written|there|tested"
    r"|covered|wired)"
    r"|still (?:to do|to be|open|missing|needs?|fails?|broken)|to ?do:|left to do|yet to be"
    r"|remains?\b.{0,60}until"
    r"|next step|remaining|have not (?:yet )?\w+ed|haven't \w+ed|open:|pending|unfinished"
    r"|half done"
    r"|not .{1,30} yet|follow-?up|waits? for|waiting for|blocked|until .{1,40} (?:has|have|is"
    r"|are|decid\w+))\b"
)
_OFFER = re.compile(
    r"\b(?:shall i|should i|want me|do you want|would you like|if you (?:want|like))\b"
)


def weigh_finding(sentence: Sentence) -> float:
    """Weigh how much a sentence of the agent explains something that was not expected."""
    if sentence.asks or _PROMISE.match(sentence.view) or sentence.size < 6:
        return 0.0
    weight = 0.0
    if sentence.has(Act.EXPLANATION):
        weight += 1.5
    if sentence.has(Act.SURPRISE):
        weight += 1.0
    if sentence.has(Act.CAUSE):
        weight += 1.0
    if sentence.has(Act.FAILURE) or sentence.has(Act.FINDING):
        weight += 0.5
    if find_code(sentence.text) or find_paths(sentence.text):
        weight += 0.5
    if speech_acts.is_hedged(sentence.text):
        weight -= 1.5
    return weight


def find_explanation(turn: Turn) -> tuple[int, int, float] | None:
    """Return the sentences of an agent's turn that explain something, and their weight."""
    weights = [weigh_finding(each) for each in turn.sentences]
    best = max(range(len(weights)), key=lambda at: weights[at], default=-1)
    if best < 0 or weights[best] < 1.5:
        return None
    first = last = best
    while first and weights[first - 1] >= 0.5:
        first -= 1
    if first and first == best and speech_acts.lacks_subject(turn.sentences[best].text):
        first -= 1
    while last + 1 < len(weights) and weights[last + 1] >= 0.5:
        last += 1
    total = sum(weights[first : last + 1])
    return first, last, total


def find_dead_end(turn: Turn) -> tuple[int, int] | None:
    """Return the sentences of an agent's turn that say what was tried and given up."""
    for place, sentence in enumerate(turn.sentences):
        if sentence.asks or _PROMISE.match(sentence.view):
            continue
        view = sentence.view
        if not sentence.has(Act.GIVING_UP) or not _FINAL.search(view):
            continue
        near = turn.sentences[max(0, place - 1) : place + 2]
        told = any(
            _TRIED.search(each.view) or each.has(Act.EXPLANATION) or _MEASURED.search(each.text)
            for each in near
        )
        if told:
            first = place - 1 if place and sentence.size < 14 else place
            return first, min(place + 1, len(turn.sentences) - 1)
    return None


def is_verdict(turn: Turn) -> bool:
    """Return whether the user gives up what was tried."""
    return turn.size <= 40 and any(
        _VERDICT.search(each.view) and not each.asks for each in turn.sentences
    )


def find_open_ends(turn: Turn) -> list[tuple[int, int]]:
    """Return the sentences of an agent's turn that say what is left to do."""
    found: list[tuple[int, int]] = []
    for place, sentence in enumerate(turn.sentences):
        if sentence.asks or _OFFER.search(sentence.view) or sentence.size < 4:
            continue
        if not sentence.has(Act.UNDONE) or not _LEAVES.search(sentence.view):
            continue
        first = place
        if place and speech_acts.lacks_subject(sentence.text):
            first -= 1
        last = place
        after = turn.sentences[place + 1] if place + 1 < len(turn.sentences) else None
        if after is not None and not after.asks and not _OFFER.search(after.view):
            last += 1
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def find_facts(turn: Turn) -> list[tuple[int, int]]:
    """Return the sentences of the user that tell a value, a name or a place, and what it is of."""
    found: list[tuple[int, int]] = []
    for place, sentence in enumerate(turn.sentences):
        view = sentence.view
        if sentence.asks or sentence.size < 5 or not sentence.has(Act.PLACE):
            continue
        if not _FACT.search(view) or speech_acts.is_hedged(sentence.text):
            continue
        if not (_VALUE.search(sentence.text) or _NAMED.search(sentence.text)):
            continue
        first = place - 1 if place and speech_acts.lacks_subject(sentence.text) else place
        found.append((first, place))
    return found


def is_done_later(words: str, later: Sequence[Turn]) -> bool:
    """Return whether a later turn says that what was open is done."""
    terms = {term for term in extract_terms(words) if len(term) > 3}
    if not terms:
        return False
    for turn in later:
        for sentence in turn.sentences:
            if turn.is_user or sentence.asks or sentence.has(Act.UNDONE):
                continue
            if not _DONE.search(sentence.view):
                kind = speech_acts.classify(sentence.text).kind
                if kind not in (HighlightKind.DONE, HighlightKind.FINISHED):
                    continue
            shared = terms & set(extract_terms(sentence.text))
            if len(shared) >= max(2, len(terms) // 3):
                return True
    return False
