"""Rules: what the user instructs for longer than now, forbids, prefers, and chooses for good."""

import re

from agent_memory.features.lessons.model.lessons import MAX_TEXT
from agent_memory.features.lessons.model.talk import Sentence, Turn
from agent_memory.features.toc.model.act_cues import Act

LEAST = 2.0  # of the weight of a rule
_WEIGHTS = {
    Act.LASTING: 2.0,
    Act.FORBIDDING: 1.6,
    Act.RESERVING: 2.0,
    Act.PREFERENCE: 1.2,
    Act.CUSTOM: 1.2,
    Act.CONTRAST: 1.2,
    Act.CHOICE: 1.1,
    Act.SCOPE: 0.9,
    Act.UNIVERSAL: 2.0,
    Act.NECESSITY: 0.9,
    Act.WISH: 0.7,
    Act.AMOUNT: 0.6,
}
_DIRECTIVE = frozenset(_WEIGHTS) - {Act.CONTRAST, Act.SCOPE, Act.AMOUNT}
_LASTING = frozenset((Act.LASTING, Act.RESERVING))
_LEAST_WORDS = 5  # of what is not plainly a rule
_PLAIN = frozenset(_WEIGHTS) - {Act.CHOICE, Act.CONTRAST, Act.NECESSITY, Act.WISH, Act.AMOUNT}
_AFTER_WORK = 0.5  # what the user says of it at once is about how work is to be done
ANSWERS = 0.4  # a question of the agent
_LEAST_ALONE = 6  # words of what says enough without the sentence before it
_LEAST_PLAIN = 4  # and if it plainly is a rule
_LONGEST_CLAUSE = 12  # words that belong to the clause before them
_SAYS_HOW = 1.6
_HEDGED = -1.2
_DESCRIBES = re.compile(  # what happens, not what is to be done
    r"\b(?:it|this|that|he|she|they|which|there|mine|\w+s)(?:'s)? (?:always|never) (?!use|put|go"
    r"|run|ask)"
    r"|\b(?:i|we|they|it)(?:'ve| have|'d| had)? (?:always|never) (?:\w+ed|was|were|got|had|been"
    r"|saw|knew)\b"
    r"|\balways (?:fails?|crash(?:es)?|happens?|shows?|returns?|breaks?|works?)\b"
    r"|^(?:and|but|so)? ?(?:every|the) .{0,60} (?:always|never) \w+s\b"
)
_NOW = re.compile(
    r"\b(?:yet|for now|right now|just this|this (?:one )?time|today|tonight|tomorrow"
    r"|at the moment|this (?:week|month|sprint)"
    r"|in this one|first of all|until i|while i|(?:in )?this session)\b|\bnow[,.]|\bnow$"
)
_ONLY_NOW = re.compile(  # not for longer, however strongly it is said
    r"\b(?:(?:today|tonight)\b(?! but\b| and always\b)|this (?:one )?time|for now|right now"
    r"|this (?:week|month|sprint|session)\b|(?:this|your|the next|your next) (?:answer|reply)"
    r"|your (?:next )?response|for (?:this|the) (?:demo|time being|rest of the (?:day|session))"
    r"|(?:for|in) (?:just )?this (?:one|question|task|pr|mr|pull request|commit|change|branch"
    r"|patch|case)"
    r"|(?:for|until|till) (?:the )?(?:next time|another (?:day|time)|later|tomorrow|monday)"
    r"|still (?:has|have|needs?) to)\b"
    r"|\b(?:you|u|we|i|it|they) (?:should|could)(?: never| not|n't) have \w+"
    r"|\bundo (?:it|that|this)\b"
    r"|\bof life\b|\bbright side\b|\bnever (?:give up|say never|too late)\b"
    r"|^(?:(?:ok(?:ay)?|no|yes|then|please|so|just)[,.! ]+)*(?:use|take|try|make it|set)\b"
    r"[^,;]{0,30} \d+ (?:instead of|rather than|not) \d+[.!]*$"
)
_GIVES_BACK = re.compile(  # what was forbidden before
    r"\b(?:can|may) (?:now )?(?:use|import|touch|edit|call|depend on) [^.?!]{1,60}\bagain\b"
    r"|\b(?:use|using) [^.?!,]{1,40} is (?:fine|ok(?:ay)?|allowed) (?:again|now)\b"
    r"|\b\w+ing [^.?!,]{1,40} is (?:fine|ok(?:ay)?|allowed) again\b"
    r"|\b(?:is|are) (?:allowed|permitted|welcome) again\b"
    r"|\b(?:it's|it is) (?:fine|ok(?:ay)?|allowed) to (?:use|import|touch|edit|call)"
    r" [^.?!]{1,40}\bagain\b"
    r"|\b(?:is|are) (?:no longer|not) (?:forbidden|banned|frozen|off[- ]limits)(?: any ?more)?\b"
    r"|^(?:(?:ok(?:ay)?|no|well|sorry|wait|and|but)[,.! ]+)*(?:actually|on second thoughts?"
    r"|correction|after all)[,:.! ]+(?:please )?do (?:use|keep|write|put|commit|import|prefer) \w"
)
_HOW = re.compile(  # by which way, and by which not: so it is done whenever it is done
    r"\b(?:with|via|through|using|by|from) \S.{0,80}, (?:and )?(?:not|never) (?:with|via|through"
    r"|using|by|from)\b|\bprefer (?!to\b|the\b|this\b|that\b)\S.{0,60}"
    r" (?:over|to|rather than|instead of) "
)
_WHY = re.compile(
    r"^\W*(?:(?:hey|but|and|so|wait|hm+)[,.! ]+)*(?:why|how come|since when)"
    r" (?:are you|do you|you)(?! (?:think|mean|ask|want)\b)\b"
)
_POINTS = re.compile(r"\b(?:it|that|this|them|those|these)\b")
_UNTIL = re.compile(r"^(?!.*\bwe )[^,;]{0,20}\b(?:don'?t|do not|no) (?:\w+ ){1,8}(?:until|till) ")
_FROZEN = re.compile(
    r"\b(?:touch|change|edit|modify|move|delete|rename|upgrade|bump|frozen|freeze)"
)
_THAT_ONE = re.compile(
    r"\b(?:it|this|that|them|this one|that one)[.!]*$|\b(?:don'?t|do not|stop|never) \w+ (?:it"
    r"|this|that|them)\b"
)
_REPORTS = re.compile(
    r"^(?:(?:ok(?:ay)?|yeah|yes|hey|so|and|but|well|right|hm+|oh|good|great|perfect|sure"
    r"|alright)[,.! ]+)*"
    r"(?:(?:i|we|he|she|they|it)(?:'ve| have| had|'d|'m| am| was)? (?:just |already |also |only "
    r"|still )?"
    r"(?:tried|got|get|gets|see|saw|found|noticed|ran|have|had|was|were|think|guess|wonder"
    r"|wondering|know"
    r"|mean|remember|recall|thinking|looking|looks?|seems?|needed|added|used to|figured"
    r"|understand|spotted)\b"
    r"|(?:changed|switched|looks?|seems?|sounds?|thinking|speaking|need|needs|there should|given"
    r"|added|that makes|makes"
    r"|glad|thanks|nice)\b)"
)
_COMMENTS = re.compile(
    r"^(?:(?:so|and|but|yes|well|ok(?:ay)?|yeah|right)[,.! ]+)*(?:that|it|this|which"
    r"|creating \w+|the whole)\b"
    r".{0,40}?(?:'d| would| could| seems?| makes?| feels?| looks?| sounds?| doesn't seem"
    r"|'s (?:an?|like) )"
)
_HEDGE = re.compile(
    r"\b(?:could|might|maybe|perhaps|probably|wonder|i guess|i think|not sure|if we)\b"
)
_MIND = re.compile(
    r"\bwould you mind|\b(?:could|can|would) (?:you|u) (?:please |pls )(?:always|never|stop|not)\b"
    r"|\b(?:could|can|would) (?:you|u) .{0,40}(?:from now on|in (?:the )?future|going forward)\b"
)
_LETS = re.compile(
    r"^(?:(?:ok(?:ay)?|and|so|now|then|please|pls|good|great|yes|no|also|just|can you|could you"
    r"|nice)[,.! ]+)*"
    r"(?:add|fix|show|write|create|look|check|find|explain|list|give|tell|open|read|see|update"
    r"|rename"
    r"|delete|remove|revert|commit|merge|push|deploy|redo|try|run|rerun|split|extract|move|copy"
    r"|change"
    r"|replay|retry|rebuild|regenerate|send|print|count|compare|draw|plot|sort|mark|clean|finish"
    r"|continue"
    r"|go on|go ahead|restart|start|set up|install|upgrade|bump|close|implement|build|refactor"
    r"|test|make the"
    r"|make it|recalculate|compute|convert|translate|summari[sz]e|sum|review|prepare|generate"
    r"|release)\b"
)
_REFERS = re.compile(
    r"(?:(?:ok|and|so|but|then|also|please|no)[,.! ]+)*(?:that|it|this|they|these|those|he|she"
    r"|if something"
    r"|if it|otherwise|because|since|anything)\b|(?:so|then|otherwise|because|since|not|just"
    r"|same)\b"
)


