"""Members of zips: those that are wanted, and copies of them to read."""

import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from typing import IO

from agent_memory.features.hooks.model.transcripts import TranscriptSource
from agent_memory.kernel.errors import InvalidInput
from agent_memory.platform import files

MAX_FILE_BYTES = 2 << 30
MAX_RATIO = 250  # text is packed 5 to 50 times; a bomb a thousand times
MAX_MEMBERS = 1_000  # that are read
MAX_DIRECTORY_BYTES = 8 << 20  # of the list of all members, which is read whole
_RATIO_FROM = 1 << 20  # small files may be packed better
_BLOCK = 1 << 20
_ENCRYPTED = 0x1
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGES = (
    zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError,
    ValueError,
)  # fmt: skip
_END = struct.Struct("<4s4H2LH")  # of a zip; the sixth field is the size of its directory
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_END_MARK, _LOCATOR_MARK, _END_64_MARK = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
_MAX_COMMENT = 1 << 16


@contextmanager
def unpack(source: TranscriptSource) -> Iterator[TranscriptSource]:
    """Yield a file that can be read from any place: of a member, a copy for as long as it is read.

    To go on within a packed file, one would have to unpack it from the start. Raises OSError and
    InvalidInput.
    """
    if not source.member:
        yield source
        return
    suffix = PurePosixPath(source.member).suffix
    with tempfile.NamedTemporaryFile(prefix="agent-memory-", suffix=suffix) as copy:
        try:
            with (
                files.open_regular(Path(source.path), follow_link=True) as file,
                zipfile.ZipFile(file) as archive,
            ):
                member = archive.getinfo(source.member)
                _check(member)  # the archive may be another one by now
                with archive.open(member) as packed:
                    while block := packed.read(_BLOCK):
                        copy.write(block)
        except _DAMAGES as exc:
            raise InvalidInput(f"the archive is damaged: {exc}") from exc
        copy.flush()
        yield replace(source, path=copy.name, member="")


def list_members(file: IO[bytes], is_wanted: Callable[[str], bool]) -> list[zipfile.ZipInfo]:
    """Return the members of a zip with a wanted name. Raises InvalidInput for harmful ones."""
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
        _check(member)
    return sorted(wanted, key=lambda member: member.filename)


def _check(member: zipfile.ZipInfo) -> None:
    if reason := _find_harm(member):
        raise InvalidInput(f"{member.filename[:200]!r} in the archive {reason}")


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
