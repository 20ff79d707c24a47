"""Signals: statements in a prompt or an answer that may become memories, with a confidence.

A signal has a marker ("[decision]") or a phrase that says something is settled, learned or stuck.
Code, quotations, patches, logs, questions and suppositions are not signals. Every pattern runs in
time linear in the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from agent_memory.features.hooks.model import transcripts
from agent_memory.features.log.model.events import EventRole
from agent_memory.features.memories.model.memories import MAX_SUMMARY_CHARS
from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.act_cues import Act
from agent_memory.features.toc.model.speech_acts import AFTER_END, StatedAct
from agent_memory.kernel.text import sentences
from agent_memory.kernel.text.sentences import mask_quotations

MARKERS = ("[decision]", "[learned]", "[blocker]", "[progress]")
SUGGESTED = 0.7  # the confidence from which a signal is suggested
CERTAIN = 0.95  # the confidence from which it may be captured without asking: markers alone

# A longer prompt was pasted, not typed, and a hook has 50 ms for the whole prompt.
MAX_READ = 16 << 10
MAX_SIGNALS = 10
MAX_CONTENT_CHARS = 8_000  # far below the limit of a memory, in the widest encoding too
MAX_REASON_CHARS = 300

_MARKED, _REASONED = 0.96, 0.02
_REASON_COUNTS = 0.06
_INTRODUCING = -0.15
_VAGUE = 0.6  # the limit for "let's use that one", which means nothing later
_SUREST_PHRASE = 0.94
# Here the summary leaves the reason out; a learning often is the reason itself.
_REASON_APART = ("decisions", "patterns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A statement that may become a memory."""

    namespace: str
    summary: str  # one line, within the limit of a memory's summary
    content: str  # the statement in full, without the marker
    reason: str = ""
    confidence: float
    marked: bool


_NAMESPACES = {
    Act.DECISION: "decisions",
    Act.RULE: "patterns",
    Act.FINDING: "learnings",
    Act.BLOCKER: "blockers",
    Act.PROGRESS: "progress",
}
_NAMESPACE_OF = {
    word: namespace
    for namespace, words in {
        "decisions": "decision decisions decided decide choice adr",
        "learnings": "learned learnt learning learnings lesson lessons til insight",
        "blockers": "blocker blockers blocked blocking impediment",
        "progress": "progress done milestone finished completed shipped status",
        "reviews": "review reviews reviewed feedback",
        "patterns": "pattern patterns convention conventions rule practice",
        "retrospective": "retro retros retrospective retrospectives postmortem",
        "inception": "inception goal goals vision scope",
        "elicitation": "elicitation requirement requirements clarification",
        "research": "research spike finding findings investigation",
    }.items()
    for word in words.split()
}


def _find_namespace(marker: str) -> str:
    for word in re.findall(r"[a-z]+", marker.lower()):
        if word in _NAMESPACE_OF:
            return _NAMESPACE_OF[word]
    return "learnings"


@lru_cache(maxsize=32)
def _compile_markers(markers: tuple[str, ...]) -> re.Pattern[str] | None:
    """Build the pattern of markers: longer ones first, none inside a word ("TIL" in "until")."""
    names = sorted(
        {name.strip() for name in markers if name.strip()}, key=lambda name: (-len(name), name)
    )
    if not names:
        return None
    patterns = [
        (r"(?<!\w)" if re.match(r"\w", name) else "")
        + re.escape(name)
        + (r"(?!\w)" if re.search(r"\w\Z", name) else "")
        for name in names
    ]
    return re.compile(rf"(?:{'|'.join(patterns)})(?:\ ?:)?", re.IGNORECASE)


_NAMES_NOTHING = re.compile(
    r"(?:always\ |never\ )?(?:\w+\ (?:with\ |on\ |to\ |for\ )?)?"
    r"(?:(?:it|this|that|these|those|them|both|one|yours?|mine)(?:\ (?:one|approach|option|plan|way"
    r"|idea|solution|version|suggestion))?"
    r"|the\ (?:same|first|second|third|latter|former|last|other|previous|above|following"
    r"|recommended|suggested|proposed|simplest|simpler|original|default)\b[^,.;]{0,40}"
    r"|(?:option|choice|variant|approach|plan|number)\ (?:\w|\d+|one|two|three)"
    r"|your\ [\w-]+(?:\ [\w-]+)?"
    r"|(?:the|a|an)\ (?:[\w-]+\ ){0,2}(?:tools?|subagents?|agents?|skill|command|plan|suggestion"
    r"|branch|recommendation|todo\ list)"
    r"|(?:sub-?)?agents|plan\ mode|ultrathink)"
    r"(?=\Z|[,.;:!)]|\ (?:for|to|and|then|instead|now|here|on|with|in|because|since|as|again|please"
    r"|first|that|like|more|over|at|when|where)\b)",
    re.IGNORECASE,
)

