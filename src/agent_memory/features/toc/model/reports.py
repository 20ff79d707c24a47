"""Reports: what an agent says at the end of a task, item by item.

Agents write them in Markdown: headings, lists, tables and labels. Each item becomes a sentence of
its own, with the slice of the message that it stands for.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.highlights import HighlightKind
from agent_memory.kernel.text import sentences

MAX_READ = 20_000
MAX_ITEMS = 14
MAX_CHARS = 240
MAX_CELLS = 8
_FEW_WORDS = 4
_LASTING = frozenset({HighlightKind.FOUND, HighlightKind.DECIDED})

_LINE = re.compile(r"[^\n]+")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s*#{1,6}\s+")
_ITEM = re.compile(
    r"(\s*)(?:[-*+\u2022]|\d{1,3}[.)]|[\u2705\u2713\u2714\u274c])\s+(?:\[[ xX~]\]\s+)?"
)
_RULE = frozenset("|:- \t")  # the characters of the line under a table's header
MAX_ROW = 2_000  # characters
_LABEL = re.compile(r"\s*(?:\*\*)?([A-Z][^:*\n.]{1,60}?)(?:\*\*)?:(?:\*\*)?(?:\s+|$)")
_OPAQUE = re.compile(r"[\W\d]*|`?(?=[a-f]*\d)[0-9a-f]{7,40}`?|[\d/:.\- ]+")
_FIGURE = re.compile(r"[\d.,]+ ?[\w%/]{0,8}")
_PATHS = re.compile(r"[`\w./~@+-]+(?:,\s*[`\w./~@+-]+)*")
_TRAILING = " \t*:;,\u2014\u2013-"

# What the items under a heading are; None: they are left out. The first that fits counts.
_SECTIONS: dict[HighlightKind | None, str] = {
    None: r"files?(?: \w+)?|usage|how to|commands?|user messages|current work|analysis|legend",
    HighlightKind.PLANNED: (
        r"needed|need to|plans?|(?<!next )(?<!remaining )steps|going to|i['\u2019]ll|will"
    ),
    HighlightKind.OPEN: r"remaining|next|todos?|follow-?ups?|pending|not done|open|left|deferred",
    HighlightKind.FOUND: (
        r"discover\w*|found|findings?|root causes?|causes?|learn\w*|notes?|gotchas?|caveats?|known"
        r"|issues?|problems?|errors? and fixes|insights?"
    ),
    HighlightKind.DECIDED: r"decisions?|decided|trade-?offs?|approach|rationale",
    HighlightKind.STATE: r"tests?(?: \w+)?|verification|verified|results?|checks?|quality",
    HighlightKind.ASKED: r"requests?|intent|goal|objective",
    HighlightKind.DONE: (
        r"done|changes?|changed|implement\w*|complete\w*|added|fix\w*|summary|delivered|commits?"
        r"|created|highlights|shipped|what(?: was|'s)?"
    ),
}
_SECTION_PATTERNS = tuple(
    (kind, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for kind, words in _SECTIONS.items()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportItem:
    """An item of a report, and the slice of the message that says it."""

    text: str
    kind: HighlightKind
    start: int
    end: int
    nested: bool = False


@dataclass(frozen=True, slots=True)
class _ReportUnit:
    """A heading, list item, table row or sentence, with what its section is about."""

    text: str
    start: int
    end: int
    section: HighlightKind | None
    listed: bool
    nested: bool
    heading: bool = False


def has_structure(text: str) -> bool:
    """Return whether a message has a heading, a table or at least two list items."""
    lines = text[:MAX_READ].splitlines()
    if any(_HEADING.match(line) or _is_row(line) for line in lines):
        return True
    return sum(bool(_ITEM.match(line)) for line in lines) > 1


def read_report(text: str, *, worked: bool) -> list[ReportItem]:
    """Return the items of a report. If nothing was `worked` on, it explains and reports no deed."""
    units = list(_read_units(text[:MAX_READ]))
    acts = [speech_acts.classify(unit.text, report=True) for unit in units]
    finished = worked and any(
        act.kind in (HighlightKind.FINISHED, HighlightKind.DONE) and not unit.nested
        for unit, act in zip(units, acts, strict=True)
    )
    items: list[ReportItem] = []
    for unit, act in zip(units, acts, strict=True):
        kind = _choose_kind(unit, act.kind, finished)
        if not worked and kind in (
            HighlightKind.FINISHED,
            HighlightKind.DONE,
            HighlightKind.BROKEN,
        ):
            kind = HighlightKind.NOTE
        shown = "" if kind is None else tidy(unit.text)
        if kind is not None and len(shown.split()) >= 3:
            items.append(
                ReportItem(
                    text=shown, kind=kind, start=unit.start, end=unit.end, nested=unit.nested
                )
            )
    top = [item for item in items if not item.nested]
    return (top if len(top) >= 3 else items)[:MAX_ITEMS]


def read_compaction(text: str) -> list[ReportItem]:
    """Return what the summary of a compaction says was found out and decided."""
    items = []
    for unit in _read_units(text[:MAX_READ]):
        kind = speech_acts.classify(unit.text, report=True).kind
        if unit.section is HighlightKind.FOUND and unit.listed and kind is not None:
            kind = kind if kind is HighlightKind.DECIDED else HighlightKind.FOUND
        shown = tidy(unit.text)
        if kind in _LASTING and unit.section is not None and len(shown.split()) > _FEW_WORDS:
            items.append(ReportItem(text=shown, kind=kind, start=unit.start, end=unit.end))
    return items[:MAX_ITEMS]


def tidy(text: str) -> str:
    """Return an item on one line, without marks, cut at the end of a clause if it is long."""
    text = " ".join(speech_acts.tidy_sentence(" ".join(text.replace("**", "").split())).split())
    text = text.strip(_TRAILING)
    if len(text) <= MAX_CHARS:
        return text
    for mark in (". ", "; ", " \u2014 ", ", ", " "):
        at = text.rfind(mark, MAX_CHARS // 2, MAX_CHARS)
        if at > 0:
            return text[:at].rstrip(_TRAILING) + "\u2026"
    return text[:MAX_CHARS] + "\u2026"


def _choose_kind(
    unit: _ReportUnit, said: HighlightKind | None, finished: bool
) -> HighlightKind | None:
    if unit.section is None and unit.listed:
        return None  # files, commands
    if said is None:
        return None
    if unit.heading:
        return said if said in (HighlightKind.FINISHED, HighlightKind.DONE) else None
    if said is HighlightKind.STATE:
        return said
    if said is HighlightKind.OPEN and unit.section is HighlightKind.FOUND:
        return said  # notes often end with what is left
    if unit.section is not None and unit.section is not HighlightKind.DONE and unit.listed:
        return unit.section if unit.section is not HighlightKind.STATE else said
    if said in (HighlightKind.NOTE, HighlightKind.PLANNED) and unit.listed and finished:
        return HighlightKind.DONE
    return said


def _read_units(text: str) -> Iterator[_ReportUnit]:
    section: HighlightKind | None = HighlightKind.DONE
    fenced = False
    header, names = True, list[str]()  # the next table row is a header
    for line in _LINE.finditer(text):
        start, stop = line.span()
        if _FENCE.match(text, start, stop):
            fenced = not fenced
            continue
        if fenced:
            continue
        words = text[start:stop]
        listed = _ITEM.match(text, start, stop)
        is_row = _is_row(words)
        if heading := _HEADING.match(text, start, stop):
            section = _name_section(text[heading.end() : stop])
            yield _ReportUnit(
                text[heading.end() : stop], heading.end(), stop, section, False, False, True
            )
        elif is_row:
            if _RULE.issuperset(words):
                header = False
            elif header:
                names = _split_cells(words)
            else:
                row = _join_cells(words, names)
                if row:
                    yield _ReportUnit(row, start, stop, section, True, False)
            continue
        elif listed and words.rstrip(" *").endswith(":"):
            section = _name_section(words, section)
        elif listed and not _PATHS.fullmatch(text[listed.end() : stop].strip()):
            begin, nested = listed.end(), len(listed[1]) > 1
            yield _ReportUnit(text[begin:stop], begin, stop, section, True, nested)
        elif not listed:
            label = _LABEL.match(text, start, stop)
            if label and label.end() >= stop:
                section = _name_section(label[1])
            else:
                yield from _read_prose(text, start, stop, label)
                if words.rstrip().endswith(":"):
                    section = _name_section(words, section)
        header = True


def _read_prose(
    text: str, start: int, stop: int, label: re.Match[str] | None
) -> Iterator[_ReportUnit]:
    section = HighlightKind.DONE if label is None else _name_section(label[1])
    labelled = label is not None and section not in (None, HighlightKind.DONE)
    label_end = 0 if label is None else label.end()
    for span in sentences.find_sentences(text[start:stop]):
        first, last = start + span.start, start + span.end
        yield _ReportUnit(
            text[first:last], first, last, section, labelled and first <= label_end, False
        )


def _name_section(
    words: str, otherwise: HighlightKind | None = HighlightKind.DONE
) -> HighlightKind | None:
    """Return what the items under a heading are; None for items to leave out."""
    for kind, pattern in _SECTION_PATTERNS:
        if pattern.search(words):
            return kind
    return otherwise


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|")


def _split_cells(row: str) -> list[str]:
    cells = row[:MAX_ROW].strip().strip("|").split("|")
    return [cell.strip(" *\t") for cell in cells[:MAX_CELLS]]


def _join_cells(row: str, names: Sequence[str]) -> str:
    """Return a table row as one text: what it is about, then what it says.

    A figure has the name of its column: "runtime: before 41 min, after 9 min".
    """
    cells = [(cell, name) for cell, name in zip_longest(_split_cells(row), names, fillvalue="")]
    telling = [
        f"{name.lower()} {cell}" if name and number and _FIGURE.fullmatch(cell) else cell
        for number, (cell, name) in enumerate(cells)
        if not _OPAQUE.fullmatch(cell) or (number and _FIGURE.fullmatch(cell))
    ]
    return ": ".join(filter(None, ("".join(telling[:1]), ", ".join(telling[1:]))))
