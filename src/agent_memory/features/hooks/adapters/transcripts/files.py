"""Transcript files, parsed in chunks by the worker process, because parsing is pure Python."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

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
CHUNK_LINES = 1_000
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
    is noise, such as an empty line.
    """

    size: int
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

    def read_chunks(self, source: TranscriptSource, /) -> Iterator[Chunk]:
        parser, offset, number = self._build_parser(source), 0, 0
        try:
            with self._open_source(source) as file:
                while True:
                    chunk, parser = self._worker.call(
                        read_chunk,
                        self._layout,
                        file,
                        offset,
                        number,
                        parser,
                        timeout_seconds=SECONDS_PER_CHUNK,
                    )
                    if not chunk.lines:
                        return
                    yield chunk
                    offset, number = offset + chunk.size, number + chunk.lines
        except WorkerClosed:
            raise
        except (OSError, InvalidInput, WorkerFailed) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            yield Chunk(refused=(RejectedLine(line=number, reason=f"cannot read: {reason}"),))


def read_chunk(
    layout: FileLayout,
    source: TranscriptSource,
    offset: int,
    number: int,
    parser: TranscriptParser,
) -> tuple[Chunk, TranscriptParser]:
    """Read the next records after the first `number`; return the parser's new state too."""
    recorded: list[TranscriptEntry] = []
    refused: list[RejectedLine] = []
    noise = lines = size = 0
    for record in layout.read_records(source, offset):
        lines += 1
        size += record.size
        place = number + lines
        try:
            if record.reason:
                raise InvalidInput(record.reason)
            entries = None if record.fields is None else parser.parse_line(record.fields, place)
        except InvalidInput as exc:
            refused.append(RejectedLine(line=place, reason=str(exc)))
        except RecursionError:
            refused.append(RejectedLine(line=place, reason="nested too deeply"))
        else:
            noise += entries is None
            recorded += entries or ()
        if size >= CHUNK_BYTES or lines >= CHUNK_LINES:
            break
    chunk = Chunk(
        recorded=tuple(recorded), refused=tuple(refused), noise=noise, lines=lines, size=size
    )
    return chunk, parser


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


def read_lines(file: IO[bytes]) -> Iterator[Record]:
    """Yield the lines of a file. A last line that is still being written is left out."""
    while data := file.readline(MAX_LINE_BYTES):
        if len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
            yield Record(size=len(data) + _skip_line(file.readline), reason="longer than 32 MiB")
            continue
        fields = parse_object(data)
        if fields is None and not data.endswith(b"\n"):
            return  # the next import reads it
        reason = "not a JSON object" if fields is None and data.strip() else ""
        yield Record(size=len(data), fields=fields, reason=reason)


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