_REASON = re.compile(
    r"[,;(]?(?:\A|(?<=\W))(?:because(?:\ of)?|due\ to(?:\ the\ fact\ that)?|owing\ to|given\ that"
    r"|thanks\ to|(?<!ever\ )since(?!\ (?:\d|v\d|version|yesterday|last|then|today|this\ morning"
    r"|the\ (?:last|start|beginning|release|upgrade|update|migration|first)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october|november"
    r"|december)\b))\ ",
    re.IGNORECASE,
)
_REASON_FIRST = re.compile(
    r"(?:and\ |but\ |so\ )?(?:because(?:\ of)?|since|due\ to|given(?:\ that)?|owing\ to)\ ",
    re.IGNORECASE,
)

# Tags that agents put into prompts around text that the user has not typed.
_MACHINE = (
    "system-reminder", "task-notification", "local-command-stdout", "local-command-stderr",
    "local-command-caveat", "command-name", "command-message", "bash-input", "bash-stdout",
    "bash-stderr", "user-prompt-submit-hook", "ide_selection", "ide_opened_file",
    "environment_context", "user_instructions", "tool_use_error", "function_results",
)  # fmt: skip
_OWN_TAG = re.compile(
    rf"</?(?:{'|'.join(transcripts.OWN_MARKERS)}|resources?|memory|summary|signal|reason|action"
    r"|captured|guidance|project|branch)(?:\s[^<>]*)?>|<!--|-->"
)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*+[A-Za-z]|\x1b\][^\x07\x1b]*+\x07?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,3}[.)])\s+)?(`{3,}(?=[^`]*\Z)|~{3,})")
_BULLET = re.compile(r"\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?|#{1,6}\s+)")
_PATCH = re.compile(r"diff --git |--- \S|\+\+\+ \S|@@ ")
_LOG = re.compile(
    r"""
      E\ {2,}|\$\ |>|%\ |[|│├└]                              # pytest, shells, quotes, tables
    | \+(?![\[\s])|-(?![\[\s-])|--(?!\w)                     # patches, comments
    | [\[(]?\d{4}-\d\d-\d\d[T\ ]\d|[\[(]?\d\d:\d\d:\d\d
    | \[?(?:INFO|DEBUG|WARN|WARNING|ERROR|FATAL|TRACE|CRITICAL|NOTICE)\b(?:\]|:|\ [\[|:-]|\ {2,})
    | (?:FAILED|PASSED|ERROR)\ |Traceback\b|File\ "|at\ [\w$.<>/]+\ ?\(
    | [\w./\\-]{1,120}:\d+:|[\w.]{1,80}(?:Error|Exception|Warning):\s
    | [\w.]{1,80}\.[A-Z]\w{0,60}:\s|(?:error|fatal|panic|warning):\s
    | (?:commit\ )?(?=[a-f]{0,39}\d)[0-9a-f]{7,40}\s
    """,
    re.VERBOSE,
)
_WRAPPED = 60  # a line this long without an end continues on the next one
_END = re.compile(r"""(?<![.!?…])[.!?…]++[)"'\]*_]*+(?=\s|\Z)|;(?=\s)""")
_ABBREVIATION = re.compile(r"(?:\A|[\s(])(?:e\.g|i\.e|vs|cf|approx|incl|resp|[MD]rs?|No|St)\Z")
_MENTION_BEFORE = re.compile(  # in lower case: "plan A [decision]" is marked
    r"(?:\b(?:an?|the|with|like|as|of|via|using|type|write|add|say|every|each|per|any|by|markers?|tags?"
    r"|patterns?|called)|e\.g\.)\ ?\Z"
)
_MENTION_AFTER = re.compile(
    r"\s*(?:(?:style|type|like)\s)?(?:markers?|tags?|signals?|patterns?|keywords?|prefix(?:es)?|labels?"
    r"|annotations?|entries|blocks?|brackets?)\b|\s*=",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s*(?:,|/|\||and|or|,\s*and|,\s*or|&)\s*", re.IGNORECASE)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_BOLD = re.compile(r"(?<!\w)\*\*(?=[^\s/.])|(?<=\S)\*\*(?![\w/])|~~")
_NOTHING_BOLD = re.compile(r"\*\*\s*\*\*")
_UNDERLINED = re.compile(r"(?<!\w)__([^_]+)__(?!\w)")
_EMPHASIS = re.compile(
    r"(?<![\w*/])\*(?=\w)([^*]+)(?<=[\w.!?)])\*(?![\w*])|(?<!\w)_(?=[a-z])([^_]+)_(?!\w)"
)
# Signs left over from a marker; but .env, ~/x, #7, --flag and *.py start with such a sign.
_LEADING = re.compile(
    r"(?:[\s>:,;|)\]\u2013—]|[#.](?!\w)|~(?![\w/])|\*(?![.\w/])|-(?![\w-])|_(?!\w))*+"
)
_WORD = re.compile(r"\w")
_TRAILING = " \t\n.,;:!-\u2013—(|"
_LINK_DEFINITION = re.compile(r"\s*<?(?:https?://|www\.|/|\./|#)\S*\s*\Z")


def detect(
    text: str, markers: Sequence[str] = MARKERS, role: EventRole = EventRole.USER
) -> list[Signal]:
    """Return the signals of a text in its order, or the most confident ones if there are too many.

    Signals with the same summary count once.
    """
    pattern = _compile_markers(tuple(markers))
    best: dict[str, tuple[int, Signal]] = {}
    heading: list[str] = []
    for block in _split_blocks(_clean_text(text)):
        if len(block) == 1 and pattern and not _split_units(block, pattern):
            heading = block
        elif block:
            for signal in _detect_in_block(heading + block, pattern, role):
                known = best.get(signal.summary.lower())
                if known is None or signal.confidence > known[1].confidence:
                    best[signal.summary.lower()] = (known[0] if known else len(best)), signal
            heading = []
    surest = sorted(best.values(), key=lambda item: -item[1].confidence)[:MAX_SIGNALS]
    return [signal for _, signal in sorted(surest, key=lambda item: item[0])]


def _clean_text(text: str) -> str:
    """Return the user's own text without control characters."""
    text = transcripts.strip_tags(text[:MAX_READ], (*transcripts.OWN_MARKERS, *_MACHINE))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(" ", _ESCAPE.sub("", text))


def _split_blocks(text: str) -> Iterator[list[str]]:
    """Yield blocks of prose lines, with wrapped lines joined."""
    block: list[str] = []
    fence = ""
    patch = listed = wrapped = False
    for line in text.split("\n"):
        words = line.strip()
        if fence:
            if words.startswith(fence) and not words.strip(fence[0]):
                fence = ""
            continue
        opened = _FENCE.match(line)
        patch = bool(_PATCH.match(line)) or (patch and line[:1] in ("+", "-", " ", "\\"))
        bullet = _BULLET.match(line)
        indented = line.startswith(("    ", "\t", "  \t"))
        listed = bool(bullet) or (listed and indented)
        if opened or patch or not words or (indented and not listed) or _LOG.match(words):
            fence = opened[1] if opened else ""
            yield block
            block, wrapped = [], False
            continue
        if bullet:
            words = line[bullet.end() :].strip()
        elif block and ((wrapped and words[0].islower()) or _REASON_FIRST.match(words)):
            block[-1] += " " + words
            words = ""
        if words:
            block.append(words)
        wrapped = len(line) >= _WRAPPED and line.rstrip()[-1] not in ".!?:;…"
    yield block


class _Unit(NamedTuple):
    text: str
    marker: str  # on a line of its own, about this text


def _detect_in_block(
    block: list[str], markers: re.Pattern[str] | None, role: EventRole
) -> Iterator[Signal]:
    for unit in _split_units(block, markers):
        if not unit.marker:
            yield from _detect_in_line(unit.text, markers, role)
        elif (signal := _build_marked(unit.text, unit.marker)) is not None:
            yield signal


def _split_units(block: list[str], markers: re.Pattern[str] | None) -> list[_Unit]:
    """Split a block into lines, or into several lines that one marker is about.

    A marker on a line of its own is about the lines after it, else about the line before. A marked
    line that ends in a colon is also about the lines after it.
    """
    units: list[_Unit] = []
    at = 0
    while at < len(block):
        line = block[at]
        at += 1
        own, rest = _find_opening(line, markers) if markers else ("", "")
        if not markers or not own:
            units.append(_Unit(line, ""))
            continue
        end = at
        while end < len(block) and not markers.search(block[end]):
            end += 1
        if rest or end > at:
            units.append(_Unit("\n".join((rest, *block[at:end])).strip(), own))
        elif units and not units[-1].marker and not markers.search(units[-1].text):
            units[-1] = _Unit(units[-1].text, own)
        at = end
    return units


def _find_opening(line: str, markers: re.Pattern[str]) -> tuple[str, str]:
    """Return the marker of a line that is about others too, and the rest of the line."""
    marker = markers.search(mask_quotations(line))
    if not marker or _WORD.search(line, 0, marker.start()):
        return "", ""
    if not _WORD.search(line, marker.end()):
        return marker[0], ""
    rest = line[marker.end() :]
    return (marker[0], rest) if rest.endswith(":") and not markers.search(rest) else ("", "")


def _detect_in_line(line: str, markers: re.Pattern[str] | None, role: EventRole) -> list[Signal]:
    view = mask_quotations(line)
    spans = _split_sentences(view)
    marks = _find_marks(line, view, markers) if markers else []
    starts = [first for first, _ in spans]
    places = [bisect_right(starts, start) - 1 for start, _ in marks]
    owned: set[int] = set()
    signals: list[tuple[int, Signal]] = []
    leads = False  # whether the last marker stands before its statement
    for at, ((start, end), place) in enumerate(zip(marks, places, strict=True)):
        first, last = spans[place]
        since = marks[at - 1][1] if at else 0
        until = marks[at + 1][0] if at + 1 < len(marks) else len(line)
        covers = range(place, place + 1)
        # The words before it may be those of the last marker: "[progress] done [blocker] no disk".
        leads = (leads and since > first) or not _WORD.search(view, first, start)
        if not leads:
            statement = line[max(first, since) : start]
            if until >= last:  # else the next marker is about the rest
                statement = f"{statement} {line[end:last]}"
            if view[first:last].rstrip(AFTER_END).endswith("?"):
                statement = ""
        else:
            statement = line[end:until]
            covers = range(place, places[at + 1] if at + 1 < len(marks) else len(spans))
            continues = not _WORD.search(statement) or _REASON_FIRST.match(statement.strip())
            if continues and place and place - 1 not in owned:  # "Use it. [decision]"
                covers = range(place - 1, covers.stop)
                before = line[max(starts[place - 1], since) : start].strip(" .")
                statement = f"{before} {statement}"
        if (signal := _build_marked(statement, line[start:end])) is not None:
            owned.update(covers)
            signals.append((start, signal))
    for place, (first, last) in enumerate(spans):
        if place not in owned:
            after = line[slice(*spans[place + 1])] if place + 1 < len(spans) else ""
            if (spoken := _build_spoken(line[first:last], after, role)) is not None:
                signals.append((first, spoken))
    return [signal for _, signal in sorted(signals, key=lambda item: item[0])]


def _find_marks(line: str, view: str, markers: re.Pattern[str]) -> list[tuple[int, int]]:
    """Return the spans of markers that mark something and are not only mentioned.

    Of two markers side by side, the first counts.
    """
    spans = [match.span() for match in markers.finditer(view)]
    marks: list[tuple[int, int]] = []
    for at, (start, end) in enumerate(spans):
        before, after = view[max(0, start - 40) : start], view[end : end + 40]
        if at and not view[spans[at - 1][1] : start].strip():
            if marks and marks[-1][1] == spans[at - 1][1]:
                marks[-1] = marks[-1][0], end
            continue
        listed = (at and _BETWEEN.fullmatch(view, spans[at - 1][1], start)) or (
            at + 1 < len(spans) and _BETWEEN.fullmatch(view, end, spans[at + 1][0])
        )
        if listed or after.startswith("(") or _MENTION_AFTER.match(after):
            continue
        if _MENTION_BEFORE.search(before) or (
            _LINK_DEFINITION.match(line[end : end + 2000]) and view[end - 1] == ":"
        ):
            continue
        glued = before[-1:].isalnum() and view[start] in "[({<"
        if glued and after and not re.match(r"\s+\w|[.,;!?]", after):
            continue
        marks.append((start, end))
    return marks


def _split_sentences(view: str) -> list[tuple[int, int]]:
    spans = []
    start = 0
    for ending in _END.finditer(view):
        at, end = ending.span()
        if view[at] == "." and _ABBREVIATION.search(view, max(start, at - 8), at):
            continue
        spans.append((start, end))
        start = end
    if start < len(view) or not spans:
        spans.append((start, len(view)))
    return spans


def _build_marked(statement: str, marker: str) -> Signal | None:
    content = _strip_markdown(statement)
    text, _, more = content.partition("\n")
    if text.endswith(":"):
        text = f"{text} {more.replace(chr(10), ', ')}"
    view = mask_quotations(text)
    namespace = _find_namespace(marker)
    start, end = next(
        (span for span in _split_sentences(view) if _WORD.search(view, *span)), (0, 0)
    )
    start = speech_acts.find_statement(view, start, end)
    reason, cut = _find_reason(text, view, start)
    if namespace in _REASON_APART and start < cut:
        end = min(end, cut)
    confidence = _MARKED + (_REASONED if reason else 0)
    return _build_signal(namespace, text[start:end], content, reason, confidence, marked=True)


def _build_spoken(sentence: str, after: str, role: EventRole) -> Signal | None:
    text = _strip_markdown(sentence)
    signals = [
        signal
        for act in speech_acts.find_acts(text, role)
        if (signal := _build_from_act(act, text, after)) is not None
    ]
    # The check for prose is costly, so it comes last.
    if not signals or not sentences.find_sentences(sentence.rstrip(" ;")):
        return None
    return max(signals, key=lambda signal: signal.confidence)


def _build_from_act(act: StatedAct, text: str, after: str) -> Signal | None:
    say = act.says
    if act.announces:
        if not _WORD.search(after):
            return None
        say = len(text) + 1
        text = f"{text} {_strip_markdown(after)}"
    view = mask_quotations(text)
    reason, cut = _find_reason(text, view, say)
    if not reason and (first := _REASON_FIRST.match(view, 0, act.start)):
        reason = _to_one_line(text[first.end() : max(first.end(), view.rfind(",", 0, act.start))])
    confidence = act.confidence + (_REASON_COUNTS if reason else 0)
    namespace = _NAMESPACES[act.act]
    if text.endswith(":"):
        confidence += _INTRODUCING
    if namespace in _REASON_APART and _NAMES_NOTHING.match(view, say):
        confidence = min(confidence, _VAGUE)
    stop = cut if namespace in _REASON_APART and say < cut else len(text)
    confidence = min(confidence, _SUREST_PHRASE)
    return _build_signal(namespace, text[say:stop], text, reason, confidence, marked=False)


def _find_reason(text: str, view: str, start: int) -> tuple[str, int]:
    """Return the stated reason, and where its words start."""
    reason = _REASON.search(view, start)
    if not reason:
        return "", len(view)
    stop = _END.search(view, reason.end())
    return _to_one_line(text[reason.end() : stop.start() if stop else len(text)]), reason.start()


def _build_signal(
    namespace: str, statement: str, content: str, reason: str, confidence: float, *, marked: bool
) -> Signal | None:
    summary = _build_summary(statement)
    if not _WORD.search(summary):
        return None
    return Signal(
        namespace=namespace,
        summary=summary,
        content=content[:MAX_CONTENT_CHARS].rstrip(),
        reason=reason[:MAX_REASON_CHARS].rstrip(),
        confidence=round(confidence, 2),
        marked=marked,
    )


def _strip_markdown(text: str) -> str:
    """Return the text without Markdown decoration and extra blanks; line breaks stay."""
    lines = [_LINK.sub(r"\1", _NOTHING_BOLD.sub("", line)) for line in text.split("\n")]
    lines = [_UNDERLINED.sub(_strip_underlines, line) for line in lines]
    whole = "\n".join(" ".join(_BOLD.sub("", line).split()) for line in lines)
    return _strip_leading(whole).rstrip(" \n;")


def _strip_underlines(underlined: re.Match[str]) -> str:
    """Remove the underlines of words; a single underlined word is a name like __init__."""
    return underlined[1] if " " in underlined[1] else underlined[0]


def _strip_leading(text: str) -> str:
    leading = _LEADING.match(text)
    return text[leading.end() :] if leading else text


def _to_one_line(text: str) -> str:
    text = _OWN_TAG.sub(" ", _EMPHASIS.sub(r"\1\2", text)).replace("`", "")
    return _strip_leading(" ".join(text.split())).rstrip(_TRAILING)


def _build_summary(statement: str) -> str:
    """Return a short line with a capital, unless it starts with a name in lower case."""
    text = _to_one_line(statement)
    word = text.split(" ", 1)[0].rstrip(",;:").replace("'", "")
    if (
        word.isascii()
        and word.isalpha()
        and word.islower()
        and not statement.lstrip().startswith("`")
    ):
        text = text[0].upper() + text[1:]
    if len(text) <= MAX_SUMMARY_CHARS:
        return text
    end = text.rfind(" ", MAX_SUMMARY_CHARS // 2, MAX_SUMMARY_CHARS - 1)
    return text[: end if end > 0 else MAX_SUMMARY_CHARS - 1].rstrip(_TRAILING) + "…"
