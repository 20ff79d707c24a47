"""Speech acts: what a sentence does, such as report, decide, find out or narrate.

`classify` returns the outcome that a sentence of an agent states. Narration ("Let me check the
tests") states none. `find_acts` returns the phrases by which anybody decides, rules or finds out
something, and where they are. The rules are for English; a sentence in another language is a note.
"""

import re
from dataclasses import dataclass

from agent_memory.features.log.model.events import EventRole
from agent_memory.features.toc.model.act_cues import (
    DONE_VERBS,
    HEDGE,
    MENTIONS,
    PHRASES,
    WILL,
    Act,
    Phrase,
)
from agent_memory.features.toc.model.highlights import HighlightKind
from agent_memory.kernel.text.cues import Cue
from agent_memory.kernel.text.sentences import mask_quotations

MOST_CHARS = 600  # of a sentence are read

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
_OPENING = Cue(
    r"(?:(?:ok(?:ay)?|good(?: news)?|great|perfect|excellent|nice|alright|right|wait|well|hmm+|ah"
    r"|oh|yes|yep|sure|done|note|also|so|now|and|but|then|finally|indeed|actually|however|confirmed"
    r"|as expected|interesting(?:ly)?|unfortunately|still)(?: ?[,.!:;\u2014\u2013]+| -) ?"
    r"|(?:so|now|and|but|also) (?=[^a-z]|the|it|this|that|all|we))+"
)
_VERDICT_LABEL = Cue(r"(?:agreed|decision|decided)[,:] ")
_SELF = Cue(
    r"(?:i|we)(?:'ve| have| also| just| now| successfully)* "
    rf"(?=(?:{DONE_VERBS}|(?!need)\w+ed|ran|made|built|set|found|kept|left|chose)\b(?! to\b))"
)
_DOER = Cue(  # before a verb of which something else is the subject
    r"(?:^|[,;:\u2014(-] ?|\b(?:is|are|was|were|been|be|got|has|have|had|i|we|and|now|also|then"
    r"|successfully|just|both) )$"
)
_OBJECT = Cue(
    r" (?:a|an|the|its|their|his|her|our|my|this|that|these|those|no|every|each|all|\d+)\b"
)
_TAIL = Cue(
    r"(?:,? (?:so|and|but) | ?[,;\u2014\u2013] ?| - )"
    r"(?:let(?:'s| me)\b|i'll\b|i will\b|i (?:need to|should|can|just)\b|no action needed)"
)
_IMPERATIVE = Cue(rf"(?:{'|'.join(_BASE.split())})\b(?! (?:is|was|are|were)\b)")
_PROMISE = Cue(
    r"(?:let's|let me|let us|i'll|i will|we'll|i'm going to|i am going to|i've|i'd|i have"
    r"|moving on|continuing|starting|beginning|proceeding|looking at|checking|reading|running"
    r"|waiting|here's|here is|here are|time to|before i|before we|before doing|to do|to start"
    r"|to begin|feel free|happy to|please|need to|want me|would you|shall i|do you want|thanks"
    r"|thank you|sorry|you're right|you're absolutely right|got it|understood|makes sense"
    r"|almost done|almost there|one more|one moment|work on|working on)\b"
    r"|(?:now|next|first|then|finally|lastly|second|third)\b[, ]|still \w+ing\b"
    r"|(?:i|we) (?:(?:still|also|now|just) )?"
    r"(?:need|want|have|should|must|can|could|would|see|understand|plan|intend|notice|know|think)\b"
)
_LATER_PROMISE = Cue(r"(?:^|[ \u2014\u2013-])(?:let(?:'s| me)|i'll|i will|i need to|i should) \w+")
_CHOICE = Cue(rf"{WILL}(?:use|keep|go with|stick|avoid|leave|store|prefer)\b.{{12,}}")
_WILL_START = Cue(WILL)
_VERDICT = Cue(
    r"\b(?:pass(?:es|ed|ing)?|green|clean|fail(?:s|ed|ing|ures?)?|succe\w+"
    r"|(?:0|no|zero) (?:\w+ )?(?:errors|failures|warnings|issues))\b"
)
_RED = Cue(
    r"(?<!\b0 )(?<!\bno )(?<!\bzero )\b(?:fail(?:s|ed|ing|ures?)?|broken|red|errors?)\b"
    r"|\b(?:not|never|cannot|0|zero|no|don't|doesn't|didn't|isn't|aren't)\b"
    r"[^.;]{0,30}\b(?:pass(?:es|ed|ing)?|green|clean|succeed\w*|compiles?|build)\b"
    r"|\b(?:pass(?:es|ed|ing)?|green|clean)\b[^.;]{0,12}\b(?:except|but|only)\b"
)
_TESTS_WRITTEN = Cue(r"\W*(?:added|wrote|created|new|covered)\b")
_NOW = Cue(r"(?<!right )(?<!for )(?<!until )\bnow[.!]*$")
_NOT_YET = Cue(  # before a deed
    r"\b(?:not|never|isn't|wasn't|to|be|must|should|can|cannot|if|when|once|until|unless|will|would"
    r"|already|were|been) (?:yet |be |been |get )?$"
)
_WHOLE = Cue(
    r"\b(?:epic|task|feature|milestone|project|issue|ticket|bead|story|sprint|refactor\w*|migration"
    r"|rewrite|redesign|upgrade|rollout|release|implementation|everything|work"
    r"|all(?: (?:\w+ ){0,3})?(?:tasks|subtasks|work|items|steps|children|phases|todos|done))\b"
    r"|^(?:#?\d{1,6}|[A-Za-z]\w{1,20}-(?=[a-z]*\d)[\w.]{1,12})`? is\b"  # an issue
)
_ENDED = Cue(
    r"\b(?:complete|completed|done|finished|shipped|closed|resolved|merged|pushed|implemented"
    r"|delivered|released|deployed|landed)\b"
)
_LONGEST_MILESTONE = 160
_NAMED_CAUSE = Cue(r"\b(?:caused by|root cause)\b")
_UNCHECKED = Cue(
    r"(?:i|we) (?:could not|couldn't|did not|didn't|have not|haven't) (?:yet )?(?:be able to )?"
    r"(?:test|tested|verify|verified|run|check|checked|try|tried)\b"
)
_PRONOUN = Cue(r"(?:that|this|it|they|these|those)(?:'s)?\b(?! (?:line|file|test))")
_NEEDING_SUBJECT = frozenset({HighlightKind.FINISHED, HighlightKind.DONE, HighlightKind.STATE})
_GO_ON = Cue(
    r"(?:(?:ok(?:ay)?|yes|yep|yeah|sure|great|good|perfect|thanks?|thank you|please|now|and|so"
    r"|alright|cool|nice)[ ,.!]*)*"
    r"(?:(?:go (?:on|ahead)|continue|proceed|carry on|keep going|resume|next|do it|retry"
    r"|try again|again|approved?|lgtm|commit|push|commit and push|merge|run|yes|no|y|n|ok"
    r"|[1-9]|[a-d]|stop|wait|hi|hello|hey|thanks?|done)\b[ ,.!]*"
    r"(?:(?:it|this|that|please|now|with (?:it|that|this)|them|all|everything"
    r"|until (?:all|everything|it) (?:are|is) done"
    r"|(?:with )?the (?:rest|plan|work|next(?: (?:one|step|task|item))?))[ ,.!]*)*)?"
)
_ANNOUNCEMENT = Cue(
    r"(?:found|i found|i see the|i see why|got it|there it is|that's it|that explains"
    r"|that's the problem|here's the problem|here's the issue|the problem|mystery solved)\b"
)
_LONGEST_ANNOUNCEMENT = 60

