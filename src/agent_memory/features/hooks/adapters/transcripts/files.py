"""Transcript files, parsed in chunks by the worker process, because parsing is pure Python."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from agent_memory.features.hooks.model.transcripts import (
    Chunk,
    RejectedLine,
    TranscriptEntry,
    TranscriptSource,
)
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from agent_memory.platform.ports import Worker

CHUNK_BYTES = 1 << 20  # a chunk has at most this and one more line
CHUNK_LINES = 1_000
MAX_LINE_BYTES = 32 << 20
SECONDS_PER_CHUNK = 60.0
SUFFIX = ".jsonl"
SUBAGENTS = "subagents"  # a folder inside one with the name of the session


class TranscriptParser(Protocol):
    """A parser of one transcript format.

    It keeps state for later lines. It is sent to the worker and back with each chunk, so the state
    must be small.
    """

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        """Return the entries of a line, or None for noise. Raises InvalidInput."""
        ...


class TranscriptFiles:
    def __init__(
        self, worker: Worker, build_parser: Callable[[str], TranscriptParser], index: str = ""
    ) -> None:
        """Take a function that builds the parser of a file from its name without the suffix.

        `index` names a file with titles, beside the folder of the transcripts.
        """
        self._worker = worker
        self._build_parser = build_parser
        self._index = index

    def list_sources(self, location: str, /) -> list[TranscriptSource]:
        path = Path(location)
        try:
            if stat.S_ISREG(path.stat().st_mode):
                return [
                    *_to_sources([path]),
                    *_to_sources(_list_files(path.with_suffix("") / SUBAGENTS)),
                ]
        except OSError as exc:
            raise InvalidInput(f"cannot read {path}: {exc.strerror}") from exc
        if not path.is_dir():
            raise InvalidInput(f"{path} is neither a file nor a folder")
        files = _list_files(path)
        titles = {path.parent / self._index, path / self._index} if self._index else set()
        transcripts = _to_sources([file for file in files if file not in titles])
        # Titles come last: they are taken for sessions that are known.
        return [*transcripts, *_to_sources(sorted(titles))] if transcripts else []

    def read_chunks(self, source: TranscriptSource, /) -> Iterator[Chunk]:
        parser, offset, number = self._build_parser(Path(source.path).stem), 0, 0
        while True:
            try:
                chunk, parser = self._worker.call(
                    read_chunk,
                    source.path,
                    offset,
                    number,
                    parser,
                    timeout_seconds=SECONDS_PER_CHUNK,
                )
            except OSError as exc:
                yield Chunk(
                    refused=(RejectedLine(line=number, reason=f"cannot read: {exc.strerror}"),)
                )
                return
            if not chunk.lines:
                return
            yield chunk
            offset, number = offset + chunk.size, number + chunk.lines


def read_chunk(
    path: str, offset: int, number: int, parser: TranscriptParser
) -> tuple[Chunk, TranscriptParser]:
    """Read the next lines of a file after the first `number`; return the parser's new state too."""
    recorded: list[TranscriptEntry] = []
    refused: list[RejectedLine] = []
    noise = lines = size = 0
    with Path(path).open("rb") as file:
        file.seek(offset)
        while size < CHUNK_BYTES and lines < CHUNK_LINES:
            data = file.readline(MAX_LINE_BYTES)
            if not data:
                break
            place = number + lines + 1
            if len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
                size += len(data) + _skip_line(file.readline)
                lines += 1
                refused.append(RejectedLine(line=place, reason="longer than 32 MiB"))
                continue
            line = _parse_line(data)
            if line is None and not data.endswith(b"\n"):
                break  # the line is still being written: the next import reads it
            lines += 1
            size += len(data)
            try:
                if line is None:
                    if data.strip():
                        raise InvalidInput("not a JSON object")
                    entries = None
                else:
                    entries = parser.parse_line(line, place)
            except InvalidInput as exc:
                refused.append(RejectedLine(line=place, reason=str(exc)))
                continue
            except RecursionError:
                refused.append(RejectedLine(line=place, reason="nested too deeply"))
                continue
            if entries is None:
                noise += 1
            else:
                recorded += entries
    chunk = Chunk(
        recorded=tuple(recorded), refused=tuple(refused), noise=noise, lines=lines, size=size
    )
    return chunk, parser


def _parse_line(data: bytes) -> Fields | None:
    try:
        value = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return Fields(value) if isinstance(value, dict) else None


def _skip_line(readline: Callable[[int], bytes]) -> int:
    size = 0
    while data := readline(1 << 20):
        size += len(data)
        if data.endswith(b"\n"):
            break
    return size


def _list_files(folder: Path) -> list[Path]:
    return [
        Path(parent) / name
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith(SUFFIX)
    ]


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
