"""Intents: questions about a time, the last work, what is open, or one kind of memory.

Only plain English forms are read, and only if nothing else is asked. "What did we do yesterday"
asks for an overview. "Why did the release fail yesterday" is about a release: ranking answers it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from agent_memory.features.index.model.documents import Document, DocumentKind
from agent_memory.features.index.model.queries import Hit, SearchScope
from agent_memory.kernel.text import time_expressions
from agent_memory.kernel.text.time_expressions import TimeWindow

MAX_CHARS = 200  # a longer text is no plain question
BLOCKERS = "blockers"
ACTIVE = frozenset({"active"})
TOP_SCORE, LOWEST_SCORE = 0.9, 0.3  # of what answers an intent, in order
KIND_SHARE = 0.5  # share of the best score from which a memory of the kind asked for comes first


class IntentKind(StrEnum):
    OVERVIEW = "overview"  # what was done in a time
    LAST = "last"  # what was done last
    OPEN = "open"  # blockers that are not resolved
    KIND = "kind"  # memories of one namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    kind: IntentKind
    windows: tuple[TimeWindow, ...] = ()
    first: bool = False  # the earliest comes first
    finished: bool = False  # what was completed counts
    namespace: str = ""
    topic: bool = False  # the question also has words to rank by


_NAMESPACES: Mapping[str, str] = {
    "decision": "decisions", "decisions": "decisions", "decide": "decisions",
    "decided": "decisions", "agree": "decisions", "agreed": "decisions",
    "learning": "learnings", "learnings": "learnings", "lesson": "learnings",
    "lessons": "learnings", "learn": "learnings", "learned": "learnings", "learnt": "learnings",
    "blocker": BLOCKERS, "blockers": BLOCKERS, "block": BLOCKERS, "blocks": BLOCKERS,
    "blocking": BLOCKERS, "blocked": BLOCKERS,
    "review": "reviews", "reviews": "reviews", "pattern": "patterns", "patterns": "patterns",
    "retrospective": "retrospective", "retrospectives": "retrospective",
}  # fmt: skip
_WHO = r"(?:we|i|you|us)"
_NOUNS = "decisions|learnings|lessons|blockers|reviews|patterns|retrospectives"
_ASKED_KINDS = (
    re.compile(
        r"(?:which|what|any|some|all|our|my|list|show|find|give|recent|latest|last|open|the)"
        rf" (?:\w+ )?({_NOUNS})\b"
    ),
    re.compile(
        rf"^({_NOUNS})(?:$| (?:about|on|for|from|regarding|concerning|around|with|in|of|since)\b)"
    ),
    re.compile(r"^(?:which|what) (decision|lesson|pattern)\b"),
    re.compile(
        rf"^what (?:did|have|had|has|was|were|do) (?:{_WHO} )?(?:already )?(?:been )?"
        r"(decide|decided|agree|agreed|learn|learned|learnt)\b"
    ),
    re.compile(r"^what (?:is |was |are )?(?:still |currently |now )?(blocks|blocking|blocked)\b"),
    re.compile(rf"^what (?:are|am|is|was|were) {_WHO} (blocked)\b"),
)
_OPEN = re.compile(
    r"\b(?:blockers?|stuck|waiting (?:for|on)|block(?:s|ed|ing))\b"
    r"|^what (?:is|are|remains|stays) (?:still )?(?:open|unresolved|outstanding|pending)\b"
    r"|\b(?:open|unresolved|outstanding|pending|unsolved)"
    r" (?:issues?|problems?|points?|questions?|items?|things?|tasks?)\b"
    r"|\bstill (?:open|unresolved|outstanding|pending)\b"
)
_LAST = re.compile(
    rf"\bwhere (?:did|had|have) {_WHO} (?:leave|left|stop|stopped|end|pause|paused|get|got)\b"
    rf"|\bwhere (?:were|was|are|am) {_WHO}\b"
    r"|\b(?:leave|left) off\b"
    rf"|\bwhat (?:were|was|have|had|are|am) {_WHO} (?:just |last |currently |recently )*"
    r"(?:been )?(?:working on|doing|up to|at)\b"
    r"|\bwhat (?:did|have|had|was|were) .*\b(?:last|lately|recently|latest|previously|so far)$"
    rf"|\bwhat did {_WHO} (?:last|just|recently) "
    r"|\bthe (?:last|latest|most recent) (?:thing|task|work|piece of work|job)\b"
    r"|\b(?:last|latest|previous|most recent) (?:time|sessions?|conversation|chat)\b"
    r"|\bwhat is (?:the latest|new)$"
    r"|\b(?:catch me up|bring me up to (?:speed|date))\b"
)
_FIRST = re.compile(r"\b(?:first|earliest)\b|\b(?:begin|began|start|started) with\b")
_FINISHED = re.compile(
    r"\b(?:finish(?:ed)?|complet(?:e|ed)|accomplish(?:ed)?|achieved?|deliver(?:ed)?|ship(?:ped)?"
    r"|closed?|done)\b"
)
# Not about what was: plans and what is missing, reasons, persons, amounts.
_OTHER = re.compile(
    r"\b(?:why|who|whom|whose|when|will|shall|should|must|need|needs|tomorrow|next|not|never|without"
    r"|plan|plans|todo|\w+n't)\b|\b(?:have|has|had|want|going|ought|left) to\b"
    r"|\bhow (?:many|much|long|often|far)\b"
)
# What may stand in a question about a time, besides the time itself.
_GENERIC_WORDS = """
a about accomplish accomplished achieve achieved activities activity add added afternoon agent all
am an and any anything are as assistant at be been before began begin being brief briefly bring
build built busy can catch change changed chat close closed complete completed continue conversation
conversations could cover covered create created currently date day deliver delivered did discuss
discussed do does doing done during earlier earliest early end ended epic epics evening event events
everything exactly far feature features finish finished first fix fixed focus for from gave get
getting give go going got gotten had happen happened happening happens has have highlight highlights
history how i implement implemented in is issue issues it job jobs just keep kept last late lately
latest leave left list made main mainly make me morning most mostly my new night now of off on other
our out over overall overview pause paused pick piece please previous previously progress project
quick quickly recap recent recently remember remind report result results resume said say session
sessions ship shipped short show so some something speed spoke start started status still stop
stopped stuff sum summaries summarise summarize summary talk talked task tasks tell that the then
there thing things through ticket tickets time to together topic topics up us was we week went were
what where which with work worked working works would you your
"""
_OPEN_WORDS = """
anyone block blocked blocker blockers blocking blocks current everyone issue issues item items
moment open outstanding pending point points problem problems question questions remain remaining
remains right stay stays stuck team unresolved unsolved wait waiting
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
_GENERIC_OPEN = _GENERIC | frozenset(_OPEN_WORDS.split())
_WORD = re.compile(r"[^\W_]+(?:['\u2019]\w+)?")
_SHORT = {"'s": " is", "'re": " are", "'ve": " have", "'m": " am", "'d": " did", "'ll": " will"}


