"""Whether a highlight of an earlier session still stands, and is the session's own."""

import re
from collections.abc import Iterable, Iterator, Sequence

from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.highlights import Highlight, HighlightKind
from agent_memory.features.toc.model.last_words import SessionHighlights, stems

SETTLED = 0.5  # share of the terms of what was open in something done later
_LEAST_COMMON = 3  # terms
_UNSOLVED = frozenset({HighlightKind.OPEN, HighlightKind.BROKEN})
_SETTLING = frozenset({HighlightKind.DONE, HighlightKind.STATE, HighlightKind.FINISHED})
_WORKS = r"(?:pass(?:es)?|works?|succeeds?|builds?|compiles?|starts?|(?:is|are) (?:green|fixed))"
_WORKS_NOW = re.compile(
    rf"\bnow(?: all| they| it)? {_WORKS}\b"
    rf"|\b{_WORKS} (?:now|again)\b"
    rf"|[;,] after [^;]{{1,80}}?,? (?:it|they|all(?: \d+)?(?: \w+)? tests?) (?:now )?{_WORKS}\b",
    re.IGNORECASE,
)
_NOT_SURE = re.compile(
    r"\b(?:should|would|will|could|might|may|must|until|once|if|when|unless|not|never|cannot"
    r"|hope|expect\w*|supposed|need\w*)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_LIMITED = re.compile(r"\b(?:but|except|only|still|though|however|locally)\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[;:.] (?!.*[;:.] )|\A", re.DOTALL)
_SOURCE = (
    r"(?:\w+[ -]){0,2}(?:page|article|site|website|post|blog|docs?|documentation|manual|guide"
    r"|readme(?:\.md)?|wiki|e?-?mail|ticket|issue|comment|thread|answer)"
)
_SAYS = r"(?:says?|said|states?|stated|reads?|claims?|tells?|told|recommends?|suggests?|instructs?)"
_FOREIGN = re.compile(rf"\W*(?:the|this|that|its|their|a|an) {_SOURCE} {_SAYS}\b", re.IGNORECASE)
_ACCORDING = re.compile(
    rf"\W*(?:according to|as per|quot(?:e|ing|ed)(?: from)?) (?:the|this|that|its|their|a|an)"
    rf" {_SOURCE}\b",
    re.IGNORECASE,
)


def keep_standing(stories: Sequence[SessionHighlights]) -> Iterator[SessionHighlights]:
    """Yield the sessions that still have something to say, without the failures and open ends that
    are settled, and without what others said."""
    everything = [each for story in stories for each in _list_all(story)]
    for story in stories:
        lead = story.lead
        if lead is not None and not _still_holds(lead, everything):
            lead = None
        rest = [each for each in story.rest if _still_holds(each, everything)]
        if lead is not None or rest:
            yield SessionHighlights(story.session, story.project, lead, rest)


def works_now(text: str) -> bool:
    """Return whether a text about a failure says itself that it is mended."""
    found = _WORKS_NOW.search(text)
    if found is None:
        return False
    begin = max((each.end() for each in _CLAUSE.finditer(text[: found.start()])), default=0)
    rest = text[found.end() :]
    return (
        _NOT_SURE.search(text[begin : found.end()]) is None
        and _LIMITED.search(rest) is None
        and not speech_acts.is_red(rest)
    )


def is_foreign(text: str, kind: HighlightKind) -> bool:
    """Return whether a highlight retells what somebody else wrote. A request "according to the
    manual" is the user's own."""
    if _FOREIGN.match(text) is not None:
        return True
    return kind is not HighlightKind.ASKED and _ACCORDING.match(text) is not None


def _still_holds(highlight: Highlight, everything: Iterable[Highlight]) -> bool:
    if is_foreign(highlight.text, highlight.kind):
        return False
    return highlight.kind not in _UNSOLVED or not (
        works_now(highlight.text) or any(_settles(each, highlight) for each in everything)
    )


def _settles(later: Highlight, unsolved: Highlight) -> bool:
    """Return whether something done in a later session has the words of what was unsolved."""
    if (
        later.kind not in _SETTLING
        or later.at_ms <= unsolved.at_ms
        or later.session == unsolved.session
        or later.project != unsolved.project
        or speech_acts.is_red(later.text)
    ):
        return False
    terms = stems(unsolved.text)
    common = len(terms & stems(later.text))
    return common >= _LEAST_COMMON and common >= SETTLED * len(terms)


def _list_all(story: SessionHighlights) -> Sequence[Highlight]:
    return [*([] if story.lead is None else [story.lead]), *story.rest]
