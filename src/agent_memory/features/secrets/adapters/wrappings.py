"""Views of a text without wrappings of secrets: escapes, colors, line breaks, base64, hex.

A view is an edited text that maps its ranges back to the original. RE2 finds the wrappings; the
work is proportional to their number.
"""

import base64
import html
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LINE_REACH = 16 << 10  # bytes of a long line that a view shows after a wrapping
BEFORE_REACH = 1 << 10  # and before it
GAP = b"\n\xff\n"  # replaces the text between two pieces of a view; no UTF-8 text has this byte
CHUNK = 12  # encoded text is redacted in units of so many groups

# ---- removals and replacements ----

_ESCAPES = r"\\{1,16}"
_ESC = (
    rf"(?:\x1b|{_ESCAPES}(?:x1[bB]|u001[bB]|u\{{1[bB]\}}|0?33|e)|\^\[|\xe2\x90\x9b|"
    r"%(?:25){0,8}1[bB]|&#(?:27|x1[bB]);)"
)
_TERMINAL = (
    rf"{_ESC}\[[0-9;:?<=>]{{0,40}}[ -/]{{0,4}}[@-~]"  # colors, the cursor
    r"|\xc2\x9b[0-9;:?]{0,40}[@-~]"
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[PX^_][^\x1b\n]*\x1b\\"
    r"|\x1b[()*+#%][A-Za-z0-9]|\x1b[@-Z\\=><78c]|\x1b"
    r"|\[[0-9]{1,3}(?:;[0-9]{1,3}){0,8}m"  # a color that has lost its escape
)
_OVERSTRUCK = r"(?:[\x00-\x07\x09\x0b-\x7f]|[\xc2-\xf4][\x80-\xbf]{1,3})\x08|\x08"
_CONTROLS = r"[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]+"  # one match per run: files have nulls
_INVISIBLE = (
    r"(?:\xc2\xad|\xcd\x8f|\xe1\x85[\x9f\xa0]|\xe1\xa0\x8e|\xe2\x80[\x8b-\x8f\xaa-\xae]|"
    r"\xe2\x81[\xa0-\xaf]|\xef\xb8[\x80-\x8f]|\xef\xbb\xbf|\xf3\xa0[\x80\x81][\x80-\xbf])+"
)
_CONTINUED = r"\\\r?\n"
_TAGS = r"(?i:<wbr ?/?>|<!-- ?-->)"

_BYTE = "(?:0[9aAdD]|1[bB]|[2-9a-fA-F][0-9a-fA-F])"  # only these control characters
_PERCENT = rf"%(?:25){{0,8}}{_BYTE}"
_CODED = (
    rf"{_ESCAPES}(?:u00{_BYTE}|u(?:20|fe|ff|FE|FF)[0-9a-fA-F]{{2}}|u\{{[0-9a-fA-F]{{2,6}}\}}|"
    rf"x{_BYTE}|U000[0-9a-fA-F]{{5}}|0[4-7][0-7]|033|1[0-7]{{2}})"
)
_ENTITY = (
    r"&(?:amp;){0,8}(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|quot|apos|amp|lt|gt|equals|colon|"
    r"lowbar|hyphen|dash|period|sol|commat|nbsp|shy|zwj|zwnj|ZeroWidthSpace|NoBreak);"
)
_PUNCTUATED = rf"\\{{2,16}}[\"'nrt]|{_ESCAPES}[_/]"
_PRINTABLE = "=(?:3D|5F|20|22|27)"  # quoted-printable
_BLANKS = r"\xc2\xa0|\xe2\x80[\x80-\x8a\xaf]|\xe2\x81\x9f|\xe3\x80\x80"
_WIDE = (
    r"\xef\xbc[\x8d\x8e\x90-\x99\x9d\xa1-\xba\xbf]|\xef\xbd[\x81-\x9a]|"
    r"\xf0\x9d[\x90-\x9f][\x80-\xbf]|\xe2[\x92\x93][\x80-\xbf]|\xf0\x9f[\x84\x85][\x80-\xbf]"
)

REMOVED = "|".join((_TERMINAL, _OVERSTRUCK, _CONTROLS, _INVISIBLE, _CONTINUED, _TAGS))
REPLACED = "|".join((_PERCENT, _CODED, _ENTITY, _PUNCTUATED, _PRINTABLE, _BLANKS, _WIDE))
WRAPPING = f"({REMOVED})|({REPLACED})"

# ---- text broken over lines ----

