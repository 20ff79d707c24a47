"""Transcript files, parsed in chunks by the worker process, because parsing is pure Python."""

import io
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from agent_memory.features.hooks.model.transcripts import (
    Chunk,
    RejectedLine,
    TranscriptEntry,
    TranscriptSource,
)
from agent_memory.kernel.errors import InvalidInput, WorkerClosed, WorkerFailed
from agent_memory.kernel.json_fields import Fields
from agent_memory.platform import files
from agent_memory.platform.ports import Worker

CHUNK_BYTES = 1 << 20  # a chunk has at most this and one more record
CHUNK_RECORDS = 1_000  # that are recorded or refused
MAX_GROUP = 100  # small files that are read together
MAX_REFUSED = 10_000  # records in a row; what then follows is left out
MAX_LINE_BYTES = 32 << 20
MAX_FILES = 100_000
MAX_SEEN = 1_000_000  # files in folders that are searched
SECONDS_PER_CHUNK = 60.0
SUFFIX = ".jsonl"
SUBAGENTS = "subagents"  # a folder inside one with the name of the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a file: a JSON object, or the reason why it has none.

    `size` counts the bytes since the record before it. A record with neither fields nor a reason
    is noise, such as an empty line, or many of them.
    """

    size: int
    lines: int = 1
    fields: Fields | None = None
    reason: str = ""


class TranscriptParser(Protocol):
    """A parser of one transcript format.

    It keeps state for later records. It is sent to the worker and back with each chunk, so the
    state must be small.
    """

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        """Return the entries of a record, or None for noise. Raises InvalidInput."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file, and where to go on reading it. `file` is the one to open, such as an unpacked copy.

    `refused` counts the records since the last good one.
    """

    source: TranscriptSource
    file: TranscriptSource
    parser: TranscriptParser
    offset: int = 0
    number: int = 0
    refused: int = 0


class FileLayout(Protocol):
    """Where an agent keeps its files, and how they are cut into records."""

    def list_sources(self, path: Path, /) -> list[TranscriptSource]:
        """Return the files at a path that exists, in the order in which they are read."""
        ...

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        """Yield the records of a file after so many bytes. Raises OSError and InvalidInput."""
        ...


class TranscriptFiles:
    def __init__(
        self,
        worker: Worker,
        build_parser: Callable[[TranscriptSource], TranscriptParser],
        layout: FileLayout,
        open_source: Callable[
            [TranscriptSource], AbstractContextManager[TranscriptSource]
        ] = nullcontext,
    ) -> None:
        """Take a function that builds the parser of a file.

        `open_source` gives the layout another file to read, for as long as it reads.
        """
        self._worker = worker
        self._build_parser = build_parser
        self._layout = layout
        self._open_source = open_source

    def list_sources(self, location: str, /) -> list[TranscriptSource]:
        path = Path(location)
        try:
            mode = path.stat().st_mode
        except OSError as exc:
            raise InvalidInput(f"cannot read {path}: {exc.strerror}") from exc
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise InvalidInput(f"{path} is neither a file nor a folder")
        try:
            return self._layout.list_sources(path)
        except OSError as exc:
            raise InvalidInput(f"cannot read {path}: {exc.strerror}") from exc

    def read_chunks(
        self, sources: Sequence[TranscriptSource], /
    ) -> Iterator[tuple[TranscriptSource, Chunk]]:
        for group in _group_small(sources):
            readings = [
                Reading(source=source, file=source, parser=self._build_parser(source))
                for source in group
            ]
            yield from self._read_group(readings)

    def _read_group(self, left: list[Reading]) -> Iterator[tuple[TranscriptSource, Chunk]]:
        try:
            with self._open_source(left[0].file) as file:
                left = [replace(left[0], file=file), *left[1:]]
                while left:
                    before = left
                    chunks, left = self._worker.call(
                        read_chunks, self._layout, left, timeout_seconds=SECONDS_PER_CHUNK
                    )
                    for reading, chunk in zip(before, chunks, strict=False):
                        if chunk.lines or chunk.refused:
                            yield reading.source, chunk
        except WorkerClosed:
            raise
        except (OSError, InvalidInput, WorkerFailed) as exc:
            if len(left) > 1:  # one by one, to find the file that fails
                for each in left:
                    yield from self._read_group([each])
            else:
                yield left[0].source, _refuse_file(left[0], exc)


def _group_small(sources: Sequence[TranscriptSource]) -> Iterator[list[TranscriptSource]]:
    """Group small files that follow each other, so that thousands of notes take few calls."""
    group: list[TranscriptSource] = []
    size = 0
    for source in sources:
        # A member of an archive is unpacked for as long as its group is read.
        own = CHUNK_BYTES + 1 if source.member else source.size
        if group and (size + own > CHUNK_BYTES or len(group) == MAX_GROUP):
            yield group
            group, size = [], 0
        group.append(source)
        size += own
    if group:
        yield group


def read_chunks(
    layout: FileLayout, readings: Sequence[Reading]
) -> tuple[list[Chunk], list[Reading]]:
    """Read a chunk of each of the first files, until they are together as long as a chunk may be.
    Return the readings that go on, too."""
    chunks: list[Chunk] = []
    size = records = 0
    for number, reading in enumerate(readings, 1):
        try:
            chunk, following = _read_chunk(layout, reading)
        except (OSError, InvalidInput) as exc:
            chunk, following = _refuse_file(reading, exc), None
        chunks.append(chunk)
        size += chunk.size
        records += len(chunk.recorded) + len(chunk.refused)
        if following is not None:
            return chunks, [following, *readings[number:]]
        if size >= CHUNK_BYTES or records >= CHUNK_RECORDS:
            return chunks, list(readings[number:])
    return chunks, []


def _read_chunk(layout: FileLayout, reading: Reading) -> tuple[Chunk, Reading | None]:
    """Read the next records of a file. Return how to go on, or None at its end."""
    recorded: list[TranscriptEntry] = []
    refused: list[RejectedLine] = []
    noise = lines = size = 0
    in_row = reading.refused
    is_whole = True
    for record in layout.read_records(reading.file, reading.offset):
        lines += record.lines
        size += record.size
        place = reading.number + lines
        try:
            if record.reason:
                raise InvalidInput(record.reason)
            fields = record.fields
            entries = None if fields is None else reading.parser.parse_line(fields, place)
        except InvalidInput as exc:
            refused.append(RejectedLine(line=place, reason=str(exc)))
            in_row += 1
        except RecursionError:
            refused.append(RejectedLine(line=place, reason="nested too deeply"))
            in_row += 1
        else:
            noise += record.lines if entries is None else 0
            recorded += entries or ()
            in_row = in_row if entries is None else 0
        if in_row == MAX_REFUSED:
            rest = f"{MAX_REFUSED:,} records in a row cannot be read: the rest is left out"
            refused.append(RejectedLine(line=place, reason=rest))
            break
        if size >= CHUNK_BYTES or len(recorded) + len(refused) >= CHUNK_RECORDS:
            is_whole = False
            break
    chunk = Chunk(
        recorded=tuple(recorded), refused=tuple(refused), noise=noise, lines=lines, size=size
    )
    if is_whole:
        return chunk, None
    following = replace(
        reading,
        offset=reading.offset + size,
        number=reading.number + lines,
        refused=in_row,
    )
    return chunk, following


def _refuse_file(reading: Reading, exc: Exception) -> Chunk:
    reason = exc.strerror if isinstance(exc, OSError) else exc
    return Chunk(refused=(RejectedLine(line=reading.number, reason=f"cannot read: {reason}"),))


@dataclass(frozen=True, slots=True)
class JsonLines:
    """Files with a JSON object on each line: one for each session, and for each subagent.

    `index` names a file with titles, beside the folder of the transcripts.
    """

    index: str = ""

    def list_sources(self, path: Path, /) -> list[TranscriptSource]:
        if path.is_file():
            subagents = walk_files(path.with_suffix("") / SUBAGENTS, _is_lines)
            return [*_to_sources([path]), *_to_sources(subagents)]
        found = walk_files(path, _is_lines)
        titles = {path.parent / self.index, path / self.index} if self.index else set()
        transcripts = _to_sources([file for file in found if file not in titles])
        # Titles come last: they are taken for sessions that are known.
        return [*transcripts, *_to_sources(sorted(titles))] if transcripts else []

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        with files.open_regular(Path(source.path), follow_link=True) as file:
            file.seek(offset)
            yield from read_lines(file)


def read_lines(file: io.BufferedReader) -> Iterator[Record]:
    """Yield the lines of a file. A last line that is still being written is left out."""
    for data in files.iter_lines(file, MAX_LINE_BYTES):
        if len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
            yield Record(size=len(data) + _skip_line(file.readline), reason="longer than 32 MiB")
            continue
        if data.endswith(b"\n") and data.isspace():
            yield Record(size=len(data), lines=data.count(b"\n"))
            continue
        fields = parse_object(data)
        if fields is None and not data.endswith(b"\n"):
            return  # the next import reads it
        yield Record(size=len(data), fields=fields, reason="" if fields else "not a JSON object")


def parse_object(data: bytes) -> Fields | None:
    try:
        value = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return Fields(value) if isinstance(value, dict) else None


def walk_files(folder: Path, is_wanted: Callable[[Path], bool]) -> list[Path]:
    """Return the regular files below a folder that are wanted, in order, without links.

    Hidden folders are left out: they hold settings, caches and trash. Raises InvalidInput if there
    are too many files.
    """
    found: list[Path] = []
    seen = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "node_modules"
        )
        seen += len(names)
        for name in sorted(names):
            path = Path(parent) / name
            if is_wanted(path) and _is_regular(path):
                found.append(path)
        if len(found) > MAX_FILES or seen > MAX_SEEN:
            raise InvalidInput(f"{folder} has too many files: give a folder in it")
    return found


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False  # removed since it was listed


def _skip_line(readline: Callable[[int], bytes]) -> int:
    size = 0
    while data := readline(1 << 20):
        size += len(data)
        if data.endswith(b"\n"):
            break
    return size


def _is_lines(path: Path) -> bool:
    return path.name.endswith(SUFFIX)


def _to_sources(paths: list[Path]) -> list[TranscriptSource]:
    """Return the regular files, a session before its subagents."""
    sources = []
    for path in sorted(paths, key=lambda path: path.with_suffix("").parts):
        try:
            status = path.stat()
        except OSError:
            continue  # removed since it was listed
        if stat.S_ISREG(status.st_mode):
            sources.append(TranscriptSource(path=str(path), size=status.st_size))
    return sources
