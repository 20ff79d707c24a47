"""JSON as text: change some values, and keep every other byte.

Only objects and lists with a change are parsed; the rest is copied as text, so numbers, escapes,
order and spacing survive. Comments and a trailing comma are read as spaces, and stay where they
are: a comment belongs to what stands before it in its line, or else to what follows.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from agent_memory.kernel.errors import ConfigError

Json: TypeAlias = Any  # a value of json.loads
INDENT = "  "
_BLANKS = re.compile(r"[ \t\n\r]*")
_LINE_START = re.compile(r"\r?\n[ \t]*\Z")
_COMMENTS = ("//", "/*", "#")
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"?|,(?=\s*[}\]])', re.DOTALL)
_NOT_A_BREAK = re.compile(r"[^\r\n]")
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The layout of a text. `unit` is the indent, or None if all is on one line."""

    newline: str
    unit: str | None
    spaced: bool  # a space after colons and commas

    def render(self, value: Json, indent: str | None) -> str:
        if indent is None:
            separators = (", ", ": ") if self.spaced else (",", ":")
            return json.dumps(value, ensure_ascii=False, separators=separators)
        unit = INDENT if self.unit is None else self.unit
        text = json.dumps(value, ensure_ascii=False, indent=unit)
        return text.replace("\n", self.newline + indent)

    def key(self, key: str) -> str:
        return json.dumps(key, ensure_ascii=False) + (": " if self.spaced else ":")


@dataclass(slots=True, kw_only=True)
class Piece:
    """A member of an object, or an item of a list, with the whitespace around it."""

    lead: str
    head: str  # the key and its colon; empty in a list
    key: str
    raw: str
    tail: str
    inside: "JsonContainer | None" = None

    @property
    def text(self) -> str:
        return self.raw if self.inside is None else self.inside.text

    @property
    def value(self) -> Json:
        return json.loads(_blank_comments(self.text))


class JsonContainer:
    """An object or list that is parsed into its members."""

    def __init__(self, text: str, style: Style, indent: str | None) -> None:
        self._style = style
        self._indent = indent  # of the line it starts on; None if it is on one line
        self._ends = text[0], text[-1]
        self._blank = ""  # the whitespace in it if it has no members
        self._comma = ""  # after the last member
        self.pieces: list[Piece] = []
        self._read(text, _blank_comments(text))

    @property
    def text(self) -> str:
        inner = "".join(f"{p.lead}{p.head}{p.text}{p.tail}," for p in self.pieces[:-1])
        for last in self.pieces[-1:]:
            inner += f"{last.lead}{last.head}{last.text}{self._comma}{last.tail}"
        return f"{self._ends[0]}{inner or self._blank}{self._ends[1]}"

    def get(self, key: str) -> Piece | None:
        """Return the member of a key, or None.

        Raises ConfigError if there are two: agents differ in which one counts.
        """
        members = [piece for piece in self.pieces if piece.key == key]
        if len(members) > 1:
            raise ConfigError(f"the key {key!r} is there twice: remove one of them")
        return members[0] if members else None

    def open(self, piece: Piece) -> "JsonContainer":
        if piece.inside is None:
            piece.inside = JsonContainer(piece.raw, self._style, self._indent_of(piece))
        return piece.inside

    def put(self, piece: Piece, value: Json) -> None:
        piece.inside = None
        one_line = "\n" not in piece.lead and "\n" not in piece.raw
        piece.raw = self._style.render(value, None if one_line else self._indent_of(piece) or "")

    def append(self, value: Json, key: str | None = None) -> None:
        """Append a value, in the layout of the last one."""
        style = self._style
        if self.pieces:
            last = self.pieces[-1]
            lead = last.lead
            if start := _LINE_START.search(lead):
                lead = start.group()
            elif len(self.pieces) == 1 or lead.strip():  # a comment is not part of the layout
                lead = " " if style.spaced else ""
            comment, tail = _split_tail(last.tail)
            lead, last.tail = comment + lead, ""
        elif style.unit is None:
            lead, tail = self._blank, ""
        else:
            indent = self._indent or ""
            lead = self._blank + style.newline + indent + style.unit
            tail = style.newline + indent
        piece = Piece(
            lead=lead,
            head="" if key is None else style.key(key),
            key=key or "",
            raw="",
            tail=tail,
        )
        piece.raw = style.render(value, self._indent_of(piece) if "\n" in lead else None)
        self.pieces.append(piece)

    def remove(self, piece: Piece) -> None:
        """Remove a piece. After `append`, this restores the text exactly."""
        position = self.pieces.index(piece)
        if len(self.pieces) == 1:
            self._blank = _LINE_START.sub("", piece.lead)
            self._blank += piece.tail if piece.tail.strip() else ""
            self._comma = ""
        elif position == len(self.pieces) - 1:
            self.pieces[-2].tail = _move_comments(piece.lead, piece.tail)
        elif position == 0 and not self.pieces[1].lead.strip():
            self.pieces[1].lead = piece.lead
        else:
            following = self.pieces[position + 1]
            following.lead = _move_comments(piece.lead, following.lead)
        del self.pieces[position]

    def _indent_of(self, piece: Piece) -> str | None:
        _, newline, indent = piece.lead.rpartition("\n")
        return indent if newline else self._indent

    def _read(self, text: str, plain: str) -> None:
        """Read the members. `plain` is the text with spaces for comments: it has the structure."""
        is_object = text[0] == "{"
        at = 1
        while True:
            start = _skip_blanks(plain, at)
            lead, key, first = text[at:start], "", start
            if plain[start] == self._ends[1]:
                self._blank = lead
                return
            if is_object:
                key, end = _decoder.raw_decode(plain, start)
                first = _skip_blanks(plain, _skip_blanks(plain, end) + 1)
            _, end = _decoder.raw_decode(plain, first)
            after = _skip_blanks(plain, end)
            self.pieces.append(
                Piece(
                    lead=lead,
                    head=text[start:first],
                    key=key,
                    raw=text[first:end],
                    tail=text[end:after],
                )
            )
            if plain[after] != ",":
                self._take_comma(self.pieces[-1])
                return
            at = after + 1

    def _take_comma(self, last: Piece) -> None:
        """Take a trailing comma out of the tail, which is blank but for comments."""
        if _blank_comments(last.tail, commas=False).strip() != ",":
            return
        if not last.tail.startswith(","):
            raise ConfigError("a comma stands apart from its value: move it next to the value")
        self._comma, last.tail = ",", last.tail[1:]


