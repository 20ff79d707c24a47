"""Conclusions: what a talk settled. It is often spread over several turns and confirmed by a short
"exactly", so the turn that states it whole is taken."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_memory.features.lessons.model.lessons import Trust
from agent_memory.features.lessons.model.talk import Talk, ToolRun, Turn
from agent_memory.features.toc.model.act_cues import Act
from agent_memory.kernel.text.analysis import extract_terms

_LEAST_TALK = 4  # turns without a tool in which something is settled point by point
_SHORT = 14  # words of a turn that only confirms
_TAKES = re.compile(
    r"^(?:(?:ok(?:ay)?|oh|ah|good|great|right|hm+|sorry|apologies"
    r"|thanks)[,.! \u2014-]+)*(?:got it|understood|agreed"
    r"|right|makes sense|confirmed|exactly|noted|settled|correct|done|clear|so|then|perfect"
    r"|will do"
    r"|that (?:settles|makes)|in short|recap|summary|final)\b"
)
_NORM = re.compile(
    r"\b(?:must|never|always|only|exactly|unless|except|every|no|not|instead|first|then|before"
    r"|at most|at least"
    r"|becomes?|stays?|keeps?|raises?|returns?|rounds?|caps?|counts?|wins?|drops?|matches)\b"
)
_WORK = re.compile(
    r"^(?:(?:ok(?:ay)?|understood|done|got it|right|sorry|fixed|good)[,.!: \u2014-]+)*(?:i(?:'ve"
    r"| have)? (?!d\b)\w+|"
    r"moved|changed|added|fixed|removed|rewritten|rewrote|committed|reverted|written|deleted"
    r"|set\b|all \w+ pass)"
)
_LEADS = re.compile(
    r"^(?:(?:ok(?:ay)?|got it|understood|right|makes sense|confirmed|exactly|noted|agreed|good"
    r"|great|sure|perfect|settled"
    r"|then|so|in short|recap|done|absolutely|i see)\b[,.!:;\u2014\u2013 -]+)+"
)


@dataclass(slots=True, eq=False)
class Settlement:
    turn: Turn  # that states it
    first: int
    last: int
    trust: Trust
    opening: Turn  # the question or the request that led to it
    confirmed: Turn | None = None
    weight: float = 3.0
    also: tuple[Turn, ...] = ()  # turns of which the text has words too


def find_conclusions(talk: Talk) -> list[Settlement]:
    found = [*_find_choices(talk), *_find_recaps(talk)]
    chat = _find_settled_talk(talk)
    if chat is not None and all(each.turn is not chat.turn for each in found):
        found.append(chat)
    best: dict[int, Settlement] = {}
    for each in found:
        known = best.get(each.turn.place)
        if known is None or each.weight > known.weight:
            best[each.turn.place] = each
    return sorted(best.values(), key=lambda each: each.turn.place)


def _find_settled_talk(talk: Talk) -> Settlement | None:
    """Return what a talk without work settled: the last turn of the agent that says how it is to
    be, after the user decided points of it."""
    turns = talk.turns
    if len(turns) < _LEAST_TALK or len(talk.runs) > len(turns):
        return None
    tail = [turn for turn in turns[-4:] if turn.size >= 12]
    decided = [turn for turn in turns if turn.is_user and _settles(turn)]
    if not decided:
        return None
    said = {term for turn in turns if turn.is_user for term in extract_terms(turn.text)}
    for turn in reversed(tail):
        if turn.is_user:
            continue
        opens = turn.sentences[0]
        takes = _TAKES.match(opens.view) or opens.has(Act.RECAP)
        if turn.asks and not takes:
            continue
        own = set(extract_terms(turn.text))
        shared = len(own & said) / (len(own) or 1)
        normative = len(_NORM.findall(turn.view))
        if takes and shared >= 0.4 and normative >= 1 and not turn.has_code:
            confirmed = next((t for t in turns if t.place > turn.place and t.is_user), None)
            return Settlement(
                turn, 0, len(turn.sentences) - 1, Trust.USER, turns[0], confirmed, 5.0
            )
    return None


def _settles(turn: Turn) -> bool:
    """Return whether a turn of the user decides a point: it is no question, and says how it is."""
    said = [each for each in turn.sentences if not each.asks]
    return any(
        _NORM.search(each.view) and (each.size >= 4 or each.has(Act.CONSENT)) for each in said
    )


def _find_recaps(talk: Talk) -> list[Settlement]:
    """Return what the agent sums up as settled, in words such as "Recap:" or "Settled:"."""
    found = []
    for turn in talk.turns:
        if turn.is_user or turn.asks:
            continue
        for place, sentence in enumerate(turn.sentences):
            if sentence.has(Act.RECAP) and not _WORK.match(sentence.view) and turn.size - place > 8:
                words = set(extract_terms(" ".join(s.text for s in turn.sentences[place:])))
                before = [t for t in talk.turns if t.place < turn.place]
                mine = {term for t in before if t.is_user for term in extract_terms(t.text)}
                shared = len(words & mine) / (len(words) or 1)
                settled = any(t.is_user and (_settles(t) or t.has(Act.CONSENT)) for t in before)
                after = next((t for t in talk.turns if t.place > turn.place), None)
                agreed = after is not None and after.is_user and not after.has(Act.OBJECTION)
                if not settled or (shared < 0.25 and not agreed):
                    break
                trust = Trust.USER if shared >= 0.35 or agreed else Trust.AGENT
                opening = _find_opening(before) or turn
                found.append(
                    Settlement(turn, place, len(turn.sentences) - 1, trust, opening, after, 4.0)
                )
                break
    return found


def _find_opening(before: Sequence[Turn]) -> Turn | None:
    """Return the turn of the user that opened what is settled now."""
    users = [turn for turn in before if turn.is_user]
    asked = [turn for turn in users if turn.has(Act.OPEN_CHOICE) and turn.size >= 5]
    return next(iter(asked or users), None)


def _find_choices(talk: Talk) -> list[Settlement]:
    """Return what the user chose after a question or a proposal: their own words if they say it,
    else the proposal they agreed to."""
    found: list[Settlement] = []
    for at, turn in enumerate(talk.turns):
        if not turn.is_user or at == 0:
            continue
        proposal = talk.turns[at - 1]
        if proposal.is_user:
            continue
        opening = _find_open_choice(talk.turns[max(0, at - 12) : at])
        if opening is None:
            continue
        chooses = any(each.has(Act.CHOICE) and not each.asks for each in turn.sentences)
        consents = turn.sentences[0].has(Act.CONSENT) and not turn.asks
        if not (chooses or (consents and turn.size <= _SHORT)):
            continue
        weighed = proposal.has(Act.CONTRAST) or proposal.has(Act.NECESSITY) or proposal.size >= 15
        if chooses and turn.size >= 9:
            found.append(
                Settlement(
                    turn, 0, len(turn.sentences) - 1, Trust.USER, opening, None, 3.5, (proposal,)
                )
            )
        elif weighed and _offers(proposal):
            found.append(
                Settlement(proposal, 0, len(proposal.sentences) - 1, Trust.USER, opening, turn, 3.2)
            )
    return found


def _find_open_choice(turns: Sequence[Turn]) -> Turn | None:
    """Return the first of these turns in which the user asks what to choose."""
    for turn in turns:
        if turn.is_user and any(
            each.has(Act.OPEN_CHOICE)
            and (each.asks or "settle" in each.view or "decide" in each.view)
            for each in turn.sentences
        ):
            return turn
    return None


def _offers(proposal: Turn) -> bool:
    """Return whether the agent proposes one of several ways, with reasons."""
    reasons = proposal.has(Act.EXPLANATION) or proposal.has(Act.CONTRAST) or proposal.size >= 25
    return reasons and not _WORK.match(proposal.sentences[0].view)


def find_start(turn: Turn, first: int) -> int:
    """Return how many characters of the first sentence lead up to what it says: "Got it - "."""
    text = turn.sentences[first].text
    lead = _LEADS.match(turn.sentences[first].view)
    return lead.end() if lead and len(text) - lead.end() > 20 else 0


def is_work(run: ToolRun) -> bool:
    return bool(run.command or run.file)
