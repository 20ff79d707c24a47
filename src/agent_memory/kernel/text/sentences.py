"""Finding the sentences of a message. Code, listings, logs, tables and tags are skipped.

Messages are untrusted input: every pattern here runs in time linear in the text.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

MAX_CHARS = 200  # of a sentence; a longer one is cut where a clause ends
MAX_READ = 20_000  # characters of a text that are read: its head and its tail
_TAIL = 6_000


class SentenceKind(Enum):
    PROSE = auto()
    HEADING = auto()
    FAULT = auto()  # a line that a program prints when it fails


class TextSpan(NamedTuple):
    """A slice of the text, without list marker and surrounding blanks."""

    start: int
    end: int
    kind: SentenceKind
    whole: bool  # False if a longer sentence was cut


_LINE = re.compile(r"[^\n\r]+")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_MARKER = re.compile(r"\s*(?:(?:[-*+•>]|\d{1,3}[.)]|\[[ xX]\])\s+)*")
_HEADING = re.compile(r"\s*#{1,6}\s+")
_FAULT = re.compile(
    r"\s*(?:E\s+)?(?:[\w.]{0,60}(?:Error|Exception|Panic)\b(?::|\s*$)"
    r"|(?:[\w./-]{1,80}:[\d:]+ )?"
    r"(?:(?:FAILED|ERROR|FATAL):? |(?:[Ee]rror|fatal|panic)(?:\[\w+\])?: )"
    r"|=*\ ?\d+ (?:passed|failed|errors?)\b)"
)
_NOISE = re.compile(
    r"""
      File\ "|at\ [\w$.<>/]+\ ?\(|Traceback\b|Caused\ by:|\.{3}\ \d+\ more   # stack traces
    | \d+(?:→|\s*\||:\ )|[\w./-]+[:\-]\d+[:\-]                               # numbered lines, grep
    | diff\ --git|@@\ |[+-]{3}\ |index\ [0-9a-f]{7}|[+-]\s*[\w.]+[(=]        # patches
    | [$\u276f%]\ |\#!|>>>\ |PS\ [A-Z]:                                      # shells
    | \||[+├└│]|[-=*_~]{3}                                                   # tables, trees, rules
    | </?[A-Za-z!?]|[{}\\;,)\]]|\[\W|\[[A-Z\d:.\ -]+\]|"[\w.-]+":           # tags, JSON, log levels
    | \[?\d{4}-\d\d-\d\d[T\ ]\d|\d\d:\d\d:\d\d|(?:INFO|DEBUG|WARN|WARNING|TRACE)\b
    | (?:import|from|def|class|return|const|let|var|function|export|public|private|async|await|if
        |for|while|elif|else|try|except|raise|with|func|fn|package|use|struct)\b[^\n]*[({;:=]\s*$
    | (?:import|from)\ [\w.]+(?:\ import\b|\s*$)|return\ [\w.]+\(
    | [\w.\[\]"']+\s*[:+|-]?=\s*\S|[\w.]+\([^\n]*\)[;:{]?\s*$                # assignments, calls
    | (?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER)\s[^\n]*;
    | [drwx-]{10}\s|(?=[a-f]*\d)[0-9a-f]{7,64}\s                             # listings, commits
    """,
    re.VERBOSE,
)
_SYMBOLS = re.compile(r"""[^\w\s.,'\u2019"!?:;()*`-]""")
_END = re.compile(
    r"""(?<![.!?…])[.!?…]++[)"'\u201d\u2019*_`\]]*+(?=\s)|[。\uff01\uff1f]++[」』\u201d\u2019]*+"""
)
_CLAUSE = re.compile(r";\s|\s[—\u2013]\s|\s-\s|[\uff1b\uff0c、]")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|[MD]rs?|Ms|St|No|approx|[A-Z])$")
_QUOTED = re.compile(
    r"""`[^`]*`|"[^"]{2,}"|“[^“”]*”|«[^«»]*»|(?<!\w)'[^']{3,}'(?!\w)|https?://\S+|\bwww\.\S+"""
)
_CODE = re.compile(r"[(){}\[\]=;_]")
_INDENT = 4  # from this column on, a line with such a character is code
_EDGE = " \t\r\n\f\v*"
_GLUED = 60  # a line this long without a full stop continues in the next one


def find_sentences(text: str) -> list[TextSpan]:
    """Return the sentences of a message, in order."""
    spans: list[TextSpan] = []
    for first, last in _read(text):
        _add_prose(spans, text, first, last)
    return spans


def find_faults(text: str, limit: int) -> list[TextSpan]:
    """Return the lines of a program's output that report an error, at most `limit`."""
    spans: list[TextSpan] = []
    for first, last in _read(text):
        for line in _LINE.finditer(text, first, last):
            if len(spans) < limit and _FAULT.match(text, line.start(), line.end()):
                _add(spans, text, line.start(), line.end(), SentenceKind.FAULT)
    return spans


def find_first_line(text: str) -> TextSpan | None:
    """Return the first line with text, to show if a message has no sentence."""
    for line in _LINE.finditer(text, 0, MAX_READ):
        spans: list[TextSpan] = []
        _add(spans, text, line.start(), line.end(), SentenceKind.PROSE)
        if spans:
            return spans[0]
    return None


def mask_quotations(text: str) -> str:
    """Mask quotations, code and links, and straighten apostrophes. Positions stay the same."""
    text = text.replace("\u2019", "'").replace("\u2018", "'").replace("\t", " ")
    return _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), text)


def _read(text: str) -> Iterator[tuple[int, int]]:
    if len(text) <= MAX_READ:
        yield 0, len(text)
    else:
        yield 0, MAX_READ - _TAIL
        yield len(text) - _TAIL, len(text)


def _add_prose(spans: list[TextSpan], text: str, first: int, last: int) -> None:
    fenced = False
    start = end = first  # the open paragraph; none if both are equal
    for line in _LINE.finditer(text, first, last):
        at, stop = line.span()
        if _FENCE.match(text, at, stop):
            fenced = not fenced
            begin, heading = stop, False
        else:
            begin, heading = _begin(text, at, stop)
        prose = not fenced and begin < stop and not _noisy(text, at, begin, stop)
        if prose and begin == at and _goes_on(text, start, end, at):
            end = stop
            continue
        _add_sentences(spans, text, start, end)
        start = end = stop
        if prose and heading:
            _add(spans, text, begin, stop, SentenceKind.HEADING)
        elif prose:
            start = begin
    _add_sentences(spans, text, start, end)


def _begin(text: str, at: int, stop: int) -> tuple[int, bool]:
    """Return where the words of a line begin, and whether they are a heading."""
    if heading := _HEADING.match(text, at, stop):
        return heading.end(), True
    marker = _MARKER.match(text, at, stop)
    return (marker.end() if marker else at), False


def _goes_on(text: str, start: int, end: int, at: int) -> bool:
    """Return whether the line at `at` continues the paragraph, as in hard-wrapped prose."""
    return (
        end - start >= _GLUED
        and text[end - 1] not in ".!?:;…"
        and text[at].islower()
        and text.count("\n", end, at) < 2
    )


def _noisy(text: str, at: int, start: int, end: int) -> bool:
    if start - at >= _INDENT and _CODE.search(text, start, end):
        return True
    if _FAULT.match(text, start, end):
        return False
    if _NOISE.match(text, start, end):
        return True
    line = text[start:end]
    if text[end - 1] in "{};\\":
        return True
    if line.isascii() and end - start > 40 and " " not in line.strip():
        return True
    return len(_SYMBOLS.findall(line)) * 8 > end - start


def _add_sentences(spans: list[TextSpan], text: str, start: int, end: int) -> None:
    at = start
    for ending in _END.finditer(text, start, end):
        mark, stop = ending.span()
        if text[mark] == "." and stop < end:
            if text[stop + 1 : stop + 2].islower():
                continue
            if _ABBREVIATION.search(text, max(at, mark - 8), mark):
                continue
        _add_clauses(spans, text, at, stop)
        at = stop
    if at < end:
        _add_clauses(spans, text, at, end)


def _add_clauses(spans: list[TextSpan], text: str, start: int, end: int) -> None:
    """Add the sentence, or its clauses if it is too long for a bullet."""
    at = start
    if end - start > MAX_CHARS:
        for clause in _CLAUSE.finditer(text, start, end):
            if clause.start() - at >= _GLUED and end - clause.end() >= _GLUED:
                _add_pieces(spans, text, at, clause.start())
                at = clause.end()
    _add_pieces(spans, text, at, end)


def _add_pieces(spans: list[TextSpan], text: str, start: int, end: int) -> None:
    """Add the clause, in pieces if it is too long: some people write without full stops."""
    while start < end and _add(spans, text, start, end, SentenceKind.PROSE):
        start = spans[-1].end


def _add(spans: list[TextSpan], text: str, start: int, end: int, kind: SentenceKind) -> bool:
    """Add a span without surrounding blanks, cut if too long; return False if it is empty."""
    while start < end and text[start] in _EDGE:
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    whole = end - start <= MAX_CHARS
    if not whole:
        end = start + _cut(text[start : start + MAX_CHARS])
    if start >= end or text[start:end].isspace():
        return False
    spans.append(TextSpan(start, end, kind, whole))
    return True


def _cut(text: str) -> int:
    """Return where to cut a text: after a clause, else after a word."""
    for mark in (". ", "; ", ", ", "\uff0c", "、", " "):
        at = text.rfind(mark, len(text) // 2)
        if at > 0:
            return at
    return len(text)