_FILLER = Cue(
    r"(?:(?:ok(?:ay)?|so|yes|yep|yeah|and|but|also|actually|btw|by the way|hmm|oh|i think|please"
    r"|fyi)\b(?:[,.:!]| -)? "
    r"|(?:well|right|great|good|cool|fine|alright|then|now|ah|sure|agreed|perfect|thanks|in the end"
    r"|after all|finally|again|no|nope|hi|hey|anyway|basically|however|therefore|hence|thus)"
    r"(?:[,.:!]| -) )*+"
)
_SUPPOSED = Cue(
    r"\b(?:if|unless|whether|suppose|supposing|assum(?:e|ing)|imagine|pretend|hypothetically"
    r"|in case|let's say|lets say|for example|for instance)\b|\be\.g\."
)
_SUPPOSED_BY_THE_LAST = Cue(
    r"(?:\b(?:after|before|once|when|whenever|until|till|as|like|than|while|since|what|which|why|how"
    r"|who|where|should|could|would|might|may|did|do|does|have|had)"
    r"|\b(?:what|which|why|how|where|when|did|do) [\w']{1,30}"
    r"|(?:\b(?:not|never|cannot|nobody|without)|n't)(?: [\w']{1,30}){0,3}) ?\Z"
)
_DOUBT = Cue(
    r"\b(?:maybe|perhaps|possibly|probably|might|i guess|i wonder|wondering|tentatively|for now)\b"
)
_CONTRAST = Cue(r"\b(?:instead of|rather than|over|not)\b")
_CONDITION = Cue(r"\b(?:if|unless|depending on|assuming)\b")
_QUESTION = Cue(
    r"(?:(?:should|shall|could|can|may|might|must|would|will|do|does|did|is|are|was|were|has|have|had"
    r"|isn't|aren't|don't|didn't|doesn't|shouldn't|couldn't|can't|won't|wouldn't|haven't) "
    r"(?:we|i|you|it|they|he|she|this|that|these|those|there|the|our|my|your|anyone|someone)\b"
    r"|(?:what|why|how|which|who|whose|where|when)(?:'s|'re|'d)? "
    r"(?:\w+ )?(?:is|are|was|were|do|does|did|should|would|could|can|will|has|have|had|about|if|to"
    r"|the)\b|what's\b|how come\b|any idea\b)"
)
_WORD = re.compile(r"\w")
_DOUBTED, _CONDITIONAL = -0.15, -0.12
_CONTRASTED = 0.08  # "use X" may be a step of a task; "use X instead of Y" is a choice
_SURE = 0.7  # a decision that no contrast makes surer
AFTER_END = " )*_\"'"  # may stand after the end of a sentence


@dataclass(frozen=True, slots=True)
class SpeechAct:
    """What a sentence does. `kind` is None for narration, questions and chatter."""

    kind: HighlightKind | None
    corrects: bool = False  # it contradicts something said shortly before


@dataclass(frozen=True, slots=True)
class StatedAct:
    """An act with its phrase, from `start` to `end`. Its statement begins at `says`, or is the next
    sentence if this one only `announces` it: "Lesson learned."."""

    act: Act
    confidence: float
    start: int
    end: int
    says: int
    announces: bool


NOTE = SpeechAct(HighlightKind.NOTE)
_SILENT = SpeechAct(None)


def find_acts(text: str, role: EventRole) -> list[StatedAct]:
    """Return the acts that phrases of a sentence on one line state, in the order of the table.

    Questions and suppositions state none, nor does the narration of an agent.
    """
    view = mask_quotations(text)
    lower = view.lower()
    begin = _skip_filler(view)
    rest = view[begin:]
    found = [
        (phrase, match)
        for phrase in PHRASES
        if (match := phrase.cue.search(rest, lower)) is not None
    ]
    if not found or view.rstrip(AFTER_END).endswith("?") or _QUESTION.pattern.match(rest):
        return []
    if role is EventRole.ASSISTANT and classify(text).kind is None:
        return []
    acts = (_judge(phrase, match, view, begin) for phrase, match in found)
    return [act for act in acts if act is not None]


def find_statement(view: str, start: int, end: int) -> int:
    """Return where the statement of a marked sentence begins: after filler words and a phrase
    such as "We decided to"."""
    start = _skip_filler(view, start)
    sentence = view[start:end]
    lower = sentence.lower()
    for phrase in PHRASES:
        lead = phrase.cue.search(sentence, lower) if phrase.says else None
        if lead is not None and not lead.start() and _WORD.search(sentence, lead.end("say")):
            return start + lead.end("say")
    return start