def weigh(sentence: Sentence, more: float = 0.0) -> float:
    """Weigh how much a sentence of the user rules for longer than now. `more`: for what was just
    said or done before it."""
    view = sentence.view
    if sentence.is_quoted or (sentence.asks and not _MIND.search(view)):
        return 0.0
    if reports(sentence) or sentence.size < 2:
        return 0.0
    if gives_back(view) and not holds_only_now(sentence):
        return LEAST
    found = [act for act in _WEIGHTS if sentence.has(act)]
    says_how = bool(_HOW.search(view))
    if (
        not says_how
        and not _DIRECTIVE & set(found)
        and not more
        and not sentence.has(Act.OBJECTION)
    ):
        return 0.0
    if _DESCRIBES.search(view) and Act.LASTING in found:
        found.remove(Act.LASTING)
    if sentence.size < _LEAST_WORDS and not _PLAIN & set(found):
        return 0.0
    weight = sum(_WEIGHTS[act] for act in found) + (_SAYS_HOW if says_how else 0.0)
    weight += max(more, 0.8 if sentence.has(Act.OBJECTION) else 0.0)
    if _HEDGE.search(view) and not sentence.asks:
        weight += _HEDGED
    lasts = bool(_LASTING & set(found))
    if holds_only_now(sentence) or (_NOW.search(view) and not lasts):
        return 0.0
    if _THAT_ONE.search(view) and not lasts:
        weight -= 0.7
    if _LETS.match(view) and not lasts and not says_how:
        weight -= 1.5
    if _COMMENTS.match(view) and not lasts and Act.CONTRAST not in found:
        return 0.0
    return weight


