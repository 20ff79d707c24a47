"""Speech acts: what a sentence of an agent does, such as report, decide, find out or narrate.

Only outcomes become bullets above a segment. Narration ("Let me check the tests") becomes none at
all. The rules are for English; a sentence in another language is a plain note.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_memory.features.toc.model.highlights import HighlightKind

MOST_CHARS = 600  # of a sentence are read


def _any_of(phrases: str) -> str:
    """Return a pattern for phrases that are separated by bars; a blank stands for any space."""
    parts = [" ".join(phrase.split()) for phrase in phrases.split("|")]
    joined = "|".join(part.replace("'", "['\u2019]").replace(" ", r"\s+") for part in parts)
    return rf"(?:{joined})"


def _find_words(phrases: str) -> re.Pattern[str]:
    return re.compile(rf"\b{_any_of(phrases)}\b", re.IGNORECASE)


class _Cue:
    """A pattern that is searched only in texts with one of its words, as most texts have none.

    `words` are separated by blanks. Every text that the pattern matches has one of them.
    """

    def __init__(self, pattern: str | re.Pattern[str], words: str) -> None:
        self.pattern = re.compile(pattern, re.IGNORECASE) if isinstance(pattern, str) else pattern
        self._bit = 1 << len(_CUES)
        _CUES.append(self)
        for word in words.split():
            _BITS[word] = _BITS.get(word, 0) | self._bit

    def is_in(self, text: str, bits: int) -> bool:
        """Return whether the text has it. `bits` come from `_read_bits`."""
        return bool(bits & self._bit) and self.pattern.search(text) is not None

    def may_be_in(self, bits: int) -> bool:
        return bool(bits & self._bit)


_CUES: list[_Cue] = []
_BITS: dict[str, int] = {}  # the cues that a word belongs to
_TOKEN = re.compile(r"[a-z]+")


def _read_bits(words: Iterable[str]) -> int:
    """Return the cues to which these words belong."""
    bits = 0
    for bit in filter(None, map(_BITS.get, words)):
        bits |= bit
    return bits


def _split(text: str) -> list[str]:
    return _TOKEN.findall(text[:MOST_CHARS].lower())


def _list_words(phrases: str) -> str:
    """Return the longest word of each phrase."""
    tokens = (_TOKEN.findall(phrase) for phrase in phrases.split("|"))
    return " ".join(max(each, key=len) for each in tokens if each)


_BASE = """
add adjust allow analyze apply build bump change check claim clean clear close commit compare
compile complete configure confirm continue convert copy create debug define delete deploy do
double-check edit enable ensure examine explore export extract fetch find finish fix format
generate get give go handle implement import improve include inspect install integrate
investigate keep launch list load locate look make mark merge migrate mock modify move
normalize open parse pass patch perform plan port prepare print proceed pull push put read
rebase rebuild record refactor register remove rename render reorder replace replay report
reproduce rerun reset resolve restart restore restructure retry return revert review rewrite
run save scan search see send set setup show simplify skip sort split stage start stop store
strip submit summarize switch sync tag take test tidy trace track trigger try tweak understand
undo uninstall unify update upgrade upload use validate verify view wait walk warn wire work
wrap write
"""
_BASE_VERBS = "|".join(_BASE.split())
_PAST = """
accepted added adopted applied automated bumped centralized changed cleaned closed committed
completed configured converted corrected covered created deleted deployed documented dropped
enabled enriched exposed extended extracted filed finished fixed force-added generated hardened
implemented improved included increased installed integrated introduced landed launched limited
merged migrated moved opened optimized patched ported published pulled pushed rebased rebuilt
redesigned reduced refactored registered released removed renamed reordered reorganized
replaced resolved restored restructured reverted rewired rewritten rewrote rolled scheduled
secured shipped simplified solved split stabilized standardized streamlined switched synced
tagged tightened unified updated upgraded uploaded validated verified wired wrapped wrote
"""
_DONE_VERBS = "|".join(_PAST.split())
_WILL = r"(?:i['\u2019]ll|i\s+will|we['\u2019]ll|let['\u2019]s)\s+"

_OPENING = re.compile(
    r"(?:(?:ok(?:ay)?|good(?: news)?|great|perfect|excellent|nice|alright|right|wait|well|hmm+|ah"
    r"|oh|yes|yep|sure|done|note|also|so|now|and|but|then|finally|indeed|actually|however|confirmed"
    r"|as expected|interesting(?:ly)?|unfortunately|still)(?:\s*[,.!:;\u2014\u2013]+|\s-)\s*"
    r"|(?:so|now|and|but|also)\s+(?=[^a-z]|the|it|this|that|all|we))+",
    re.IGNORECASE,
)
_VERDICT_LABEL = re.compile(r"^(?:agreed|decision|decided)[,:]\s+", re.IGNORECASE)
_SELF = re.compile(
    r"^(?:i|we)(?:['\u2019]ve|\s+have|\s+also|\s+just|\s+now|\s+successfully)*\s+"
    rf"(?=(?:{_DONE_VERBS}|(?!need)\w+ed|ran|made|built|set|found|kept|left|chose)\b(?!\s+to\b))",
    re.IGNORECASE,
)
_DOER = re.compile(  # before a verb of which something else is the subject
    r"(?:^|[,;:\u2014(-]\s*|\b(?:is|are|was|were|been|be|got|has|have|had|i|we|and|now|also|then"
    r"|successfully|just|both)\s+)$",
    re.IGNORECASE,
)
_OBJECT = re.compile(
    r"\s+(?:a|an|the|its|their|his|her|our|my|this|that|these|those|no|every|each|all|\d+)\b",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:,?\s{1,4}(?:so|and|but)\s{1,4}|\s{0,4}[,;\u2014\u2013]\s{0,4}|\s-\s)"
    r"(?:let(?:['\u2019]s|\s+me)\b|i['\u2019]ll\b|i\s+will\b|i\s+(?:need\s+to|should|can|just)\b"
    r"|no\s+action\s+needed).*",
    re.IGNORECASE | re.DOTALL,
)
_IMPERATIVE = re.compile(rf"(?:{_BASE_VERBS})\b(?!\s+(?:is|was|are|were)\b)", re.IGNORECASE)
_PROMISE = re.compile(
    _any_of(
        "let's|let me|let us|i'll|i will|we'll|i'm going to|i am going to|i've|i'd|i have"
        "|i now have|moving on|continuing|starting|beginning|proceeding|looking at|checking"
        "|reading|running"
        "|waiting|here's|here is|here are|time to|before i|before we|before doing|to do|to start"
        "|to begin|feel free|happy to|please|need to|want me|would you|shall i|do you want|thanks"
        "|thank you|sorry|you're right|you're absolutely right|got it|understood|makes sense"
        "|almost done|almost there|one more|one moment|work on|working on"
    )
    + r"\b|(?:now|next|first|then|finally|lastly|second|third)\b[,\s]|still\s+\w+ing\b"
    r"|(?:i|we)\s+(?:(?:still|also|now|just)\s+)?"
    r"(?:need|want|have|should|must|can|could|would|see|understand|plan|intend|notice|know|think)\b",
    re.IGNORECASE,
)
_LATER_PROMISE = re.compile(
    r"(?:^|[\s\u2014\u2013-])"
    r"(?:let(?:['\u2019]s|\s+me)|i['\u2019]ll|i\s+will|i\s+need\s+to|i\s+should)\s+\w+",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    rf"{_WILL}(?:use|keep|go\s+with|stick|avoid|leave|store|prefer)\b.{{12,}}", re.IGNORECASE
)
_WILL_START = re.compile(_WILL, re.IGNORECASE)
_HEDGE = _Cue(
    r"\b(?-i:may)\b|\bappears?\b(?!\s+in)|\b"
    + _any_of(
        "might|maybe|perhaps|probably|likely|possibly|presumably|seems|seem|seemed|looks like"
        "|look like|i think|i believe|i guess|i suspect|should work|should be|should pass"
        "|should fix|should now work|should now be|should now pass|could be|not sure|unclear"
    )
    + r"\b",
    "may appear appears might maybe perhaps probably likely possibly presumably seems seem seemed"
    " looks look think believe guess suspect should could sure unclear",
)
_CORRECTION = _Cue(
    re.compile(
        r"\b(?i:actually|in\s+fact|correction|false\s+alarm|was\s+wrong|misread|mistaken|after\s+all"
        r"|contrary\s+to|scratch\s+that|not\s+the\s+(?:cause|problem|reason|issue)|is\s+not\s+it"
        r"|isn['\u2019]t\s+it|wait,?\s+no|on\s+second\s+thought|rolled\s+back|reverted)\b"
        r"|\bnot\s+(?:the\s+)?[\w.%-]{1,40},\s+(?:but|it|it['\u2019]s)\b"
        r"|\bit['\u2019]s\s+\S{1,40}(?:\s\w{1,40})?,\s+not\b"
        r"|\b(?:IS|ARE|WAS|DOES|DID|NOT|CAN)\b(?=\s+[a-z])"  # written so for emphasis
    ),
    "actually fact correction alarm wrong misread mistaken after contrary scratch not isn wait"
    " second rolled reverted is are was does did can",
)
_STATE = _Cue(
    r"\b(?:all|\d[\d,]*)\s+(?:\S+\s+){0,4}?"
    r"(?:tests?|specs?|examples?|suites?|checks?|doctests|assertions)\b"
    r"|\b(?:\d[\d,]*|no|zero)\s+(?:\w+\s+)?"
    r"(?:failures?|errors?|warnings?|issues|passed|passing|failing)\b"
    r"|\b(?:tests?|suite|build|credo|lint(?:er|ing)?|type.?checks?|mypy|ruff|eslint|clippy|ci"
    r"|compilation)\b[^.]{0,30}\b(?:pass(?:es|ed|ing)?|green|clean|succeed(?:s|ed)?)\b"
    r"|\bclean(?:ly)?\s+(?:compile|build)|compiles?\s+clean"
    r"|\b\d+\s+of\s+\d+\s+(?:\w+\s+)?(?:pass|fail)",
    "test tests spec specs example examples suite suites check checks doctests assertions failure"
    " failures error errors warning warnings issues passed passing failing build credo lint linter"
    " linting mypy ruff eslint clippy ci compilation clean cleanly compile compiles pass fail"
    " typecheck typechecks",
)
_VERDICT = re.compile(
    r"\b(?:pass(?:es|ed|ing)?|green|clean|fail(?:s|ed|ing|ures?)?|succe\w+"
    r"|(?:0|no|zero)\s+(?:\w+\s+)?(?:errors|failures|warnings|issues))\b",
    re.IGNORECASE,
)
_RED = re.compile(
    r"(?<!\b0\s)(?<!\bno\s)(?<!\bzero\s)\b(?:fail(?:s|ed|ing|ures?)?|broken|red|errors?)\b",
    re.IGNORECASE,
)
_NOT_GREEN = re.compile(
    r"\b(?:not|never|cannot|0|zero|no|don['\u2019]t|doesn['\u2019]t|didn['\u2019]t|isn['\u2019]t|aren['\u2019]t)\b"
    r"[^.;]{0,30}\b(?:pass(?:es|ed|ing)?|green|clean|succeed\w*|compiles?|build)\b"
    r"|\b(?:pass(?:es|ed|ing)?|green|clean)\b[^.;]{0,12}\b(?:except|but|only)\b",
    re.IGNORECASE,
)
_TESTS_WRITTEN = re.compile(r"\W*(?:added|wrote|created|new|covered)\b", re.IGNORECASE)
_DONE = _Cue(
    rf"\b(?:{_DONE_VERBS}|done|complete|works?\s+now|is\s+gone|no\s+longer|successfully|in\s+place"
    r"|is\s+live|up\s+and\s+running|down\s+from|instead\s+of\s+\d[\d.,]*"
    r"|now\s+(?:work|support|handle|use|return|have|show|run|is|are)|(?:is|are)\s+now"
    r"|(?<!right\s)now\s+(?!this|its|always|as|sometimes|less)[a-z]+s)\b",
    f"{_PAST} force done complete now gone longer successfully place live running down instead",
)
_NOW = re.compile(r"(?<!right\s)(?<!for\s)(?<!until\s)\bnow[.!]*$", re.IGNORECASE)
_NOT_YET = re.compile(  # before one of them
    r"\b(?:not|never|isn['\u2019]t|wasn['\u2019]t|to|be|must|should|can|cannot|if|when|once|until"
    r"|unless|will|would|already|were|been)\s+(?:yet\s+|be\s+|been\s+|get\s+)?$",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"\b(?:epic|task|feature|milestone|project|issue|ticket|bead|story|sprint|refactor\w*|migration|rewrite"
    r"|redesign|upgrade|rollout"
    r"|release|implementation|everything|work|all(?:\s+(?:\w+\s+){0,3})?"
    r"(?:tasks|subtasks|work|items|steps|children|phases|todos|done))\b"
    r"|^(?:#?\d{1,6}|[A-Za-z]\w{1,20}-(?=[a-z]*\d)[\w.]{1,12})`?\s+is\b",  # an issue
    re.IGNORECASE,
)
_ENDED = _find_words(
    "complete|completed|done|finished|shipped|closed|resolved|merged|pushed|implemented|delivered"
    "|released|deployed|landed"
)
_LONGEST_MILESTONE = 160
_DECISION = _Cue(
    r"\b"
    + _any_of(
        "decided|decision|decide|chose|chosen|opted|settled on|agreed|go with|going with|went with"
        "|prefer|preferred|by design|trade-off|tradeoff|stick with"
        "|sticking with|from now on|must not|must never|must always|always use"
    )
    + rf"\b|{_WILL}(?:use|keep|go|stick|store|avoid)\b"
    r"|^(?:used|designed|picked|structured|modell?ed)\b"
    r"|\brather\s+than\b(?!\s+\d)|\b(?:use[ds]?|using|keep|kept|set|put|take|make|stored?"
    r"|call(?:ed|s)?|writ(?:e|es|ten)|prefer\w*|with|via)\b.{1,80}\binstead\s+of\b(?!\s+\d)",
    "decided decision decide chose chosen opted settled agreed go going went prefer preferred"
    " prefers preferring design trade tradeoff stick sticking from must always ll will let rather"
    " instead used designed picked structured modeled modelled",
)
_NAMED_CAUSE = _find_words("caused by|root cause")
_CAUSE = _Cue(
    r"\b(?:(?:root\s+)?causes?\s+(?:is|was|were|are|of)|turns?\s+out|turned\s+out|discovered"
    r"|caused\s+by|(?:the|a)\s+(?:\w+\s+)?(?:issue|problem|bug|culprit|reason)\s+"
    r"(?:is|was|where|comes|came))\b",
    "cause causes turn turns turned discovered caused issue problem bug culprit reason",
)
_FINDING = _Cue(
    r"\b"
    + _any_of(
        "because|caused by|due to|bug where|bug in|bug that|doesn't|does not|don't|isn't|is not"
        "|aren't|wasn't|can't|cannot|only work|only works|only accept|only accepts|only in|only if"
        "|only when|only support|only supports|require|requires|expect|expects|depend on"
        "|depends on|means|despite|although|even though|was force-added|was never|was missing"
        "|was wrong|was stale|were missing|come from|comes from|goes through|prevent|prevents"
        "|override|overrides|shadow|shadows|conflicts with|learned|lesson|gotcha"
    )
    + r"\b|\bneeds?\b(?!\s+to\s+(?:compile|run|test)\b)"
    r"|\b(?:the|a|only)\s+(?:\w+\s+)?(?:issue|problem|bug|culprit|reason|catch|key|trick|fix"
    r"|conflict|difference|limitation|error|failure)\s+(?:is|was|here|comes|came|lies)\b"
    r"|\bknown\s+(?:\w+\s+){0,2}(?:bug|issue|limitation|conflict)\b"
    r"|\b(?:is|are|was|were)\s+(?:(?:already|actually|still)\s+)?"
    r"(?:tracked|ignored|gitignored|stored|served|built|loaded|called|used|set|defined|cached"
    r"|shared|generated|reported|dropped|lost|skipped|written|read|sent|kept|hard-?coded"
    r"|deprecated|unused|limited|blocked|locked|shadowed|overridden|mapped)\b",
    "because caused due bug doesn does don isn is aren wasn can cannot only require requires expect"
    " expects depend depends means despite although even was were come comes goes prevent prevents"
    " override overrides shadow shadows conflicts learned lesson gotcha need needs known are issue"
    " problem culprit reason catch key trick fix conflict difference limitation error failure",
)
_FAILING = (
    "fail|fails|failed|failing|crashes|crashed|crashing|broken|breaks|is missing|are missing"
    "|not found|undefined|unable|won't|isn't working|does not work|not working|doesn't work"
    "|doesn't compile|doesn't exist|doesn't build|doesn't start|timed out|times out"
    "|refused|denied|rejected|regressed|regression"
)
_BROKEN = _Cue(_find_words(_FAILING), _list_words(_FAILING))
_OPEN = _Cue(
    r"\b"
    + _any_of(
        "todo|remaining|remain|remains|still to|still need|still needs|still open|still missing"
        "|left to do|follow-up|followup|not yet|out of scope|next step|next steps|next task|next up"
        "|deferred|postponed|pending|blocked on|blocked by|for later|future work|known gap"
        "|not done|not implemented|isn't implemented|not tested|not covered|open question|up to you"
        "|your call|your decision|waiting for"
    )
    + r"\b|\byou(?:\s+still|['\u2019]ll)?\s+(?:need|have|should|must|can\s+decide|may\s+want)\b",
    "todo remaining remain remains still left follow followup yet scope next deferred postponed"
    " pending blocked later future known not isn open up your waiting you",
)
_UNCHECKED = re.compile(
    r"(?:i|we)\s+(?:could\s+not|couldn['\u2019]t|did\s+not|didn['\u2019]t|have\s+not|haven['\u2019]t)"
    r"\s+(?:yet\s+)?(?:be\s+able\s+to\s+)?(?:test|tested|verify|verified|run|check|checked|try|tried)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"(?:that|this|it|they|these|those)(?:['\u2019]s)?\b(?!\s+(?:line|file|test))", re.IGNORECASE
)
_NEEDING_SUBJECT = frozenset({HighlightKind.FINISHED, HighlightKind.DONE, HighlightKind.STATE})
_GO_ON = re.compile(
    r"(?:(?:ok(?:ay)?|yes|yep|yeah|sure|great|good|perfect|thanks?|thank\s+you|please|now|and|so"
    r"|alright|cool|nice)[\s,.!]*)*"
    r"(?:(?:go\s+(?:on|ahead)|continue|proceed|carry\s+on|keep\s+going|resume|next|do\s+it|retry"
    r"|try\s+again|again|approved?|lgtm|commit|push|commit\s+and\s+push|merge|run|yes|no|y|n|ok"
    r"|[1-9]|[a-d]|stop|wait|hi|hello|hey|thanks?|done)\b[\s,.!]*"
    r"(?:(?:it|this|that|please|now|with\s+(?:it|that|this)|them|all|everything"
    r"|until\s+(?:all|everything|it)\s+(?:are|is)\s+done"
    r"|(?:with\s+)?the\s+(?:rest|plan|work|next(?:\s+(?:one|step|task|item))?))[\s,.!]*)*)?",
    re.IGNORECASE,
)


_ANNOUNCEMENT = re.compile(
    _any_of(
        "found|i found|i see the|i see why|got it|there it is|that's it|that explains"
        "|that's the problem|here's the problem|here's the issue|the problem|mystery solved"
    )
    + r"\b",
    re.IGNORECASE,
)
_LONGEST_ANNOUNCEMENT = 60


_COMPLAINT = re.compile(
    r"\b(?:still\s+(?:crash|fail|broken|wrong|get|see|happen|not|the\s+same)\w*|(?:does|did)(?:n['\u2019]t|\s+not)"
    r"\s+(?:work|help|fix)|not\s+fixed)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SpeechAct:
    """What a sentence does. `kind` is None for narration, questions and chatter."""

    kind: HighlightKind | None
    corrects: bool = False  # it contradicts something said shortly before


NOTE = SpeechAct(HighlightKind.NOTE)
_SILENT = SpeechAct(None)


def classify(text: str, *, report: bool = False, words: Sequence[str] | None = None) -> SpeechAct:
    """Classify a sentence of an agent. In a `report` an imperative is an item, not narration.

    `words` are those of the text in lower case, letters only, if they are at hand.
    """
    opening = _OPENING.match(text)
    bare = text[opening.end() if opening else 0 : MOST_CHARS].strip(" *`_#\"'")
    bare = _SELF.sub("", bare, count=1)
    if not bare or bare.endswith(("?", "\uff1f")) or (bare.endswith(":") and not report):
        return _SILENT
    if _UNCHECKED.match(bare):
        return SpeechAct(HighlightKind.OPEN)
    if _PROMISE.match(bare):
        return SpeechAct(HighlightKind.DECIDED) if _is_choice(bare) else _SILENT
    if not report and (_IMPERATIVE.match(bare) or _LATER_PROMISE.search(bare)):
        return _SILENT
    # The whole sentence: "Actually," is cut from the words that are classified.
    bits = _read_bits(_split(text) if words is None else words)
    corrects = _CORRECTION.is_in(text[:MOST_CHARS], bits)
    kind = _classify_statement(bare, bits, report)
    if kind in _NEEDING_SUBJECT and _PRONOUN.match(bare):
        kind = HighlightKind.NOTE
    if corrects and kind is HighlightKind.NOTE and not _HEDGE.is_in(bare, bits):
        kind = HighlightKind.FOUND
    return SpeechAct(kind, corrects)


def _classify_statement(text: str, bits: int, report: bool) -> HighlightKind:
    hedged = _HEDGE.is_in(text, bits)
    measured = _STATE.is_in(text, bits) and _VERDICT.search(text) and not hedged
    if measured and not _TESTS_WRITTEN.match(text):
        return HighlightKind.BROKEN if is_red(text) and "because" in text else HighlightKind.STATE
    broken = _BROKEN.is_in(text, bits)
    if broken and not report and not _starts_done(text) and not _NAMED_CAUSE.search(text):
        return HighlightKind.NOTE if hedged else HighlightKind.BROKEN
    done = _is_done(text, bits, broken)
    if done and _WHOLE.search(text) and _ENDED.search(text) and len(text) < _LONGEST_MILESTONE:
        return HighlightKind.FINISHED
    if hedged:
        return HighlightKind.NOTE
    if _CAUSE.is_in(text, bits) and not _starts_done(text):
        return HighlightKind.FOUND
    if (report or not done) and _OPEN.is_in(text, bits):
        return HighlightKind.OPEN
    if _DECISION.is_in(text, bits):
        return HighlightKind.DECIDED
    if done:
        return HighlightKind.DONE
    if broken:
        return HighlightKind.BROKEN
    if _FINDING.is_in(text, bits):
        return HighlightKind.FOUND
    return HighlightKind.PLANNED if report and _IMPERATIVE.match(text) else HighlightKind.NOTE


def _starts_done(text: str) -> bool:
    return _DONE.pattern.match(text) is not None


def _is_done(text: str, bits: int, broken: bool) -> bool:
    """Return whether a sentence says that something was done.

    It does not if it is to be done, nor if something else did it: "The scanner opened a file".
    """
    if not _DONE.may_be_in(bits):
        return False
    if not broken and _NOW.search(text):
        return True
    for match in _DONE.pattern.finditer(text):
        start, end = match.span()
        if _NOT_YET.search(text, max(0, start - 16), start):
            continue
        is_past = not match[0].lower().startswith(("now", "is", "are"))
        if (
            is_past
            and _OBJECT.match(text, end)
            and not _DOER.search(text, max(0, start - 16), start)
        ):
            continue
        return True
    return False


def announces_finding(text: str) -> bool:
    """Return whether a short sentence announces what the next one says: "Found it."."""
    return len(text) < _LONGEST_ANNOUNCEMENT and bool(_ANNOUNCEMENT.match(text))


def is_decision(text: str, words: Sequence[str]) -> bool:
    """Return whether a sentence decides something. `words` are as for `classify`."""
    if not _DECISION.is_in(text[:MOST_CHARS], _read_bits(words)):
        return False
    return classify(text, report=True, words=words).kind is HighlightKind.DECIDED


def is_hedged(text: str) -> bool:
    """Return whether a sentence only supposes something."""
    return _HEDGE.is_in(text[:MOST_CHARS], _read_bits(_split(text)))


def is_correction(text: str, words: Sequence[str] | None = None) -> bool:
    """Return whether a sentence contradicts something that was said before it."""
    bits = _read_bits(_split(text) if words is None else words)
    return _CORRECTION.is_in(text[:MOST_CHARS], bits)


def is_complaint(prompt: str) -> bool:
    """Return whether a user says that something does not work."""
    return bool(_COMPLAINT.search(prompt[:MOST_CHARS]))


def is_red(text: str) -> bool:
    """Return whether a measured state is a failure, or success is denied or limited."""
    return bool(_RED.search(text) or _NOT_GREEN.search(text))


def is_go_on(prompt: str) -> bool:
    """Return whether a prompt asks for nothing new, such as "yes" or "continue until done"."""
    return bool(_GO_ON.fullmatch(prompt.strip()[:MOST_CHARS]))


def lacks_subject(text: str) -> bool:
    """Return whether a sentence begins with a pronoun, so that it says little alone."""
    opening = _OPENING.match(text)
    return bool(_PRONOUN.match(text, opening.end() if opening else 0))


def tidy_sentence(text: str) -> str:
    """Return a sentence without "Good," or "I have" at its start and "let me ..." at its end."""
    opening = _OPENING.match(text)
    rest = _VERDICT_LABEL.sub("", text[opening.end() :] if opening else text, count=1)
    if len(rest.split()) < 3:
        rest = text
    rest = _SELF.sub("", rest, count=1)
    if _is_choice(rest):
        rest = _WILL_START.sub("", rest, count=1)
    shorter = _TAIL.sub("", rest)
    if len(shorter.split()) >= 4:
        rest = shorter
    word = rest.partition(" ")[0]
    return rest[:1].upper() + rest[1:] if word.isalpha() and word.islower() else rest


def _is_choice(text: str) -> bool:
    return bool(_CHOICE.match(text)) and not _LATER_PROMISE.search(text, 6)
