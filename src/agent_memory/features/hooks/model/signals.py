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

from agent_memory.features.log.model.events import EventRole
from agent_memory.features.memories.model.memories import MAX_SUMMARY_CHARS
from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.act_cues import Act
from agent_memory.features.toc.model.speech_acts import AFTER_END, StatedAct
from agent_memory.kernel.text import prose, sentences
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
_OWN_TAG = re.compile(
    rf"</?(?:{'|'.join(prose.OWN_MARKERS)}|resources?|memory|summary|signal|reason|action"
    r"|captured|guidance|project|branch)(?:\s[^<>]*)?>|<!--|-->"
)
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
_EMPHASIS = re.compile(
    r"(?<![\w*/])\*(?=\w)([^*]+)(?<=[\w.!?)])\*(?![\w*])|(?<!\w)_(?=[a-z])([^_]+)_(?!\w)"
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
    for block in prose.split_blocks(prose.clean_text(text[:MAX_READ])):
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
    spans = prose.split_sentences(view)
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
            continues = not _WORD.search(statement) or prose.REASON_FIRST.match(statement.strip())
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


def _build_marked(statement: str, marker: str) -> Signal | None:
    content = prose.strip_markdown(statement)
    text, _, more = content.partition("\n")
    if text.endswith(":"):
        text = f"{text} {more.replace(chr(10), ', ')}"
    view = mask_quotations(text)
    namespace = _find_namespace(marker)
    start, end = next(
        (span for span in prose.split_sentences(view) if _WORD.search(view, *span)), (0, 0)
    )
    start = speech_acts.find_statement(view, start, end)
    reason, cut = _find_reason(text, view, start)
    if namespace in _REASON_APART and start < cut:
        end = min(end, cut)
    confidence = _MARKED + (_REASONED if reason else 0)
    return _build_signal(namespace, text[start:end], content, reason, confidence, marked=True)


def _build_spoken(sentence: str, after: str, role: EventRole) -> Signal | None:
    text = prose.strip_markdown(sentence)
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
        text = f"{text} {prose.strip_markdown(after)}"
    view = mask_quotations(text)
    reason, cut = _find_reason(text, view, say)
    if not reason and (first := prose.REASON_FIRST.match(view, 0, act.start)):
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
    stop = prose.END.search(view, reason.end())
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


def _to_one_line(text: str) -> str:
    text = _OWN_TAG.sub(" ", _EMPHASIS.sub(r"\1\2", text)).replace("`", "")
    return prose.strip_leading(" ".join(text.split())).rstrip(_TRAILING)


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