def _skip_filler(view: str, start: int = 0) -> int:
    while start < len(view) and view[start].isspace():
        start += 1
    return _skip(_FILLER, view, start)


def _judge(phrase: Phrase, match: re.Match[str], view: str, begin: int) -> StatedAct | None:
    start, end = begin + match.start(), begin + match.end()
    if _SUPPOSED.pattern.search(view, 0, start):
        return None
    if _SUPPOSED_BY_THE_LAST.pattern.search(view[max(0, start - 200) : start]):
        return None
    confidence = phrase.confidence
    if _DOUBT.pattern.search(view, 0, end):
        confidence += _DOUBTED
    elif _CONDITION.pattern.search(view, end):
        confidence += _CONDITIONAL
    weak = phrase.act is Act.DECISION and phrase.confidence < _SURE
    if weak and _CONTRAST.pattern.search(view, end):
        confidence += _CONTRASTED
    says = begin + match.end("say") if phrase.says else begin
    announces = phrase.says and not _WORD.search(view, end)
    return StatedAct(phrase.act, confidence, start, end, says, announces)


def classify(text: str, *, report: bool = False) -> SpeechAct:
    """Classify a sentence of an agent. In a `report` an imperative is an item, not narration."""
    plain = _read(text)
    bare = plain[_skip(_OPENING, plain) :].strip(" *`_#\"'")
    bare = bare[_skip(_SELF, bare) :]
    if not bare or bare.endswith(("?", "\uff1f")) or (bare.endswith(":") and not report):
        return _SILENT
    if _UNCHECKED.pattern.match(bare):
        return SpeechAct(HighlightKind.OPEN)
    if _PROMISE.pattern.match(bare):
        return SpeechAct(HighlightKind.DECIDED) if _is_choice(bare) else _SILENT
    if not report and (_IMPERATIVE.pattern.match(bare) or _LATER_PROMISE.pattern.search(bare)):
        return _SILENT
    corrects = is_correction(plain)  # "Actually," is cut from the words that are classified
    lower = bare.lower()
    kind = _classify_statement(bare, lower, report)
    if kind in _NEEDING_SUBJECT and _PRONOUN.pattern.match(bare):
        kind = HighlightKind.NOTE
    if corrects and kind is HighlightKind.NOTE and not HEDGE.is_in(bare, lower):
        kind = HighlightKind.FOUND
    return SpeechAct(kind, corrects)


def _read(text: str) -> str:
    """Return the start of a text with single blanks and straight apostrophes."""
    return " ".join(text[:MOST_CHARS].split()).replace("\u2019", "'")


def _classify_statement(text: str, lower: str, report: bool) -> HighlightKind:
    def mentions(act: Act) -> bool:
        return MENTIONS[act].is_in(text, lower)

    hedged = HEDGE.is_in(text, lower)
    measured = mentions(Act.STATE) and _VERDICT.pattern.search(text) and not hedged
    if measured and not _TESTS_WRITTEN.pattern.match(text):
        return HighlightKind.BROKEN if is_red(text) and "because" in text else HighlightKind.STATE
    broken = mentions(Act.FAILURE)
    if broken and not report and not _starts_done(text) and not _NAMED_CAUSE.is_in(text, lower):
        return HighlightKind.NOTE if hedged else HighlightKind.BROKEN
    done = (not broken and _NOW.search(text, lower)) or (mentions(Act.PROGRESS) and _is_done(text))
    ended = done and len(text) < _LONGEST_MILESTONE and _ENDED.is_in(text, lower)
    if ended and _WHOLE.pattern.search(text):
        return HighlightKind.FINISHED
    if hedged:
        return HighlightKind.NOTE
    if mentions(Act.CAUSE) and not _starts_done(text):
        return HighlightKind.FOUND
    if (report or not done) and mentions(Act.OPEN):
        return HighlightKind.OPEN
    if mentions(Act.DECISION) or mentions(Act.RULE):
        return HighlightKind.DECIDED
    if done:
        return HighlightKind.DONE
    if broken:
        return HighlightKind.BROKEN
    if mentions(Act.FINDING):
        return HighlightKind.FOUND
    is_item = report and _IMPERATIVE.pattern.match(text)
    return HighlightKind.PLANNED if is_item else HighlightKind.NOTE


