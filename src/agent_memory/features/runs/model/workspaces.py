"""Workspaces: the folder that an agent works in, as its tools see it."""

import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum

from agent_memory.kernel.errors import ToolFailed

MAX_PATH_CHARS = 4_096
MAX_FILE_BYTES = 2 << 20  # of a file that is changed: it is read and written whole
GIT = ".git"
CHANGED = "it has changed since it was shown: read it again"
NOTHING = ""  # the digest of a file that is not there
_HALVES = re.compile("[\ud800-\udfff]")  # bytes that are no UTF-8, and what models make up


class EntryKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # devices, pipes, sockets: none of them is ever opened


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    """`path` is from the folder; bytes that are no UTF-8 are surrogates in it, see `shown`."""

    path: str
    kind: EntryKind


@dataclass(frozen=True, slots=True)
class Truncated:
    """More is there than is told, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """What a file holds, or the beginning of it; `data` is None where there is none. `path` is
    where it lies, from the folder, once links are followed."""

    path: str
    data: bytes | None
    whole: bool = True

    @property
    def digest(self) -> str:
        return NOTHING if self.data is None else compute_digest(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Lines of a file, from `first` on (1 is the first of all) to before `next`."""

    text: str
    first: int
    next: int
    more: bool


def compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_writable(path: str) -> None:
    """What git runs and obeys is there: whoever writes it has commands run that nobody allowed.
    Raises ToolFailed."""
    if any(each.casefold() == GIT for each in path.split("/")):
        raise ToolFailed(f"{quote_path(path)} is git's own: it is not written to")


def is_binary(data: bytes) -> bool:
    """By its beginning: no text has a zero in it, except in encodings that nobody can read here."""
    return b"\0" in data[:8_192]


def check_size(content: FileContent) -> None:
    """It is changed whole or not at all. Raises ToolFailed."""
    if not content.whole:
        raise ToolFailed(
            f"{quote_path(content.path)} has more than {MAX_FILE_BYTES >> 20} MiB:"
            " too large to change"
        )


def decode_text(content: FileContent) -> str:
    """The text of a file that is to be changed: what cannot be read exactly would not be written
    back as it was."""
    data = content.data
    if data is None:
        raise ToolFailed(f"there is no file {quote_path(content.path)}")
    check_size(content)
    if is_binary(data):
        raise ToolFailed(f"{quote_path(content.path)} is a binary file, not text")
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise ToolFailed(f"{quote_path(content.path)} is not UTF-8 text") from exc


def quote_path(path: str) -> str:
    """A name as it can be told: on one line, valid, with nothing that a terminal would obey. What
    is quoted is so as in JSON."""
    name = _HALVES.sub("\ufffd", path)
    return name if name.isprintable() else json.dumps(name)


def replace_surrogates(text: str) -> str:
    """Half a surrogate pair is no text that anyone could store or send."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def escape_hidden(text: str) -> str:
    """Text of several lines in which nothing hides: what would move a cursor or turn the direction
    of writing is told by its number."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        each if each in "\n\t" or each.isprintable() or (each.isspace() and each not in _MOVING)
        else _escape_sign(each)
        for each in text
    )  # fmt: skip


_MOVING = frozenset("\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029")


def _escape_sign(sign: str) -> str:
    if sign == "\r":
        return "\\r"
    code = ord(sign)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )
