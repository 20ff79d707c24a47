"""Text for a terminal: lines that fit its width, and colours for ids and times.

In a pipe a line is never broken: programs read it.
"""

import re
from collections.abc import Iterable, Iterator

from rich.cells import cell_len, chop_cells

MIN_WIDTH = 10
HANG = 4  # of the further lines of a row whose first column is wide
NO_BREAK = "\N{NO-BREAK SPACE}"
RESET = "\x1b[0m"
_RESETS = (RESET, "\x1b[m")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_SPACES = re.compile(r"( +)")
# What begins a line: an indent, the mark of a quoted turn, and a bullet, a number or a label.
_BEGINNING = re.compile(
    r"(?P<margin> *(?:> *)?)(?P<mark>(?:- |[✓✗] |\d+\. |\[\d+\] |[A-Z][\w' ]{0,18}: )?)"
)
# The first column of a table.
_COLUMNS = re.compile(r"\S+(?: \S+)* {2,}")
_NAMESPACES = (
    "decisions|learnings|blockers|progress|reviews|patterns|retrospective|inception|elicitation"
    "|research"
)
_ID = rf"\b(?:(?:{_NAMESPACES}):[0-9a-f]{{4,64}}(?::\d+)?|toc:\w+:[\w:-]+|grip:\w+:\w+)\b"
_URI = r"\b(?:memory|subcog)://\S+|\b0[0-9A-HJKMNP-TV-Z]{13}(?:[0-9A-HJKMNP-TV-Z]{12})?\b"
_TIME = (
    r"\b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?"
    r"(?: (?:[A-Z]{2,5}|[+-]\d\d(?::?\d\d)?)\b)?)?(?![\w:-])"
)
_SHAPES = re.compile(
    rf"(?P<styled>\x1b\[[0-9;]*m.*?\x1b\[0?m)|(?P<id>{_URI}|{_ID})|(?P<time>{_TIME})"
    r"|(?P<state>\(to review\)|\[(?:resolved|archived|pending)\])"
    r"|(?P<good>^\N{CHECK MARK})|(?P<bad>^\N{BALLOT X})",
    re.MULTILINE,
)
_CODES = {"state": "35", "id": "33", "time": "36", "good": "32", "bad": "31"}
_STREAM_WORDS = re.compile(r"^(?P<word>error|warning|note):", re.MULTILINE)
_WORD_CODES = {"error": "1;31", "warning": "1;33", "note": "1;36"}


def measure(text: str) -> int:
    """Return how many cells a line takes, without its colours."""
    return cell_len(_STYLE.sub("", text))


def fit(text: str, columns: int) -> str:
    """Break lines that are wider than the terminal, between words.

    Further lines begin below the text of the first. A word that is wider than the terminal, such as
    a URI, stays whole, so that you can copy it.
    """
    lines = (part for line in text.split("\n") for part in _keep_colour(_break(line, columns)))
    return "\n".join(lines).replace(NO_BREAK, " ")


def fold(text: str, columns: int) -> list[str]:
    """Break a text between words, and words that are too wide within."""
    lines: list[str] = []
    for line in _wrap(text, columns):
        lines += chop_cells(line, columns) if cell_len(line) > columns else [line]
    return lines or [""]


def _break(line: str, columns: int) -> Iterator[str]:
    if len(line) * 2 <= columns or measure(line) <= columns:
        yield line.rstrip()
        return
    margin, mark, hang = _read_beginning(line, columns)
    rest = line[len(margin) + len(mark) :]
    margin = margin if columns - len(margin) >= MIN_WIDTH else ""
    width = columns - measure(margin) - measure(mark)
    head, *_ = _split_wide(rest.partition(" ")[0], width)
    if mark.endswith((": ", "  ")) and measure(head) > width:
        # A value that is too wide to stand beside its label, and fits below it or nearly so.
        yield f"{margin}{mark}".rstrip()
        indent = "  " if measure(f"{margin}  {rest}") <= columns else ""
        room = columns - measure(margin)
        yield from (f"{margin}{indent}{part}" for part in _wrap(rest, room))
        return
    first, *others = _wrap(rest, width) or [""]
    yield f"{margin}{mark}{first}".rstrip()
    for other in others:
        # A wide word moves to the left, where it may fit.
        space = max(0, min(hang, columns - measure(margin) - measure(other)))
        yield f"{margin}{' ' * space}{other}".rstrip()


def _read_beginning(line: str, columns: int) -> tuple[str, str, int]:
    """Return the margin of a line, its mark, and how far further lines are indented after the
    margin."""
    beginning = _BEGINNING.match(line)
    margin, mark = (beginning["margin"], beginning["mark"]) if beginning else ("", "")
    table = None if ">" in margin else _COLUMNS.match(line, len(margin))
    if table and measure(table[0]) <= columns // 2:
        mark = table[0]
    elif table and " " not in table[0].strip():
        return margin, "", HANG
    if columns - len(margin) - measure(mark) < MIN_WIDTH:
        mark = ""
    return margin, mark, measure(mark)


def _keep_colour(lines: Iterable[str]) -> Iterator[str]:
    """End a colour at the end of each line, and begin it again on the next: pagers forget it."""
    style = ""
    for line in lines:
        colored = f"{style}{line}"
        for code in _STYLE.findall(line):
            style = "" if code in _RESETS else code
        yield f"{colored}{RESET}" if style else colored


def _wrap(text: str, width: int) -> list[str]:
    lines: list[str] = []
    line = ""
    for piece in _SPACES.split(_free_wide(text, width)):
        if piece.isspace() or not piece:
            line += piece
            continue
        for part in _split_wide(piece, width):
            if line.strip() and measure(line) + measure(part) > width:
                lines.append(line.rstrip())
                line = ""
            line += part
    if line.strip():
        lines.append(line.rstrip())
    return lines


def _free_wide(text: str, width: int) -> str:
    """Allow breaks in what should stay on one line, where that is too wide."""
    if NO_BREAK not in text:
        return text
    words = text.split(" ")
    return " ".join(
        word.replace(NO_BREAK, " ") if measure(word) > width else word for word in words
    )


def _split_wide(word: str, width: int) -> list[str]:
    """Split a word that is too wide where its script puts no spaces; any other word stays whole."""
    plain = _STYLE.sub("", word)
    if cell_len(plain) <= width or cell_len(plain) < len(plain) * 1.5:
        return [word]
    first, *rest = chop_cells(plain, width)
    codes = _STYLE.findall(word)
    if not codes:
        return [first, *rest]
    # The colour goes on to the last part. A colour that begins inside the word begins before it.
    return [f"{codes[0]}{first}", *rest[:-1], "".join((*rest[-1:], *codes[1:]))]


def paint(text: str, code: str) -> str:
    """Give a text a colour, by its number."""
    return f"\x1b[{code}m{text}{RESET}"


def colour(text: str) -> str:
    """Colour ids, times and marks that have no colour yet."""

    def replace(match: re.Match[str]) -> str:
        kind = match.lastgroup or "styled"
        return match[0] if kind == "styled" else paint(match[0], _CODES[kind])

    return _SHAPES.sub(replace, text)


def is_message(text: str) -> bool:
    """Tell whether a text is an error, a warning or a note, and not a piece of a stream."""
    return text.endswith("\n") and _STREAM_WORDS.search(text) is not None


def colour_message(text: str) -> str:
    """Colour the words that begin messages on standard error."""
    return _STREAM_WORDS.sub(
        lambda match: paint(f"{match['word']}:", _WORD_CODES[match["word"]]), text
    )