def read_intent(question: str, windows: Sequence[TimeWindow] = ()) -> Intent | None:
    """Return what a question asks for besides its words, or None for an ordinary question.

    `windows` are the times that it names.
    """
    if len(question) > MAX_CHARS:
        return None
    said = " ".join(_read_words(time_expressions.remove_windows(question, windows)))
    words = said.split()
    if bool(_OPEN.search(said)) and _GENERIC_OPEN.issuperset(words) and not _OTHER.search(said):
        return Intent(kind=IntentKind.OPEN, namespace=BLOCKERS)
    if namespace := _find_namespace(said):
        rest = [word for word in words if word not in _GENERIC and word not in _NAMESPACES]
        return Intent(
            kind=IntentKind.KIND, windows=tuple(windows), namespace=namespace, topic=bool(rest)
        )
    if _OTHER.search(said) or not _GENERIC.issuperset(words):
        return None
    if windows:
        return Intent(
            kind=IntentKind.OVERVIEW,
            windows=tuple(windows),
            first=bool(_FIRST.search(said)),
            finished=bool(_FINISHED.search(said)),
        )
    if _LAST.search(said):
        return Intent(kind=IntentKind.LAST, finished=bool(_FINISHED.search(said)))
    return None


def narrow_to_kind(intent: Intent | None, scope: SearchScope) -> Iterator[SearchScope]:
    """Yield the scope of the memories that the question asks for, none if they are out of scope.

    The question may name several times. Without a status in the scope, open ones are active.
    """
    memory = DocumentKind.MEMORY
    if intent is None or not intent.namespace or (scope.kinds and memory not in scope.kinds):
        return
    if scope.namespace not in ("", intent.namespace):
        return
    statuses = scope.statuses or (ACTIVE if intent.kind is IntentKind.OPEN else frozenset())
    narrowed = replace(
        scope, kinds=frozenset({memory}), namespace=intent.namespace, statuses=statuses
    )
    for window in () if intent.topic else intent.windows:
        since, until = window.ranges[-1]
        if max(since, scope.since) <= min(until, scope.until):
            yield replace(narrowed, since=max(since, scope.since), until=min(until, scope.until))
    if intent.topic or not intent.windows:
        yield narrowed


def score_answers(documents: Sequence[Document]) -> list[Hit]:
    """Return the answers to an intent, which fall in score as they come."""
    known = {document.key: document for document in documents}
    step = (TOP_SCORE - LOWEST_SCORE) / max(1, len(known) - 1)
    return [
        Hit(
            document=document,
            score=TOP_SCORE - step * place,
            parts={"time": 1.0},
            node_id=document.id if document.kind is DocumentKind.SEGMENT else "",
        )
        for place, document in enumerate(known.values())
    ]


def prefer_kind(intent: Intent, ranked: Sequence[Hit]) -> list[Hit]:
    """Put the hits of the kind that the question names first, unless they are much weaker."""
    best = max((hit.score for hit in ranked), default=0.0)
    preferred = [
        replace(hit, score=best)
        for hit in ranked
        if intent.namespace
        and hit.document.namespace == intent.namespace
        and hit.score >= KIND_SHARE * best
    ]
    known = {hit.document.key for hit in preferred}
    return [*preferred, *(hit for hit in ranked if hit.document.key not in known)]


def _read_words(text: str) -> Iterator[str]:
    """Yield the words in small letters, with short forms such as "what's" written out."""
    for word in _WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        stem, mark, ending = word.partition("'")
        yield stem + _SHORT[mark + ending] if mark + ending in _SHORT else word


def _find_namespace(said: str) -> str:
    for form in _ASKED_KINDS:
        if match := form.search(said):
            return _NAMESPACES[match[1]]
    return ""