def _starts_done(text: str) -> bool:
    return MENTIONS[Act.PROGRESS].pattern.match(text) is not None


def _is_done(text: str) -> bool:
    """Return whether a sentence with a deed says that it was done.

    It does not if it is to be done, nor if something else did it: "The scanner opened a file".
    """
    for match in MENTIONS[Act.PROGRESS].pattern.finditer(text):
        start, end = match.span()
        before = max(0, start - 16)
        if _NOT_YET.pattern.search(text, before, start):
            continue
        is_past = not match[0].lower().startswith(("now", "is", "are"))
        has_object = is_past and _OBJECT.pattern.match(text, end)
        if not has_object or _DOER.pattern.search(text, before, start):
            return True
    return False


def announces_finding(text: str) -> bool:
    """Return whether a short sentence announces what the next one says: "Found it."."""
    return len(text) < _LONGEST_ANNOUNCEMENT and _skip(_ANNOUNCEMENT, _read(text)) > 0


def is_decision(text: str) -> bool:
    """Return whether a sentence decides something."""
    plain = _read(text)
    lower = plain.lower()
    return (
        any(MENTIONS[act].is_in(plain, lower) for act in (Act.DECISION, Act.RULE))
        and classify(text, report=True).kind is HighlightKind.DECIDED
    )


def is_hedged(text: str) -> bool:
    """Return whether a sentence only supposes something."""
    return _has(HEDGE, text)


def is_correction(text: str) -> bool:
    """Return whether a sentence contradicts something that was said before it."""
    return _has(MENTIONS[Act.CORRECTION], text)


def is_complaint(prompt: str) -> bool:
    """Return whether a user says that something does not work."""
    return _has(MENTIONS[Act.COMPLAINT], prompt)


def _has(cue: Cue, text: str) -> bool:
    plain = _read(text)
    return cue.is_in(plain, plain.lower())


def is_red(text: str) -> bool:
    """Return whether a measured state is a failure, or success is denied or limited."""
    return _RED.pattern.search(_read(text)) is not None


def is_go_on(prompt: str) -> bool:
    """Return whether a prompt asks for nothing new, such as "yes" or "continue until done"."""
    return _GO_ON.pattern.fullmatch(_read(prompt.strip())) is not None


def lacks_subject(text: str) -> bool:
    """Return whether a sentence begins with a pronoun, so that it says little alone."""
    plain = _read(text)
    return _PRONOUN.pattern.match(plain, _skip(_OPENING, plain)) is not None


def tidy_sentence(text: str) -> str:
    """Return a sentence without "Good," or "I have" at its start and "let me ..." at its end."""
    text = " ".join(text.split())
    plain = text.replace("\u2019", "'")
    start, end = _skip(_VERDICT_LABEL, plain, _skip(_OPENING, plain)), len(text)
    if plain.count(" ", start) < 2:
        start = 0
    start = _skip(_SELF, plain, start)
    if _is_choice(plain[start:]):
        start = _skip(_WILL_START, plain, start)
    tail = _TAIL.pattern.search(plain, start)
    if tail is not None and len(plain[start : tail.start()].split()) >= 4:
        end = tail.start()
    rest = text[start:end]
    word = rest.partition(" ")[0]
    return rest[:1].upper() + rest[1:] if word.isalpha() and word.islower() else rest


def _skip(cue: Cue, plain: str, start: int = 0) -> int:
    match = cue.pattern.match(plain, start)
    return match.end() if match else start


def _is_choice(text: str) -> bool:
    return bool(_CHOICE.pattern.match(text)) and not _LATER_PROMISE.pattern.search(text, 6)
