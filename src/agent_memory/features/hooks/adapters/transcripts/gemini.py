"""Sessions of Gemini CLI: a JSON object, since 2026 a line for each change of it.

A message is written again when tools have answered. `$set` changes the session, `$rewindTo` takes
messages back: they were said, and stay.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent_memory.features.hooks.adapters.transcripts import gemini_apps
from agent_memory.features.hooks.adapters.transcripts.files import Record, walk_files
from agent_memory.features.hooks.adapters.transcripts.json_files import JsonFiles
from agent_memory.features.hooks.model import descriptions, tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import (
    RecordKind,
    TranscriptEntry,
    TranscriptSource,
)
from agent_memory.features.log.model.metadata import SUMMARIZES, TITLES
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from agent_memory.platform import files

AGENT = "gemini"
CHATS = "chats"  # the folder of a project's sessions, in one that is named after the project
_SUFFIXES = (".json", ".jsonl")
_ROOT = ".project_root"
_PROJECTS = "projects.json"
_MAX_SMALL_BYTES = 1 << 20
_NOT_TYPED = ("<session_context>", "This is the Gemini CLI. We are setting up")
_SNAPSHOT = "<state_snapshot>"
_WORKSPACE = re.compile(
    r"(?:\*\*Workspace Directories:\*\*\n\s*- |working in the directory: )(/[^\n]+)"
)
_MAX_SEEN = 1_000


@dataclass(frozen=True, slots=True)
class GeminiFiles:
    """The sessions of Gemini CLI in a folder, or an export of the Gemini apps from Takeout."""

    exports: JsonFiles = field(default_factory=lambda: JsonFiles(gemini_apps.FILES))

    def list_sources(self, path: Path, /) -> list[TranscriptSource]:
        if path.is_file() and not _is_session(path):
            return self.exports.list_sources(path)
        sessions = [path] if path.is_file() else walk_files(path, _is_session)
        found = [
            TranscriptSource(
                path=str(file), size=file.stat().st_size, folder=_find_folder(file.parent)
            )
            for file in sessions
        ]
        return found or self.exports.list_sources(path)

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        return self.exports.read_records(source, offset)


def build_parser(source: TranscriptSource) -> "GeminiTranscript | gemini_apps.GeminiAppsExport":
    """Build the parser of a session, or of an export."""
    path = Path(source.path)
    if source.member or not _is_session(path):
        return gemini_apps.GeminiAppsExport()
    parent = "" if path.parent.name == CHATS else path.parent.name
    return GeminiTranscript(folder=source.folder, parent=parent)


def _is_session(path: Path) -> bool:
    """Return whether a file is a session, or that of a subagent in a folder of its session."""
    if path.suffix not in _SUFFIXES:
        return False
    return path.name.startswith("session-") or CHATS in (path.parent.name, path.parent.parent.name)


def _find_folder(place: Path) -> str:
    """Return the folder of the project that a session belongs to, or an empty text."""
    chats = place if place.name == CHATS else place.parent
    if chats.name != CHATS:
        return ""
    project = chats.parent
    if root := _read_small(project / _ROOT):
        return root.strip()
    try:  # earlier folders are named after a hash of the project's
        known = json.loads(_read_small(project.parent.parent / _PROJECTS) or "{}")
    except (ValueError, RecursionError):
        return ""
    projects = known.get("projects") if isinstance(known, dict) else None
    for folder in projects if isinstance(projects, dict) else ():
        if hashlib.sha256(folder.encode("utf-8", "replace")).hexdigest() == project.name:
            return str(folder)
    return ""


def _read_small(path: Path) -> str:
    try:
        return files.read_regular(path, _MAX_SMALL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


@dataclass(slots=True)
class GeminiTranscript:
    """A parser of one session. `parent` is the session that it is a subagent of."""

    folder: str = ""
    parent: str = ""
    session: str = ""
    began_ms: int | None = None
    at_ms: int = 0
    started: bool = False
    title: str = ""
    seen: dict[str, None] = field(default_factory=dict)  # ids of messages and calls

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        changed = line.fields("$set")
        entries: list[TranscriptEntry] = []
        for part in (line, changed):
            if part.text("sessionId"):
                self.session = self.session or part.text("sessionId")
                self.began_ms = self.began_ms or transcripts.parse_millis(part.value("startTime"))
            directories = part.value("directories")
            if not self.folder and isinstance(directories, list) and directories:
                self.folder = directories[0] if isinstance(directories[0], str) else ""
            for message in part.blocks("messages"):
                entries += self._parse_message(message, number)
        if "type" in line:
            entries += self._parse_message(line, number)
        entries += self._parse_title(changed.text("summary") or line.text("summary"), number)
        return entries or None

    def _parse_message(self, message: Fields, number: int) -> list[TranscriptEntry]:
        at_ms = transcripts.parse_millis(message.value("timestamp"))
        kind = message.text("type")
        if kind == "user":
            return self._parse_prompt(message, at_ms, number)
        if kind != "gemini":
            return []
        model = transcripts.build_metadata(model=message.text("model"))
        text = transcripts.strip_injected(_join_texts(message))
        entries = self._record(RecordKind.ANSWER, message.text("id"), text, at_ms, number, model)
        for call in message.blocks("toolCalls"):
            use = tool_use.parse_use(call.text("name"), call.fields("args"))
            failed = call.text("status") == "error"
            result = _render_results(call)
            if not result and not use.written:
                continue
            about = {**use.metadata(), **({"error": "true"} if failed else {})}
            at_call = transcripts.parse_millis(call.value("timestamp")) or at_ms
            entries += self._record(
                RecordKind.TOOL, call.text("id"), use.render_text(result), at_call, number, about
            )
        return entries

    def _parse_prompt(
        self, message: Fields, at_ms: int | None, number: int
    ) -> list[TranscriptEntry]:
        text = transcripts.strip_injected(_join_texts(message))
        if text.startswith(_NOT_TYPED):
            if not self.folder and (workspace := _WORKSPACE.search(text)):
                self.folder = workspace[1].strip()
            return []
        if text.startswith(_SNAPSHOT):
            about = {SUMMARIZES: descriptions.COMPACTION}
            summary = transcripts.fingerprint(text)
            return self._record(RecordKind.SUMMARY, summary, text, at_ms, number, about)
        return self._record(RecordKind.PROMPT, message.text("id"), text, at_ms, number, {})

    def _parse_title(self, text: str, number: int) -> list[TranscriptEntry]:
        title = descriptions.clean_title(text)
        if not title or title == self.title or not self.started:
            return []
        self.title = title
        giver = descriptions.AGENT
        record_id = descriptions.build_title_id(giver, title)
        return self._record(RecordKind.TITLE, record_id, title, None, number, {TITLES: giver})

    def _record(
        self,
        kind: RecordKind,
        record_id: str,
        text: str,
        at_ms: int | None,
        number: int,
        metadata: dict[str, str],
    ) -> list[TranscriptEntry]:
        key = f"{kind.value}:{record_id}"
        if not text or (record_id and key in self.seen):
            return []
        if not self.session:
            raise InvalidInput("no sessionId")
        if at_ms is None and not self.at_ms:
            raise InvalidInput("no timestamp")
        self.seen[key] = None
        if len(self.seen) > _MAX_SEEN:
            del self.seen[next(iter(self.seen))]
        entries = [] if self.started else [self._start(at_ms or 0, number)]
        self.at_ms = max(at_ms or 0, self.at_ms + 1)
        record_id = record_id or transcripts.fingerprint(str(self.at_ms), text)
        return [*entries, self._build(kind, record_id, text, self.at_ms, number, metadata)]

    def _start(self, at_ms: int, number: int) -> TranscriptEntry:
        self.started = True
        kind = RecordKind.SUBAGENT_START if self.parent else RecordKind.SESSION_START
        began = min(self.began_ms or at_ms, max(0, at_ms - 1))
        return self._build(kind, "", "", began, number, {})

    def _build(
        self,
        kind: RecordKind,
        record_id: str,
        text: str,
        at_ms: int,
        number: int,
        metadata: dict[str, str],
    ) -> TranscriptEntry:
        session = self.session
        if self.parent:
            session = transcripts.build_session_id(self.parent, self.session)
        about = transcripts.build_metadata(
            agent=AGENT, cwd=self.folder, project="" if self.folder else AGENT
        )
        return transcripts.build_entry(
            session,
            kind,
            record_id,
            at_ms=at_ms,
            line=number,
            metadata={**about, **metadata},
            text=text,
        )


def _join_texts(message: Fields) -> str:
    return "\n".join(filter(None, (part.text("text") for part in message.blocks("content"))))


def _render_results(call: Fields) -> str:
    texts = []
    for part in call.blocks("result"):
        response = part.fields("functionResponse").fields("response")
        texts.append(response.text("output", "error") or part.text("text"))
    return "\n".join(filter(None, texts)) or tool_use.render_result(call.value("resultDisplay"))
