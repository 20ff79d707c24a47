"""The working folder of an agent, as its tools see it."""

import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum

from agent_memory.kernel.errors import ToolFailed

MAX_PATH_CHARS = 4_096
MAX_FILE_BYTES = 2 << 20  # of a changed file, which is read and written whole
GIT = ".git"
CHANGED = "the file has changed since the preview: read it again"
NOTHING = ""  # the digest of a missing file
_HALVES = re.compile("[\ud800-\udfff]")  # from bytes that are not UTF-8, or written by a model


class EntryKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # devices, pipes, sockets: never opened


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    """An entry. `path` is relative to the folder; bytes that are not UTF-8 are surrogates in it:
    see `quote_path`."""

    path: str
    kind: EntryKind


@dataclass(frozen=True, slots=True)
class Truncated:
    """The end of an incomplete list, and the reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """The content of a file, or its start. `data` is None if the file does not exist. `path` is
    relative to the folder, with links resolved."""

    path: str
    data: bytes | None
    whole: bool = True

    @property
    def digest(self) -> str:
        return NOTHING if self.data is None else compute_digest(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Lines of a file, from `first` (counted from 1) up to but without `next`."""

    text: str
    first: int
    next: int
    more: bool


def compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_writable(path: str) -> None:
    """Refuse to write to git's own files: git would run commands from them without approval.
    Raises ToolFailed."""
    if any(part.casefold() == GIT for part in path.split("/")):
        raise ToolFailed(f"{quote_path(path)} belongs to git: writing to it is not allowed")


def is_binary(data: bytes) -> bool:
    """Return whether the start of the data contains a zero byte, which UTF-8 text never does."""
    return b"\0" in data[:8_192]


def check_size(content: FileContent) -> None:
    """Refuse a file that was not read whole. Raises ToolFailed."""
    if not content.whole:
        raise ToolFailed(
            f"{quote_path(content.path)} exceeds {MAX_FILE_BYTES >> 20} MiB: too large to change"
        )


def decode_text(content: FileContent) -> str:
    """Decode a file to be changed. Only valid UTF-8 is accepted, since other bytes could not be
    written back unchanged. Raises ToolFailed."""
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
    """Return a name for messages: one line of valid text without control characters. Quote as in
    JSON if needed."""
    name = _HALVES.sub("\ufffd", path)
    return name if name.isprintable() else json.dumps(name)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be stored or sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def escape_hidden(text: str) -> str:
    """Escape characters that are invisible, move the cursor or change the writing direction."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        char if char in "\n\t" or char.isprintable() or (char.isspace() and char not in _MOVING)
        else char.encode("unicode_escape").decode()
        for char in text
    )  # fmt: skip


_MOVING = frozenset("\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029")