def chooses(sentence: Sentence) -> bool:
    """Return whether a sentence of the user takes one of several ways."""
    if sentence.is_quoted or sentence.asks or not sentence.has(Act.CHOICE) or reports(sentence):
        return False
    return not _HEDGE.search(sentence.view) and not _COMMENTS.match(sentence.view)


def reports(sentence: Sentence) -> bool:
    """Return whether a sentence tells what somebody did, saw or thinks."""
    return bool(_REPORTS.match(sentence.view))


def gives_back(text: str) -> bool:
    """Return whether a text allows again what was forbidden."""
    return _GIVES_BACK.search(text.lower()) is not None


def holds_only_now(sentence: Sentence) -> bool:
    """Return whether a sentence says that it is for now, or until something else is done. What is
    frozen until then holds for the sessions in between."""
    view = sentence.view
    ends = _UNTIL.search(view) and not sentence.has(Act.LASTING) and not _FROZEN.search(view)
    return bool(ends or _ONLY_NOW.search(view))


def refers_back(sentence: Sentence) -> bool:
    """Return whether a sentence says little without the one before it."""
    return bool(_REFERS.match(sentence.view))


def find_rules(turn: Turn, *, after_work: bool, answers: bool) -> list[tuple[int, int, float]]:
    """Return the rules in a turn of the user: the first and the last sentence, and the weight.
    `after_work`: the agent did something just before, so an objection is to that; `answers`: it
    asked something."""
    weights, objects = [], False
    for place, sentence in enumerate(turn.sentences):
        objects = objects or (place < 2 and sentence.has(Act.OBJECTION))
        more = 0.0
        if place < 3:
            more = _AFTER_WORK if after_work else ANSWERS if answers else 0.0
            more += 0.4 if objects else 0.0
        corrects = place > 0 and _corrects(turn.sentences[place - 1], sentence)
        weights.append(max(weigh(sentence, more), LEAST if corrects else 0.0))
    found: list[tuple[int, int, float]] = []
    for place, weight in enumerate(weights):
        if weight < LEAST:
            continue
        first, last = place, place
        sentence = turn.sentences[place]
        least = _LEAST_PLAIN if sentence.has(Act.LASTING) else _LEAST_ALONE
        if place and (refers_back(sentence) or sentence.size < least):
            first -= 1
        while last + 1 < len(weights) and last < place + 2:
            after = turn.sentences[last + 1]
            if after.asks or after.is_quoted or holds_only_now(after):
                break
            clause = turn.sentences[last].text.endswith(";") and after.size <= _LONGEST_CLAUSE
            goes_on = clause or refers_back(after)
            if not goes_on and weights[last + 1] < 1.0:
                break
            last += 1
        joins = found and first <= found[-1][1] + 1
        if joins and _measure(turn, found[-1][0], max(last, found[-1][1])) <= MAX_TEXT:
            found[-1] = (found[-1][0], max(last, found[-1][1]), max(weight, found[-1][2]))
        elif not joins or last > found[-1][1]:
            found.append((max(first, found[-1][1] + 1) if joins else first, last, weight))
    return found


def _corrects(asked: Sentence, sentence: Sentence) -> bool:
    """Return whether a sentence says what to do, after a question why the agent did otherwise."""
    if not _WHY.match(asked.view) or asked.is_quoted or sentence.is_quoted or sentence.asks:
        return False
    if holds_only_now(sentence) or _POINTS.search(sentence.view):
        return False
    return sentence.has(Act.NECESSITY) or sentence.has(Act.FORBIDDING)


def _measure(turn: Turn, first: int, last: int) -> int:
    """Return how many characters sentences have."""
    return sum(len(each.text) + 1 for each in turn.sentences[first : last + 1])