class JsonDocument:
    """A file with one JSON object. Raises ConfigError for anything else."""

    def __init__(self, text: str, *, comments: bool = False) -> None:
        mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
        text = text.removeprefix(mark) if text.strip(_BYTE_ORDER_MARK + " \t\r\n") else "{}\n"
        plain = _blank_comments(text)
        _check(plain if comments else text)
        start = _skip_blanks(plain, 0)
        end = len(plain.rstrip(" \t\r\n"))
        self._before, self._after = mark + text[:start], text[end:]
        whole = text[start:end]
        newline = "\r\n" if "\r\n" in text else "\n"
        first = JsonContainer(whole, Style(newline=newline, unit=INDENT, spaced=True), "")
        self.root = JsonContainer(whole, _detect_style(first, newline), "")

    @property
    def text(self) -> str:
        return self._before + self.root.text + self._after


def _detect_style(root: JsonContainer, newline: str) -> Style:
    if not root.pieces:
        return Style(newline=newline, unit=INDENT, spaced=True)
    spaced = root.pieces[0].head.endswith((" ", "\t"))
    for piece in root.pieces:
        _, line_break, indent = piece.lead.rpartition("\n")
        if line_break:
            return Style(newline=newline, unit=indent, spaced=spaced)
    return Style(newline=newline, unit=None, spaced=spaced)


def _check(text: str) -> None:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        if text[exc.pos :].lstrip().startswith(_COMMENTS):
            raise ConfigError(
                f"there is a comment at {where}, which an edit would lose:"
                " remove the comments, or add the hooks by hand"
            ) from exc
        raise ConfigError(f"it is not valid JSON: {exc.msg} at {where}") from exc
    except RecursionError as exc:
        raise ConfigError("it is nested too deeply") from exc
    except ValueError as exc:  # a number of thousands of digits
        raise ConfigError(f"it cannot be read: {exc}") from exc
    if not isinstance(value, dict):
        raise ConfigError("it is JSON, but not an object")


def _blank_comments(text: str, *, commas: bool = True) -> str:
    """Return the text with spaces for comments and trailing commas. Positions stay the same."""
    if "//" in text or "/*" in text:
        text = _STRING_OR_COMMENT.sub(_blank_match, text)
    return _TRAILING_COMMA.sub(_blank_match, text) if commas else text


def _blank_match(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else _NOT_A_BREAK.sub(" ", found)


def _find_comment(lead: str) -> str:
    """Return the comments of a lead, with the blanks before them."""
    return _LINE_START.sub("", lead).rstrip(" \t") if lead.strip() else ""


def _move_comments(lead: str, rest: str) -> str:
    """Put the comments of a lead before the rest. One that ends with its line keeps the break."""
    comment = _find_comment(lead)
    needs_break = comment and "\n" not in rest and _LINE_START.search(lead)
    return lead + rest if needs_break else comment + rest


def _split_tail(tail: str) -> tuple[str, str]:
    """Split the text after the last member into its comments and the end."""
    comment = _find_comment(tail)
    return comment, tail[len(comment) :]


def _skip_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return at if blanks is None else blanks.end()
