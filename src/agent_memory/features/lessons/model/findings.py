"""Findings: what a talk found out, gave up, and left to do, by what its sentences weigh."""

import re
from collections.abc import Sequence

from agent_memory.features.lessons.model import rules
from agent_memory.features.lessons.model.names import find_code, find_paths
from agent_memory.features.lessons.model.talk import Sentence, Turn
from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.act_cues import Act
from agent_memory.features.toc.model.highlights import HighlightKind
from agent_memory.kernel.text.analysis import extract_terms

LEAST_GOTCHA = 3.0
_WORKED = (HighlightKind.DONE, HighlightKind.FINISHED, HighlightKind.STATE)
_ROOM = 380  # characters of an explanation with what leads to it
_PROMISE = re.compile(
    r"^(?:(?:ok(?:ay)?|so|now|then|good|alright|hm+|sorry)[,.! ]+)*(?:let me|let's|i'll|i will"
    r"|i'm going to"
    r"|now (?:i|let)|next,? i|shall i|should i|do you want|want me|i can |i could |i'd "
    r"|first,? i|looking at"
    r"|checking|running|reading)\b"
)
_TRIED = re.compile(
    r"\b(?:tried|try|attempt(?:ed)?|experiment\w*|tested|approach|measured|benchmark\w*"
    r"|switching|moving|using"
    r"|upgrad\w+|instead|idea)\b"
)
_VERDICT = re.compile(
    r"\b(?:(?<![a-z] )back to (?:the )?\w+|revert (?:it|that|everything)|undo (?:it|that)"
    r"|forget (?:it"
    r"|about it|that)|dead[- ]end|it'?s out|so no (?!hurry|rush|need|problem|worries|idea)\w+"
    r"|no [\w.-]+ then|not usable|unusable|scrap (?:it|that)|drop (?:it|that|the idea)|leave it,"
    r"|not worth|give (?:it )?up|gave (?:it )?up)\b"
)
_LONGEST_VERDICT = 40  # words
_BAD = re.compile(
    r"\b(?:slow(?:er)?|seconds?|minutes?|s\b|min\b|h\b|worse|block(?:er|ed)s?|cannot|can't|won't"
    r"|doesn't|don't"
    r"|expensive|flagged|crash\w*|conflicts?|problem)\b"
)
_FINAL = re.compile(
    r"n't (?:help|work out|pan out|pay off|scale)\b|\b(?:gave (?:\w+ )?up|given up"
    r"|backed (?:\w+ )?out|took (?:it|them|that) (?:back )?out|abandon(?:ed)?|dead[- ]end"
    r"|no good|scrapped|worth|can'?t be worked around|don't see a (?:good )?way|twice as slow"
    r"|slower|worse|undid it|nowhere|unusable|dropped (?:it|that|them|the)"
    r"|roll(?:ed)? (?:\w+ )?back|made no difference|not (?:help|work out|pan out|pay off|scale)"
    r"|failed|out[.,;]|(?:reverted|went back).{0,80}(?:because|since|so\b|as\b|:)|(?:because"
    r"|since|so|as)\b.{0,80}(?:reverted|went back))"
)
_MEASURED = re.compile(r"\d")
_VALUE = re.compile(
    r"\b\w+-\d+\b|\b\d (?:digits|characters|years|days|hours)|\b(?:ten|twelve|five|seven"
    r"|thirty) years|\b\d{2,9}\b|\bv?\d+\.\d+(?:\.\d+)*\b|\b[\w-]+(?:\.[\w-]+)+\b|[\w.-]+@[\w.-]+"
    r"|(?:/[\w.-]+){2,}|\b\w+/\w+"
    r"|\b[A-Z][A-Z0-9_-]{2,}\b|\b(?:\w+ )?(?:port|version|branch|bucket|account|user) \S+"
)
_NAMED = re.compile(
    r"^[A-Z][a-z]+ (?:maintains|owns|runs|decides|is responsible)"
    r"|(?<=[a-z,] )(?:Dr\.? )?[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})?"
)
_TELLS = re.compile(
    r"\b(?:(?:is|are) \S*\d\S* (?:since|now|from|as of|until)|(?:decided|handled|managed"
    r"|approved|run) by|you need (?:the|an?)|listens? on|runs? on|(?:is|on|at|to) port|port \d+"
    r"|lives? (?:in|at|on|under)|is (?:at|on|under)|(?:is|are|was|were) (?:called|named|moved"
    r"|raised|lowered|renamed)|moved (?:to|it)|responsible|belongs? to|owned by|owner|in charge"
    r"|stands for|(?:is|are) still (?:on |at )?\w* ?v?\d[\d.]*|old one|password|account is"
    r"|expires?|(?:hosts?|servers?|machines?|customers?|nodes|runners) (?:have|has|runs?"
    r"|use) \w+ \d[\d.]*|not? \w+ since|maintains?|owns|switched off|decommissioned"
    r"|since the move|speaks?|(?:has|have) \d+|are kept|(?:is|are) on [\w.-]*\d|user(?:name)? is"
    r"|hosted (?:on|at|by)|bucket is|limit(?:ed)? (?:is|to)|maintain(?:s|ed) by|in \w+ at \S+@)\b"
)
_FACT = re.compile(
    r"\b(?:is|are|was|were|has|have|takes?|needs?|stays?|starts?|goes|means|called|so|at|on"
    r"|every) "
    r"(?:\w+ ){0,3}\S*[\d@/]\S*"
)
_SUPPOSED = re.compile(r"(?:so |and |but )?(?:if|when|given|speaking|let me|more \w+,)\b")
_DONE = re.compile(r"\b(?:done|written|finished|added|implemented|fixed|merged|now)\b")
_SUPPOSES = re.compile(
    r"\b(?:if|would|could(?! not|n't)|might|may|probably|perhaps|maybe|to ensure|i'll|i will"
    r"|we'll|unrelated"
    r"|whether|wasn't|weren't)\b"
)
_CERTAIN = re.compile(
    r"\b(?:still (?:to do|needs?|has to|have to)|left to do|to ?do:|not (?:done|written"
    r"|implemented|finished)"
    r"|next step|yet\b|missing|i could(?:n't| not))"
)
_ANOTHER_TIME = re.compile(
    r"\b(?:(?:for|until) (?:the )?(?:next|another|some other) (?:time|day|week|session|sprint)"
    r"|tomorrow|later|next (?:time|week|sprint|month)|another day|some other time)\b"
)
_LEFT = re.compile(
    r"\b(?:still|yet) (?:need|needs|have|has)(?: to)?\b|\bstill (?:missing|open|to do)\b|\byet\b"
    r"|\b(?:not|n't) (?:done|written|finished)\b|\bremains?\b|\bleft to do\b"
)
_WHOLE = 9  # words of a sentence that says itself what is left
_OFFER = re.compile(
    r"\b(?:shall i|should i|want me|do you want|would you like|if you (?:want|like))\b"
)


