"""JSON files of any size, unpacked or in a zip, read one element of their outer list at a time."""

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agent_memory.features.hooks.adapters.transcripts import archives
from agent_memory.features.hooks.adapters.transcripts.files import (
    SUFFIX,
    Record,
    parse_object,
    read_lines,
    walk_files,
)
from agent_memory.features.hooks.model.transcripts import TranscriptSource
from agent_memory.platform import files

MAX_ELEMENT_BYTES = 64 << 20  # a conversation
_BLOCK = 1 << 20
# A whole text, a bracket, or the quotation mark of a text that goes on in the next block.
_NO_JSON = "no JSON list or object, and no whole zip: is the download complete?"
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}"]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class JsonFiles:
    """Files of an export: in a folder, in a zip, or one file of any name."""

    names: re.Pattern[str]

    def list_sources(self, path: Path, /) -> list[TranscriptSource]:
        if path.is_dir():
            found = walk_files(path, lambda file: self._is_wanted(file.name))
            return [TranscriptSource(path=str(file), size=file.stat().st_size) for file in found]
        with files.open_regular(path, follow_link=True) as file:
            if not zipfile.is_zipfile(file):
                return [TranscriptSource(path=str(path), size=path.stat().st_size)]
            members = archives.list_members(file, self._is_wanted)
        return [
            TranscriptSource(path=str(path), size=member.file_size, member=member.filename)
            for member in members
        ]

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        with files.open_regular(Path(source.path), follow_link=True) as file:
            file.seek(offset)
            if source.name.endswith(SUFFIX):
                yield from read_lines(file)
            else:
                yield from read_elements(file, offset)

    def _is_wanted(self, name: str) -> bool:
        return self.names.fullmatch(name) is not None


def read_elements(file: IO[bytes], offset: int = 0) -> Iterator[Record]:
    """Yield the objects of the outer list, or the one object that the file holds.

    After the first element, `offset` is where an element has ended.
    """
    scan = _ElementScan(is_list=offset > 0)
    while True:
        block = file.read(_BLOCK)
        yield from scan.feed(block)
        if not block:
            return


class _ElementScan:
    """Finds the elements of a list in blocks of bytes, without parsing them."""

    def __init__(self, *, is_list: bool) -> None:
        self._is_list = is_list
        self._started = is_list
        self._data = b""  # since the end of the last element
        self._scanned = 0  # of it
        self._depth = int(is_list)
        self._dropped = 0  # bytes of an element that is too long

    def feed(self, block: bytes) -> Iterator[Record]:
        """Yield the elements that end in a block. An empty block is the end of the file."""
        self._data += block
        if not self._started and not self._start():
            if not block and self._data.strip():
                yield Record(size=len(self._data), reason=_NO_JSON)
            return
        outer = int(self._is_list)
        start = at = 0  # of the element; of what is not scanned
        for token in _TOKEN.finditer(self._data, self._scanned):
            kind = token[0]
            if kind == b'"':
                at = token.start()
                break
            at = token.end()
            if kind in b"[{":
                self._depth += 1
            elif kind in b"]}":
                self._depth -= 1
                if self._depth == outer:
                    yield self._take(start, at)
                    start = at
                elif self._depth < outer:
                    self._depth = outer  # the end of the list; what follows is no element
        else:
            at = len(self._data)
        self._data, self._scanned = self._data[start:], at - start
        if not block:
            if self._depth > outer:
                yield Record(size=self._dropped + len(self._data), reason="the file ends within it")
            self._data = b""
        elif len(self._data) > MAX_ELEMENT_BYTES:
            self._drop()

    def _start(self) -> bool:
        """Find out what the file holds. Return False if this takes more bytes, or is neither."""
        head = self._data.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not head.startswith((b"[", b"{")):
            return False
        self._is_list = self._started = True
        if head.startswith(b"{"):
            self._is_list = False
        else:
            self._depth = 1
            self._scanned = self._data.index(b"[") + 1
        return True

    def _take(self, start: int, end: int) -> Record:
        size = self._dropped + end - start
        if self._dropped:
            self._dropped = 0
            return Record(size=size, reason="longer than 64 MiB")
        data = self._data[start:end]
        if start == 0:
            data = data.removeprefix(b"\xef\xbb\xbf")
        opening = data.find(b"{")
        fields = parse_object(data[opening:]) if opening >= 0 else None
        return Record(size=size, fields=fields, reason="" if fields else "not a JSON object")

    def _drop(self) -> None:
        """Forget the bytes of an element that is too long, up to a text that is not whole."""
        rest = self._data[self._scanned :]
        if len(rest) > MAX_ELEMENT_BYTES // 2:
            backslashes = len(rest) - len(rest.rstrip(b"\\"))
            rest = b'"\\' if backslashes % 2 else b'"'
        self._dropped += len(self._data) - len(rest)
        self._data, self._scanned = rest, 0
