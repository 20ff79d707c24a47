"""Notes of an Obsidian vault. A note is recorded as words of the user, at the day it is about."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path

from agent_memory.features.hooks.adapters.transcripts.conversations import ConversationBuilder
from agent_memory.features.hooks.adapters.transcripts.files import Record, walk_files
from agent_memory.features.hooks.adapters.transcripts.plain import PlainTranscript
from agent_memory.features.hooks.model import descriptions, transcripts, vault_notes
from agent_memory.features.hooks.model.transcripts import (
    RecordKind,
    TranscriptEntry,
    TranscriptSource,
)
from agent_memory.features.memories.model import memories
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from agent_memory.platform import files

AGENT = "obsidian"
SUFFIX = ".md"
MAX_NOTE_BYTES = 64 << 20
PART_CHARS = 16_000  # a longer note becomes several events, cut before a heading
_SETTINGS = ".obsidian"  # a folder in each vault
_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})(?!\d)")
_DATE_KEYS = re.compile(
    r"^(?:date|created|created_at|date created):[ \t]*[\"']?([0-9][^\"'\n]*)", re.MULTILINE
)
_TITLE = re.compile(r"^title:[ \t]*[\"']?([^\"'\n]+)", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_BLANK = re.compile(r"\n[ \t]*\n")
_INK = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class VaultFiles:
    """The notes of a vault, of a folder in it, or one note."""

    def list_sources(self, path: Path, /) -> list[TranscriptSource]:
        if path.is_file() and path.suffix != SUFFIX:
            raise InvalidInput(f"{path} is no note (*{SUFFIX}): give a vault, a folder or a note")
        notes = [path] if path.is_file() else walk_files(path, lambda file: file.suffix == SUFFIX)
        vault = _find_vault(path)
        return [
            TranscriptSource(path=str(file), size=file.stat().st_size, folder=str(vault))
            for file in notes
        ]

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        if offset:
            return
        path = Path(source.path)
        with files.open_regular(path, follow_link=True) as file:
            data = file.read(MAX_NOTE_BYTES + 1)
        size = max(1, len(data))
        if len(data) > MAX_NOTE_BYTES or b"\0" in data:
            reason = "not a text" if b"\0" in data else "longer than 64 MiB"
            yield Record(size=size, reason=reason)
            return
        text = data.decode("utf-8-sig", "replace")
        if "\r" in text and not vault_notes.find_kind(text):
            text = text.replace("\r\n", "\n")
        modified = path.stat().st_mtime_ns // 1_000_000
        yield Record(size=size, fields=Fields({"text": text, "modified": modified}))


def _find_vault(path: Path) -> Path:
    path = path.resolve()
    here = path if path.is_dir() else path.parent
    return next((each for each in (here, *here.parents) if (each / _SETTINGS).is_dir()), here)


def build_parser(source: TranscriptSource) -> "NoteParser":
    """Build the parser of a note, with its place in the vault."""
    path, vault = Path(source.path).resolve(), Path(source.folder)
    inner = path.relative_to(vault) if path.is_relative_to(vault) else Path(path.name)
    return NoteParser(vault=vault.name, path=inner.as_posix())


@dataclass(slots=True)
class NoteParser:
    """A parser of one note, with its path in the vault."""

    vault: str
    path: str

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        text = line.text("text")
        kind = vault_notes.find_kind(text)
        if kind:  # written by our export
            return _parse_session(text, number) if kind == vault_notes.SESSION else None
        front, body = vault_notes.split_front(text)
        name = Path(self.path).stem
        title = _TITLE.search(front)
        talk = ConversationBuilder(
            # The path names the note: a changed one continues the same session.
            session=f"note-{transcripts.fingerprint(self.vault, self.path)[:16]}",
            number=number,
            about=transcripts.build_metadata(
                agent=AGENT,
                project=memories.to_project_name(self.vault),
                file_path=self.path,
            ),
            title=title[1] if title else name,
            giver=descriptions.USER,
        )
        at_ms = _find_time(name, front, line.value("modified"))
        for part in split_note(transcripts.strip_injected(body)):
            talk.add(RecordKind.PROMPT, transcripts.fingerprint(part), part, at_ms)
        return talk.entries or None


def _parse_session(text: str, number: int) -> list[TranscriptEntry]:
    parser = PlainTranscript("")
    entries: list[TranscriptEntry] = []
    for event in vault_notes.parse_events(text):
        entries += parser.parse_line(Fields(event), number) or ()
    return entries


def _find_time(name: str, front: str, modified: object) -> int | None:
    """Return the time of a note: of its name, else of its front matter, else of its last change."""
    if dated := _DATED.match(name):
        try:
            noon = datetime.combine(datetime.fromisoformat(dated[1]), time(12))
            return round(noon.timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            pass  # such as a 31st of February
    if written := _DATE_KEYS.search(front):
        try:
            return _to_millis(datetime.fromisoformat(written[1].strip()))
        except (ValueError, OverflowError, OSError):
            pass
    return transcripts.parse_millis(modified)


def split_note(text: str) -> Iterator[str]:
    """Cut a long note before headings, else at empty lines, else anywhere."""
    start = 0
    while len(text) - start > PART_CHARS:
        limit = start + PART_CHARS
        cuts = [found.start() for found in _HEADING.finditer(text, start + 1, limit)]
        if not cuts:
            cuts = [found.start() for found in _BLANK.finditer(text, start + 1, limit)]
        at = cuts[-1] if cuts else limit
        yield text[start:at].strip()
        ink = _INK.search(text, at)
        if ink is None:
            return
        start = ink.start()
    if text:
        yield text[start:].strip()


def _to_millis(moment: datetime) -> int:
    """Return the time of a note. A date alone, at midnight, means noon: the start of the session,
    which comes a moment before, is on the same day."""
    if moment.time() == time(0) and moment.tzinfo is None:
        moment = datetime.combine(moment, time(12))
    return round(moment.timestamp() * 1000)