def promises(sentence: Sentence) -> bool:
    """Return whether the agent says what it does next."""
    return bool(_PROMISE.match(sentence.view))


def weigh_finding(sentence: Sentence) -> float:
    """Weigh how much a sentence of the agent explains something that was not expected."""
    if sentence.asks or _PROMISE.match(sentence.view) or sentence.size < 6:
        return 0.0
    done = speech_acts.classify(sentence.text).kind in _WORKED
    weight = -1.5 if done and not sentence.has(Act.SURPRISE) else 0.0
    if sentence.has(Act.EXPLANATION):
        weight += 1.5
    if sentence.has(Act.SURPRISE):
        weight += 2.0
    if sentence.has(Act.LIMIT):
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
    size = len(turn.sentences[best].text)
    while last + 1 < len(weights) and weights[last + 1] >= 0.5:
        last += 1
        size += len(turn.sentences[last].text)
    while first and not promises(turn.sentences[first - 1]) and not turn.sentences[first - 1].asks:
        size += len(turn.sentences[first - 1].text) + 1
        if size > _ROOM:
            break
        first -= 1
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


def is_verdict(turn: Turn, before: Sequence[Turn]) -> bool:
    """Return whether the user gives up what was tried `before`."""
    if turn.size > _LONGEST_VERDICT or not any(
        _VERDICT.search(each.view) and not each.asks and not each.is_quoted
        for each in turn.sentences
    ):
        return False
    return any(
        _TRIED.search(each.view) or each.has(Act.FAILURE) or _BAD.search(each.view)
        for each in before
    )


def find_open_ends(turn: Turn) -> list[tuple[int, int]]:
    """Return the sentences of an agent's turn that say what is left to do."""
    found: list[tuple[int, int]] = []
    for place, sentence in enumerate(turn.sentences):
        if sentence.asks or _OFFER.search(sentence.view) or sentence.size < 4 or promises(sentence):
            continue
        if not sentence.has(Act.UNDONE):
            continue
        if _SUPPOSES.search(sentence.view) and not _CERTAIN.search(sentence.view):
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


def find_postponed(turn: Turn) -> list[tuple[int, int]]:
    """Return the sentences of a user's turn that leave something to do for another time."""
    found = []
    for place, sentence in enumerate(turn.sentences):
        if sentence.asks or sentence.is_quoted or not _ANOTHER_TIME.search(sentence.view):
            continue
        first = max(0, place - 1) if sentence.size < _WHOLE else place
        if any(_LEFT.search(each.view) for each in turn.sentences[first : place + 1]):
            found.append((first, place))
    return found


def find_facts(turn: Turn, *, corrects: bool) -> list[tuple[int, int]]:
    """Return the sentences of the user that tell a value, a name or a place, and what it is of.
    `corrects`: they answer what did not work, or what the agent got wrong."""
    found: list[tuple[int, int]] = []
    for place, sentence in enumerate(turn.sentences):
        view = sentence.view
        if sentence.asks or sentence.is_quoted or sentence.size < 4 or rules.reports(sentence):
            continue
        if not (_TELLS.search(view) or (corrects and _FACT.search(view))):
            continue
        if speech_acts.is_hedged(sentence.text) or _SUPPOSED.match(view):
            continue
        if rules.holds_only_now(sentence):
            continue
        if not (_VALUE.search(sentence.text) or _NAMED.search(sentence.text)):
            continue
        first = place - 1 if place and speech_acts.lacks_subject(sentence.text) else place
        last = place
        while last + 1 < len(turn.sentences) and last < place + 2:
            after = turn.sentences[last + 1]
            if (
                after.asks
                or after.is_quoted
                or not (speech_acts.lacks_subject(after.text) or _FACT.search(after.view))
            ):
                break
            last += 1
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
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
