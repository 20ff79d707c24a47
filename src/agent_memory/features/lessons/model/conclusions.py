"""Conclusions: what a talk settled. It is often spread over several turns and confirmed by a short
"exactly", so the turn that states it whole is taken."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent_memory.features.lessons.model import rules
from agent_memory.features.lessons.model.lessons import Trust
from agent_memory.features.lessons.model.names import find_code
from agent_memory.features.lessons.model.talk import Talk, Turn
from agent_memory.features.toc.model.act_cues import Act
from agent_memory.kernel.text.analysis import extract_terms
from agent_memory.kernel.text.terms import stem
from agent_memory.kernel.text.vocabulary import COMMON, GRAMMAR

_LEAST_TALK = 4  # turns in which something is settled point by point
_REACH = 14  # turns from a question to what is chosen
_NAMES = re.compile(r"\b[A-Z]{2,}\w*|\b[A-Z][a-z]+[A-Z]\w*")
_NAMING = 6  # words of a sentence that only names what is chosen
_SHORT = 14  # words of a turn that only confirms
_LONGEST_CHOICE = 240  # characters that are quoted whole
_STOPPED = frozenset(map(stem, GRAMMAR | COMMON))
_WHOLE = 9  # words of a choice that says itself what is chosen
_TAKES = re.compile(
    r"^(?:(?:ok(?:ay)?|oh|ah|good|great|right|hm+|sorry|apologies|thanks)[,.! \u2014-]+)*"
    r"(?:got it|understood|agreed|right|makes sense|confirmed|exactly|noted|settled|correct|done"
    r"|clear|so|then|alright|all right|fine|okay|perfect|will do|that (?:settles|makes)|in short"
    r"|recap|summary|final)\b"
)
_NORM = re.compile(
    r"\b(?:must|never|always|only|exactly|unless|except|every|not?|instead|first|then|before"
    r"|at (?:most|least)|becomes?|stays?|keeps?|raises?|returns?|rounds?|caps?|capped|counts?"
    r"|wins?"
    r"|drop|drops|matches|default|unchanged|allowed|else)\b|\d|->|=>"
)
_WORK = re.compile(
    r"^(?:(?:ok(?:ay)?|understood|done|got it|right|sorry|fixed|good)[,.!: \u2014-]+)*"
    r"(?:i(?:'ve| have)? (?!d\b)\w+|moved|changed|added|fixed|removed|rewritten|rewrote|committed"
    r"|reverted|written|deleted|set\b|all \w+ pass)"
)
_LEADS = re.compile(
    r"^(?:(?:ok(?:ay)?|got it|understood|right|makes sense|confirmed|exactly|noted|agreed|good"
    r"|great"
    r"|sure|perfect|settled|then|so|in short|done|absolutely|i see|recap of|recap|to (?:sum up"
    r"|recap)"
    r"|alright|all right|fine|okay|final|summary (?:for|of)|recap for"
    r"|thanks)\b[,.!:;\u2014\u2013 -]+)+"
)
_RECAP_ASKED = re.compile(r"\b(?:recap|sum (?:it |that |this )?up|summari[sz]e)\b")
_PROPOSES = re.compile(
    r"^(?:so |ok(?:ay)?, )?then\b|\b(?:is enough|are enough|i'd|i would|recommend|best|third way"
    r"|instead|enough:)"
)
_TODAY = re.compile(
    r"\b(?:today|for now|this time|tonight|later|tomorrow|next (?:week|month|sprint))\b"
)
_CONFIRMS = re.compile(
    r"(?:(?:yes|yep|yeah|ok(?:ay)?|right|ah|good)[,.! ]+)*(?:exactly(?: (?:so|that|right))?"
    r"|precisely|that'?s (?:it|right|the rule|the policy|how (?:it is|we do it)))[.! ]*"
)
_PROMISES = re.compile(r"\b(?:i'll|i will|let me|shall i|should i|do you want|i can)\b")
_CONFIRMED = 3.2  # weight
_OPTIONS = re.compile(
    r"\b(?:candidates?|options?|either|alternatives?|two (?:ways|choices)|three (?:ways"
    r"|choices))\b"
    r"|\w, (?:[\w.`-]+ ){1,8}or \w"
)
_DECIDES = re.compile(
    r"\b(?:decide|settle|need (?:a|an|some)|or what|discuss|need to (?:pick|choose)|want (?:a"
    r"|one|some)"
    r"|choose|pick|style|topic|which)\b"
)
_STATES = re.compile(r"[^.?!]{3,70}?(?::| -| \u2014) ?\w.{30}")  # "Alright: merge_stops joins ..."
_CALLED = re.compile(r"[_(]")
_SHARED, _SHARED_STATED = 0.4, 0.25  # of its words that the user said too
_LATER = 0.15  # a later proposal answers more of the questions
_NORMATIVE = 30  # words for one that says how it is to be
_REASONED = 18  # words of a proposal that has reasons
_TELLING, _UNSURE, _LAST_TURNS = 12, 0.5, 3  # words, weight and turns of a talk's last word
_DIRECTIVE = 1.2  # weight of a sentence that decides a point


@dataclass(slots=True, eq=False)
class Settlement:
    """What was settled. `text` is its words: those of `turn` from a sentence on, or what the user
    chose and the proposal with its reasons."""

    turn: Turn  # that states it
    first: int  # sentence
    text: str
    trust: Trust
    opening: Turn  # the question or the request that led to it
    weight: float
    also: tuple[Turn, ...] = ()


def find_conclusions(talk: Talk) -> list[Settlement]:
    found = _find_recaps(talk)
    found += [
        each
        for each in _find_choices(talk)
        if not any(0 < other.turn.place - each.turn.place < _REACH for other in found)
    ]
    found += [
        each
        for each in _find_confirmed(talk)
        if not any(each.also[0] in (other.turn, *other.also) for other in found)
    ]
    chat = _find_settled_talk(talk)
    if chat is not None:
        found.append(chat)
    if not found and not talk.runs and (last := _find_last_word(talk)) is not None:
        found.append(last)
    best: dict[int, Settlement] = {}
    for each in found:
        known = best.get(each.turn.place)
        if known is None or each.weight > known.weight:
            best[each.turn.place] = each
    return sorted(best.values(), key=lambda each: each.turn.place)


def _find_last_word(talk: Talk) -> Settlement | None:
    """Return the last thing that the agent said in a talk without work, if it is no question: it
    often says what came of the talk, though no word shows it."""
    turns = talk.turns
    if len(turns) < _LEAST_TALK:
        return None
    said = [turn for turn in turns[-_LAST_TURNS:] if not turn.is_user]
    turn = next((each for each in reversed(said) if each.size >= _TELLING), None)
    if turn is None or turn.has_code or turn.asks:
        return None
    return Settlement(
        turn=turn,
        first=0,
        text=_state(turn, 0),
        trust=Trust.AGENT,
        opening=turns[0],
        weight=_UNSURE,
        also=tuple(each for each in turns[-_LAST_TURNS:] if each.is_user)[-1:],
    )


def _state(turn: Turn, first: int) -> str:
    """Return what a turn says from a sentence on, without words that lead up to it: "Got it - "."""
    text = " ".join(each.text for each in turn.sentences[first:])
    lead = _LEADS.match(text.lower())
    return text[lead.end() :] if lead and len(text) - lead.end() > 20 else text


def _find_settled_talk(talk: Talk) -> Settlement | None:
    """Return what a talk without work settled: the last turn of the agent that says how it is to
    be, after the user decided points of it."""
    turns = talk.turns
    if len(turns) < _LEAST_TALK or len(talk.runs) > len(turns):
        return None
    mine = [turn for turn in turns[1:] if turn.is_user]
    decided = [turn for turn in mine if _settles(turn)]
    said = {term for turn in turns if turn.is_user for term in extract_terms(turn.text)}
    for turn in reversed(turns[-4:]):
        if turn.is_user or turn.size < 12 or turn.has_code:
            continue
        opens = turn.sentences[0]
        if not _TAKES.match(opens.view) and not opens.has(Act.RECAP):
            continue
        own = set(extract_terms(turn.text))
        normative = len(_NORM.findall(turn.view))
        stated = bool(_STATES.match(turn.view))
        if not stated and (not decided or len(decided) * 3 < len(mine)):
            continue
        least = _SHARED_STATED if stated else _SHARED
        named = stated and any(_CALLED.search(name) for name in find_code(turn.text))
        if len(own & said) >= least * len(own) and (named or normative * _NORMATIVE >= turn.size):
            after = tuple(t for t in turns if t.place > turn.place and t.is_user)[:1]
            agreed = bool(after) and not after[0].sentences[0].has(Act.OBJECTION)
            by_user = decided or agreed or _answers(turns) or len(own & said) >= _SHARED * len(own)
            trust = Trust.USER if by_user else Trust.AGENT
            return Settlement(turn, 0, _state(turn, 0), trust, turns[0], 5.0, after)
    return None


def _answers(turns: Sequence[Turn]) -> bool:
    """Return whether the user answered a question of the agent."""
    pairs = pairwise(turns)
    return any(one.asks and not one.is_user and two.is_user and not two.asks for one, two in pairs)


def _settles(turn: Turn) -> bool:
    """Return whether a turn of the user decides a point."""
    return any(
        rules.weigh(each, rules.ANSWERS) >= _DIRECTIVE
        or (place == 0 and each.has(Act.OBJECTION) and not turn.asks)
        for place, each in enumerate(turn.sentences)
    )


def _find_recaps(talk: Talk) -> list[Settlement]:
    """Return what the agent sums up as settled, in words such as "Recap:" or "Settled:"."""
    found = []
    for at, turn in enumerate(talk.turns):
        if turn.is_user or at == 0:
            continue
        asked = talk.turns[at - 1].is_user and _RECAP_ASKED.search(talk.turns[at - 1].view)
        first = 0 if asked and turn.size > 20 else _find_recap(turn)
        if first < 0:
            continue
        before = talk.turns[:at]
        text = _state(turn, first)
        words = set(extract_terms(text))
        mine = {term for t in before if t.is_user for term in extract_terms(t.text)}
        shared = len(words & mine) / (len(words) or 1)
        after = talk.turns[at + 1] if at + 1 < len(talk.turns) else None
        agreed = after is not None and after.is_user and not after.sentences[0].has(Act.OBJECTION)
        if not any(t.is_user and (_settles(t) or _asks_choice(t)) for t in before):
            continue
        trust = Trust.USER if shared >= 0.3 or agreed or asked else Trust.AGENT
        opening = _find_opening(talk, turn) or turn
        also = (after,) if after is not None and agreed else ()
        found.append(Settlement(turn, first, text, trust, opening, 4.0, also))
    return found


def _find_recap(turn: Turn) -> int:
    words = turn.size
    for place, sentence in enumerate(turn.sentences):
        if sentence.has(Act.RECAP) and not _WORK.match(sentence.view) and words > 8:
            return place
        words -= sentence.size
    return -1


def _find_opening(talk: Talk, turn: Turn) -> Turn | None:
    """Return the turn of the user that opened what is settled: the first since the last question of
    what to choose, or of the session."""
    users = [each for each in talk.turns if each.is_user and each.place < turn.place]
    if not talk.runs:
        return users[0] if users else None
    asked = [each for each in users if _asks_choice(each)]
    return next(iter(asked or users), None)


def _find_choices(talk: Talk) -> list[Settlement]:
    """Return what the user chose after a question or a proposal: their own words if they say it,
    and the proposal that they agreed to."""
    found: list[Settlement] = []
    turns = talk.turns
    done = -1
    for at, opening in enumerate(turns):
        if at <= done or not _opens_choice(turns, at):
            continue
        stop = _find_work(talk, opening.place)
        works = any(run.place > opening.place for run in talk.runs)
        closing = -1
        for number in range(at + 2, min(len(turns), at + _REACH)):
            if turns[number].place > stop:
                break
            if turns[number].is_user and _closes(
                turns[number], opening, turns[at + 1 : number], works=works
            ):
                closing = number
        if closing < 0:
            continue
        proposals = [each for each in turns[at + 1 : closing] if not each.is_user]
        weights = [_weigh_proposal(each, turns[closing]) for each in proposals]
        weights = [weight * (1 + _LATER * at) for at, weight in enumerate(weights)]
        if weights and max(weights) >= _REASONED:
            done = closing
            best = proposals[weights.index(max(weights))]
            found.append(_settle(turns[closing], best, opening))
    return found


def _find_confirmed(talk: Talk) -> list[Settlement]:
    """Return what the agent said of how it is to be, where the user said no more than "exactly"."""
    found = []
    for at, turn in enumerate(talk.turns):
        if not turn.is_user or at < 2 or not _CONFIRMS.fullmatch(turn.view.strip()):
            continue
        said = talk.turns[at - 1]
        opens = said.sentences[0]
        if said.is_user or said.has_code or said.size < _TELLING or _WORK.match(opens.view):
            continue
        if len(_NORM.findall(said.view)) * _NORMATIVE < said.size or _PROMISES.search(said.view):
            continue
        opening = _find_opening(talk, turn) or turn
        text = _state(said, 0)
        found.append(Settlement(turn, 0, text, Trust.USER, opening, _CONFIRMED, (said,)))
    return found


def _settle(closing: Turn, proposal: Turn, opening: Turn) -> Settlement:
    chosen = [each.text for each in closing.sentences if rules.chooses(each)]
    if not chosen and closing.size <= _SHORT:
        chosen = [closing.text]
    said = " ".join(chosen)
    if chosen and closing.size >= _WHOLE and len(closing.text) < _LONGEST_CHOICE:
        said = closing.text
    names_it = any(
        len(term) > 2 and term not in _STOPPED for term in extract_terms(said.casefold())
    )
    text = f"{said.rstrip(' .!')} \u2014 {proposal.text}" if names_it else proposal.text
    return Settlement(closing, 0, text, Trust.USER, opening, 3.4, (proposal,))


def _find_work(talk: Talk, place: int) -> int:
    """Return the place where files are written after a question: by then it is settled."""
    return next(
        (run.place for run in talk.runs if run.place > place and run.file and run.changes), 1 << 30
    )


def _opens_choice(turns: Sequence[Turn], at: int) -> bool:
    """Return whether the user asks what to choose, or says what is needed and is given options."""
    turn = turns[at]
    if not turn.is_user:
        return False
    if _asks_choice(turn):
        return True
    after = turns[at + 1] if at + 1 < len(turns) else None
    if after is None or after.is_user or turn.size < 5:
        return False
    return bool(_OPTIONS.search(after.view)) and after.size >= 12 and not after.asks


def _asks_choice(turn: Turn) -> bool:
    asks = any(each.asks or _DECIDES.search(each.view) for each in turn.sentences)
    return asks and turn.has(Act.OPEN_CHOICE)


def _closes(turn: Turn, opening: Turn, between: Sequence[Turn], *, works: bool) -> bool:
    """Return whether the user chooses, or agrees to what is then done (`works`)."""
    if _TODAY.search(turn.view):
        return False
    if any(rules.chooses(each) for each in turn.sentences):
        return True
    if turn.size <= _SHORT and not turn.asks:
        options = [opening.view]
        options += [n for t in between if not t.is_user for n in _NAMES.findall(t.text)]
        offered = set(extract_terms(" ".join(options))) - _STOPPED
        for each in turn.sentences:
            if each.is_quoted:
                return False
            if each.size <= _NAMING and offered & set(extract_terms(each.view)):
                return not any(rules.reports(other) for other in turn.sentences)
    return works and turn.size <= _SHORT and turn.sentences[0].has(Act.CONSENT) and not turn.asks


def _weigh_proposal(proposal: Turn, closing: Turn) -> float:
    """Weigh how well a turn of the agent says what was chosen, and why."""
    if _WORK.match(proposal.sentences[0].view):
        return 0.0
    chosen = {term for term in extract_terms(closing.text) if term not in _STOPPED}
    shared = len(chosen & set(extract_terms(proposal.text)))
    weight = min(proposal.size, 60) + 12.0 * shared
    weight += 15.0 * bool(_PROPOSES.search(proposal.view))
    weight += 10.0 * proposal.has(Act.CONTRAST) + 10.0 * proposal.has(Act.EXPLANATION)
    return weight * (0.5 if proposal.asks else 1.0)
