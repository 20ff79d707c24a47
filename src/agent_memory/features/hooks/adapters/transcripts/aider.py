"""Histories of Aider: one Markdown file in each project, with all its sessions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agent_memory.features.hooks.adapters.transcripts.conversations import ConversationBuilder
from agent_memory.features.hooks.adapters.transcripts.files import Record, walk_files
from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.transcripts import (
    RecordKind,
    TranscriptEntry,
    TranscriptSource,
)
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from agent_memory.kernel.text.private import strip_private
from agent_memory.platform import files

AGENT = "aider"
FILE = ".aider.chat.history.md"
MAX_SESSION_BYTES = 32 << 20
_BEGIN = b"# aider chat started at "
_LINE_BYTES = 1 << 20
_PROMPT, _NOTICE = "#### ", "> "  # what the user typed, and what Aider itself says
# Lines that mean something; all others belong to an answer.
_MARKED = re.compile(rf"^(?:({_PROMPT})|({_NOTICE})|[^\S\n]*(```|~~~)).*\n?", re.MULTILINE)
# Commands that ask the model something; others only work with files.
_ASKING = re.compile(r"/(?:ask|architect|code|context|help) +(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """The histories in a folder and below it. A record is a session."""

    def list_sources(self, path: Path, /) -> list[TranscriptSource]:
        found = [path] if path.is_file() else walk_files(path, lambda file: file.name == FILE)
        return [
            TranscriptSource(path=str(file), size=file.stat().st_size, folder=str(file.parent))
            for file in found
        ]

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        with files.open_regular(Path(source.path), follow_link=True) as file:
            file.seek(offset)
            lines: list[bytes] = []
            size = kept = 0
            is_start = True  # of a line, not the rest of a long one
            for data in files.iter_lines(file, _LINE_BYTES):
                if is_start and data.startswith(_BEGIN) and size:
                    yield _build_record(lines, size, kept)
                    lines, size, kept = [], 0, 0
                is_start = data.endswith(b"\n")
                size += len(data)
                if size <= MAX_SESSION_BYTES:
                    lines.append(data)
                    kept = size
            if size:
                yield _build_record(lines, size, kept)


def _build_record(lines: list[bytes], size: int, kept: int) -> Record:
    if kept < size:
        return Record(size=size, reason="longer than 32 MiB")
    return Record(size=size, fields=Fields({"text": b"".join(lines).decode("utf-8", "replace")}))


@dataclass(slots=True)
class AiderTranscript:
    """A parser of one history."""

    folder: str

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        heading, _, text = line.text("text").partition("\n")
        began = heading.encode().removeprefix(_BEGIN).decode().strip()
        turns = list(_split_turns(text))
        if not turns:
            return None
        try:  # the time is local, without its zone
            began_ms = round(datetime.fromisoformat(began).timestamp() * 1000)
        except (ValueError, OverflowError, OSError) as exc:
            raise InvalidInput("the session has no time: `# aider chat started at`") from exc
        # The folder may be moved, and a session has no id of its own.
        first = strip_private(turns[0][1])
        session = f"{AGENT}-{transcripts.fingerprint(began, first)[:16]}"
        talk = ConversationBuilder(
            session=session, number=number, about={"agent": AGENT, "cwd": self.folder}
        )
        for place, (kind, words) in enumerate(turns):
            talk.add(kind, str(place), transcripts.strip_injected(words), began_ms + 2 * place)
        return talk.entries or None


def _split_turns(text: str) -> Iterator[tuple[RecordKind, str]]:
    """Yield what the user and the model said, without commands and Aider's own words."""
    kind, pieces = RecordKind.ANSWER, list[str]()
    fence = ""
    at = 0
    for line in _MARKED.finditer(text):
        between, at = text[at : line.start()], line.end()
        is_prompt = line[1] is not None
        if kind is RecordKind.PROMPT and (between or not is_prompt):
            yield from _finish_turn(kind, pieces)
            kind, pieces, fence = RecordKind.ANSWER, [], ""
        pieces.append(between)
        if is_prompt:
            if kind is RecordKind.ANSWER:
                yield from _finish_turn(kind, pieces)
                kind, pieces, fence = RecordKind.PROMPT, [], ""
            pieces.append(line[0].removeprefix(_PROMPT).rstrip() + "\n")
            continue
        if line[3] and fence in ("", line[3]):
            fence = "" if fence else line[3]
        if fence or not line[2]:
            pieces.append(line[0])
    if text[at:] and kind is RecordKind.PROMPT:
        yield from _finish_turn(kind, pieces)
        kind, pieces = RecordKind.ANSWER, []
    pieces.append(text[at:])
    yield from _finish_turn(kind, pieces)


def _finish_turn(kind: RecordKind, pieces: list[str]) -> Iterator[tuple[RecordKind, str]]:
    text = "".join(pieces).strip()
    if kind is RecordKind.PROMPT:
        if asked := _ASKING.match(text):
            text = asked[1].strip()
        elif text.startswith("/") or text == "<blank>":
            return
    if text:
        yield kind, text
