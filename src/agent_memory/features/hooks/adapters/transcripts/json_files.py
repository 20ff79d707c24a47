"""JSON files of any size, unpacked or in a zip, read one element of their outer list at a time."""

import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from typing import IO

from agent_memory.features.hooks.adapters.transcripts.files import (
    SUFFIX,
    Record,
    parse_object,
    read_lines,
    walk_files,
)
from agent_memory.features.hooks.model.transcripts import TranscriptSource
from agent_memory.kernel.errors import InvalidInput
from agent_memory.platform import files

MAX_ELEMENT_BYTES = 64 << 20  # a conversation
MAX_FILE_BYTES = 2 << 30
MAX_RATIO = 250  # text is packed 5 to 50 times; a bomb a thousand times
MAX_MEMBERS = 1_000  # that are read
MAX_DIRECTORY_BYTES = 8 << 20  # of the list of all members, which is read whole
_RATIO_FROM = 1 << 20  # small files may be packed better
_BLOCK = 1 << 20
# A whole text, a bracket, or the quotation mark of a text that goes on in the next block.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}"]', re.DOTALL)
_ENCRYPTED = 0x1
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, EOFError, KeyError),
    *(NotImplementedError, RuntimeError, ValueError),
)
_END = struct.Struct("<4s4H2LH")  # of a zip; the sixth field is the size of its directory
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_END_MARK, _LOCATOR_MARK, _END_64_MARK = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
_MAX_COMMENT = 1 << 16


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
            members = list_members(file, self._is_wanted)
        return [
            TranscriptSource(path=str(path), size=member.file_size, member=member.filename)
            for member in members
        ]

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        with open_source(source) as file:
            file.seek(offset)
            if source.name.endswith(SUFFIX):
                yield from read_lines(file)
            else:
                yield from read_elements(file, offset)

    def _is_wanted(self, name: str) -> bool:
        return self.names.fullmatch(name) is not None


@contextmanager
def open_source(source: TranscriptSource) -> Iterator[IO[bytes]]:
    """Open a file, or a member of a zip, which is unpacked as it is read."""
    path = Path(source.path)
    with files.open_regular(path, follow_link=True) as file:
        if not source.member:
            yield file
            return
        try:
            with zipfile.ZipFile(file) as archive, archive.open(source.member) as member:
                yield member
        except _DAMAGES as exc:
            raise InvalidInput(f"the archive is damaged: {exc}") from exc


def list_members(file: IO[bytes], is_wanted: Callable[[str], bool]) -> list[zipfile.ZipInfo]:
    """Return the members of a zip with a wanted name. Raises InvalidInput for harmful ones.

    Nothing is unpacked to the disk, so names of members cannot lead anywhere.
    """
    if _measure_directory(file) > MAX_DIRECTORY_BYTES:
        raise InvalidInput("the archive lists too many files: unpack it and import the folder")
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except _DAMAGES as exc:
        raise InvalidInput(f"the archive is damaged: {exc}") from exc
    wanted = [
        member
        for member in members
        if not member.is_dir() and is_wanted(PurePosixPath(member.filename).name)
    ]
    if not wanted and any(member.filename.lower().endswith(".zip") for member in members):
        raise InvalidInput("the archive holds other archives: unpack it and import the folder")
    if len(wanted) > MAX_MEMBERS:
        raise InvalidInput(f"the archive has more than {MAX_MEMBERS:,} files to import: unpack it")
    for member in wanted:
        if reason := _find_harm(member):
            raise InvalidInput(f"{member.filename[:200]!r} in the archive {reason}")
    return sorted(wanted, key=lambda member: member.filename)


def _find_harm(member: zipfile.ZipInfo) -> str:
    if member.flag_bits & _ENCRYPTED:
        return "is encrypted: unpack the archive and import the folder"
    if S_ISLNK(member.external_attr >> 16):
        return "is a link"
    if member.compress_type not in _PACKINGS:
        return "is packed in an uncommon way: unpack the archive and import the folder"
    if member.file_size > MAX_FILE_BYTES:
        return "is longer than 2 GiB"
    if member.file_size > _RATIO_FROM and member.file_size > MAX_RATIO * member.compress_size:
        return f"unpacks to more than {MAX_RATIO} times its size"
    return ""


def _measure_directory(file: IO[bytes]) -> int:
    """Return the size of a zip's list of members, which `zipfile` would read whole."""
    end = file.seek(0, 2)
    start = file.seek(max(0, end - _MAX_COMMENT - _END.size - _LOCATOR.size))
    tail = file.read()
    at = tail.rfind(_END_MARK)
    if at < 0 or len(tail) - at < _END.size:
        return 0
    size = int(_END.unpack_from(tail, at)[5])
    locator = at - _LOCATOR.size
    if locator >= 0 and tail.startswith(_LOCATOR_MARK, locator):
        file.seek(min(int(_LOCATOR.unpack_from(tail, locator)[2]), start + at))
        record = file.read(_END_64.size)
        if record.startswith(_END_64_MARK) and len(record) == _END_64.size:
            size = max(int(_END_64.unpack(record)[8]), size if size != 0xFFFFFFFF else 0)
    return size


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
                yield Record(size=len(self._data), reason="not a JSON list or object")
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