_RUN = r"[A-Za-z0-9_+/.~%:=\-]"
_BROKEN = r"[=\\]?[ \t]{0,4}\r?\n"
# One side is long, or both are fairly long, unlike in prose.
BROKEN = "|".join(
    rf"{_RUN}{{{before},}}{_BROKEN}{_RUN}{{{after}}}"
    for before, after in ((14, 2), (2, 14), (7, 7))
)
BROKEN_RUN = "|".join(
    rf"{_RUN}{{{before},}}{_BROKEN}{_RUN}{{{after},}}(?:{_BROKEN}{_RUN}{{2,}})*"
    for before, after in ((14, 2), (2, 14), (7, 7))
)
RUN = rf"{_RUN}*"
LINE_BREAK = r"=\r?\n|\\\r?\n|[ \t]{0,4}\r?\n"

# ---- encoded text ----

# Base64 of ASCII: three bytes below 128, the first of them printable, a line end or an escape.
_FIRST = "[CDGI-Za-f]"
_SECOND = "[A-HQ-Xg-nw-z0-3]"
_THIRD = "[ABEFIJMNQRUVYZcdghklopstwx014589]"
_ANY = r"[A-Za-z0-9+/_\-]"
_QUAD = f"{_FIRST}{_SECOND}{_THIRD}{_ANY}"
BASE64_LEAD = f"(?:{_QUAD}){{5}}"
BASE64 = f"(?:{_QUAD}){{5,}}"
_PAIR = "[2-7][0-9a-fA-F]"
HEX_LEAD = f"(?:{_PAIR}){{16}}"
HEX = f"(?:{_PAIR}){{16,}}"
ENCODED_REACH = 512  # bytes of encoded non-ASCII on either side that are decoded too


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A replacement of [start, end) of a text by `instead`; None leaves a gap."""

    start: int
    end: int
    instead: bytes | None


class _ViewPiece(NamedTuple):
    """The origin of a piece of a view. `shift` maps it back if it is unedited."""

    start: int
    end: int
    shift: int | None
    gap: bool


class View:
    """A text after edits, which are in order and do not overlap."""

    def __init__(self, data: bytes, edits: Iterable[TextEdit]) -> None:
        self._at: list[int] = []  # where each piece begins
        self._pieces: list[_ViewPiece] = []
        shown: list[bytes] = []
        at = done = 0
        for edit in (*edits, TextEdit(len(data), len(data), b"")):
            if edit.start > done:
                shown.append(data[done : edit.start])
                self._at.append(at)
                self._pieces.append(_ViewPiece(done, edit.start, done - at, gap=False))
                at += edit.start - done
            instead = GAP if edit.instead is None else edit.instead
            if instead:
                shown.append(instead)
                self._at.append(at)
                self._pieces.append(_ViewPiece(edit.start, edit.end, None, edit.instead is None))
                at += len(instead)
            done = edit.end
        self.data = b"".join(shown)

    def find(self, at: int) -> int:
        """Return the position in the view of `at` in the text."""
        index = bisect_right(self._pieces, at, key=lambda piece: piece.start) - 1
        return self._at[index] + at - self._pieces[index].start

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of the text that [start, end) of the view came from."""
        first, last = (self._pieces[index] for index in self._range(start, end))
        return (
            first.start if first.shift is None else start + first.shift,
            last.end if last.shift is None else end + last.shift,
        )

    def has_gap(self, start: int, end: int) -> bool:
        first, last = self._range(start, end)
        return any(piece.gap for piece in self._pieces[first : last + 1])

    def joins(self, start: int, end: int) -> bool:
        """Return whether [start, end) is made of several pieces of the text."""
        first, last = self._range(start, end)
        return first != last

    def _range(self, start: int, end: int) -> tuple[int, int]:
        return bisect_right(self._at, start) - 1, bisect_right(self._at, end - 1) - 1


def find_glued(data: bytes, edits: Sequence[TextEdit]) -> list[int]:
    """Return the indexes of removals with a word on both sides."""
    return [
        index
        for index, edit in enumerate(edits)
        if not edit.instead
        and _is_word(data[edit.start - 1 : edit.start])
        and _is_word(data[edit.end : edit.end + 1])
    ]


def _is_word(char: bytes) -> bool:
    return char.isalnum() or char == b"_"


