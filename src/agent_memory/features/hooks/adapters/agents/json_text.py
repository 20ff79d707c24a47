"""JSON as text: change some values, and keep every other byte.

Only objects and lists with a change are parsed; the rest is copied as text, so numbers, escapes,
order and spacing survive.
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
        return json.loads(self.text)


class JsonContainer:
    """An object or list that is parsed into its members."""

    def __init__(self, text: str, style: Style, indent: str | None) -> None:
        self._style = style
        self._indent = indent  # of the line it starts on; None if it is on one line
        self._ends = text[0], text[-1]
        self._blank = ""  # the whitespace in it if it has no members
        self.pieces: list[Piece] = []
        self._read(text)

    @property
    def text(self) -> str:
        inner = ",".join(f"{p.lead}{p.head}{p.text}{p.tail}" for p in self.pieces)
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
            elif len(self.pieces) == 1:
                lead = " " if style.spaced else ""
            tail, last.tail = last.tail, ""
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
        elif position == 0:
            self.pieces[1].lead = piece.lead
        elif position == len(self.pieces) - 1:
            self.pieces[-2].tail = piece.tail
        del self.pieces[position]

    def _indent_of(self, piece: Piece) -> str | None:
        _, newline, indent = piece.lead.rpartition("\n")
        return indent if newline else self._indent

    def _read(self, text: str) -> None:
        is_object = text[0] == "{"
        at = 1
        while True:
            start = _skip_blanks(text, at)
            lead, key, first = text[at:start], "", start
            if text[start] == self._ends[1]:
                self._blank = lead
                return
            if is_object:
                key, end = _decoder.raw_decode(text, start)
                first = _skip_blanks(text, _skip_blanks(text, end) + 1)
            _, end = _decoder.raw_decode(text, first)
            after = _skip_blanks(text, end)
            self.pieces.append(
                Piece(
                    lead=lead,
                    head=text[start:first],
                    key=key,
                    raw=text[first:end],
                    tail=text[end:after],
                )
            )
            if text[after] != ",":
                return
            at = after + 1


class JsonDocument:
    """A file with one JSON object. Raises ConfigError for anything else."""

    def __init__(self, text: str) -> None:
        mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
        text = text.removeprefix(mark) if text.strip(_BYTE_ORDER_MARK + " \t\r\n") else "{}\n"
        _check(text)
        start = _skip_blanks(text, 0)
        end = len(text.rstrip(" \t\r\n"))
        self._before, self._after = mark + text[:start], text[end:]
        whole = text[start:end]
        newline = "\r\n" if "\r\n" in text else "\n"
        plain = JsonContainer(whole, Style(newline=newline, unit=INDENT, spaced=True), "")
        self.root = JsonContainer(whole, _detect_style(plain, newline), "")

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


def _skip_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return at if blanks is None else blanks.end()
