"""Rules: what the user instructs for longer than now, forbids, prefers, and chooses for good."""

import re

from agent_memory.features.lessons.model.talk import Sentence, Turn
from agent_memory.features.toc.model.act_cues import Act

LEAST = 2.0  # of the weight of a rule
_WEIGHTS = {
    Act.LASTING: 2.0,
    Act.FORBIDDING: 1.3,
    Act.RESERVING: 2.0,
    Act.SCOPE: 0.8,
    Act.WISH: 0.7,
    Act.CUSTOM: 1.2,
    Act.NECESSITY: 0.8,
    Act.CONTRAST: 1.0,
    Act.CHOICE: 0.7,
}
_DESCRIBES = re.compile(  # what happens, not what is to be done
    r"\b(?:it|this|that|he|she|they|which|there|mine|\w+s)(?:'s)? (?:always|never) (?!use|put|go"
    r"|run|ask)"
    r"|\b(?:i|we|they|it)(?:'ve| have|'d| had)? (?:always|never) (?:\w+ed|was|were|got|had|been"
    r"|saw|knew|thought)\b"
    r"|\balways (?:fails?|crash(?:es)?|happens?|shows?|returns?|breaks?|works?)\b"
)
_NOW = re.compile(
    r"\b(?:yet|for now|right now|today|this time|at the moment|just this once|for the moment"
    r"|in this one"
    r"|only this|this one|first of all|tonight|tomorrow|it|this|that|them)[.!]*$|\b(?:yet"
    r"|for now|just this"
    r"|this time|until i|while i)\b"
)
_REPORTS = re.compile(
    r"^(?:i|we|he|she|they)(?:'ve| have| had|'d)? (?:just |already |also )?(?:tried|got|get|see"
    r"|saw|found|noticed"
    r"|ran|have|had|need to|was|were|think|guess|wonder|know)\b"
)
_MIND = re.compile(
    r"\bwould you mind|\b(?:could|can|would) (?:you|u) (?:please |pls )(?:always|never|stop|not)\b"
)
_LETS = re.compile(
    r"^(?:(?:ok|and|so|now|then|please|good|great|can you|could you)[,.! ]+)*(?:add|fix|show|write"
    r"|create|look|check|find|explain|list|give|tell|open|read|see|update|rename|delete|remove"
    r"|revert|commit|merge|push|deploy|redo|try|run|rerun|split|extract|move|copy|change|set)\b"
)
_REFERS = re.compile(
    r"(?:(?:ok|and|so|but|then|also|please|no)[,.! ]+)*(?:that|it|this|they|these|those|he|she"
    r"|if something"
    r"|if it|otherwise|because|since|anything)\b|(?:so|then|otherwise|because|since|not|just"
    r"|same)\b"
)


def weigh(sentence: Sentence, *, objects: bool = False) -> float:
    """Weigh how much a sentence of the user rules for longer than now. `objects`: it objects to
    what was just done."""
    view = sentence.view
    if sentence.asks and not _MIND.search(view):
        return 0.0
    if _REPORTS.match(view) or sentence.size < 2:
        return 0.0
    found = [act for act in _WEIGHTS if sentence.has(act)]
    if not found:
        return 0.0
    if _DESCRIBES.search(view) and Act.LASTING in found:
        found.remove(Act.LASTING)
    weight = sum(_WEIGHTS[act] for act in found)
    weight += 0.8 if objects or sentence.has(Act.OBJECTION) else 0.0
    if _NOW.search(view) and Act.LASTING not in found:
        weight -= 1.0
    if _LETS.match(view) and not {Act.LASTING, Act.RESERVING} & set(found):
        weight -= 1.0
    return weight


def refers_back(sentence: Sentence) -> bool:
    """Return whether a sentence says little without the one before it."""
    return bool(_REFERS.match(sentence.view))


def find_rules(turn: Turn, *, after_work: bool) -> list[tuple[int, int, float]]:
    """Return the rules in a turn of the user: the first and the last sentence, and the weight.
    `after_work`: the agent did something just before, so an objection is to that."""
    weights, objects = [], False
    for place, sentence in enumerate(turn.sentences):
        opens = place < 2 and sentence.has(Act.OBJECTION)
        objects = objects or (opens and after_work)
        weights.append(weigh(sentence, objects=objects and place < 3))
    found: list[tuple[int, int, float]] = []
    for place, weight in enumerate(weights):
        if weight < LEAST:
            continue
        first, last = place, place
        sentence = turn.sentences[place]
        if place and (refers_back(sentence) or sentence.size < 6):
            first -= 1
        while last + 1 < len(weights) and last < place + 2:
            after = turn.sentences[last + 1]
            if after.asks or (not refers_back(after) and weights[last + 1] < 1.0):
                break
            last += 1
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]), max(weight, found[-1][2]))
        else:
            found.append((first, last, weight))
    return found