def keep_wrapped_lines(data: bytes, edits: Sequence[TextEdit]) -> list[TextEdit]:
    """Add edits that leave only the lines with a wrapping."""
    result: list[TextEdit] = []
    shown = 0  # the lines up to here stay
    line_end = -1
    for edit in edits:
        if edit.start >= shown:
            line = data.rfind(b"\n", max(shown, edit.start - BEFORE_REACH), edit.start) + 1
            start = max(shown, line or edit.start - BEFORE_REACH)
            if start > shown:
                result.append(TextEdit(shown, start, None))
        result.append(edit)
        if line_end < edit.end:
            line_end = data.find(b"\n", edit.end) + 1 or len(data)
        shown = max(shown, min(line_end, edit.end + LINE_REACH))
    if shown < len(data):
        result.append(TextEdit(shown, len(data), None))
    return result


def keep_pieces(size: int, pieces: Iterable[tuple[int, int, Sequence[TextEdit]]]) -> list[TextEdit]:
    """Return edits that leave only these pieces of a text, each with edits of its own."""
    result: list[TextEdit] = []
    done = 0
    for start, end, edits in pieces:
        if start > done:
            result.append(TextEdit(done, start, None))
        result += edits
        done = end
    if done < size:
        result.append(TextEdit(done, size, None))
    return result


def join_lines(text: bytes) -> bytes:
    """Remove the line breaks of a run."""
    text = text.replace(b"\r\n", b"\n").replace(b"=\n", b"").replace(b"\\\n", b"")
    return b"".join(line.rstrip(b" \t") for line in text.split(b"\n"))


def from_base64(data: bytes, start: int, end: int, least: int) -> tuple[int, int, list[TextEdit]]:
    start, end = _widen(data, start, end, least, 4, _BASE64)
    tail = data[end : end + 3]
    end += len(tail) - len(tail.lstrip(_BASE64))
    end += 2 if data[end : end + 2] == b"==" else data[end : end + 1] == b"="
    return start, end, _decode_pieces(data, start, end, 4 * CHUNK, _base64)


def from_hex(data: bytes, start: int, end: int, least: int) -> tuple[int, int, list[TextEdit]]:
    start, end = _widen(data, start, end, least, 2, _HEX)
    return start, end, _decode_pieces(data, start, end, 2 * CHUNK, bytes.fromhex)


_HEX = b"0123456789abcdefABCDEF"
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"


def _widen(
    data: bytes, start: int, end: int, least: int, group: int, alphabet: bytes
) -> tuple[int, int]:
    """Return the bounds of encoded text, widened by whole groups on both sides."""
    least = max(least, start - ENCODED_REACH)
    while start - group >= least and not data[start - group : start].strip(alphabet):
        start -= group
    most = end + ENCODED_REACH
    while end < most and len(more := data[end : end + group]) == group and not more.strip(alphabet):
        end += group
    return start, end


def _decode_pieces(
    data: bytes, start: int, end: int, size: int, decode: Callable[[str], bytes]
) -> list[TextEdit]:
    """Decode in pieces, so that little text around a secret is redacted with it."""
    text = data[start:end].decode("ascii")
    return [
        TextEdit(start + at, min(end, start + at + size), decode(text[at : at + size]))
        for at in range(0, len(text), size)
    ]


def _base64(text: str) -> bytes:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    bare = bare[:-1] if len(bare) % 4 == 1 else bare
    return base64.b64decode(bare + "=" * (-len(bare) % 4))


def decode_escape(wrapped: bytes) -> bytes:
    """Return the bytes that an escape stands for."""
    first = wrapped[:1]
    if first == b"%":
        return bytes.fromhex(wrapped[-2:].decode())
    if first == b"=":
        return bytes.fromhex(wrapped[1:].decode())
    if first == b"&":
        return html.unescape("&" + wrapped.decode().rsplit("amp;", 1)[-1].lstrip("&")).encode(
            "utf-8", "replace"
        )
    if first == b"\\":
        return _decode_code(wrapped.lstrip(b"\\").decode())
    return unicodedata.normalize("NFKC", wrapped.decode("utf-8", "replace")).encode()


_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}


def _decode_code(code: str) -> bytes:
    kind, digits = code[0], code[1:].strip("{}")
    if kind in "uUx" and digits:
        return _character(int(digits, 16))
    if kind in "01":
        return _character(int(code, 8))
    return _LETTERS.get(kind, kind).encode()


def _character(number: int) -> bytes:
    is_character = number < 0x110000 and not 0xD800 <= number < 0xE000
    return chr(number).encode() if is_character else b"?"
