"""Sessions of OpenCode: in a SQLite database, before 2026 in a tree of JSON files."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agent_memory.features.hooks.adapters.transcripts.conversations import ConversationBuilder
from agent_memory.features.hooks.adapters.transcripts.files import MAX_FILES, Record, walk_files
from agent_memory.features.hooks.adapters.transcripts.json_files import MAX_ELEMENT_BYTES
from agent_memory.features.hooks.model import descriptions, tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import (
    RecordKind,
    TranscriptEntry,
    TranscriptSource,
)
from agent_memory.features.log.model.metadata import SUMMARIZES
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from agent_memory.kernel.late_package import LatePackage
from agent_memory.platform import files

if TYPE_CHECKING:
    import sqlite3
else:
    sqlite3 = LatePackage("sqlite3")

AGENT = "opencode"
_DATABASES = "opencode*.db"
_STORAGE = "storage"
_SQLITE = b"SQLite format 3\0"
_TABLES = ("session", "message", "part")
_QUERY_SECONDS = 30.0
_STEPS = 100_000  # of a query, between two looks at the clock
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_UNTITLED = ("New session - ", "Child session - ")


@dataclass(frozen=True, slots=True)
class OpenCodeFiles:
    """A database or a tree of files. Each session is a source."""

    def list_sources(self, path: Path, /) -> list[TranscriptSource]:
        if path.is_file():
            if path.suffix == ".json":
                return [TranscriptSource(path=str(path), size=path.stat().st_size)]
            return _list_database(path)
        found: list[TranscriptSource] = []
        for database in sorted(path.glob(_DATABASES)):
            if not database.is_symlink():
                found += _list_database(database)
        root = path if path.name == _STORAGE else path / _STORAGE
        sessions = walk_files(root / "session", lambda file: file.suffix == ".json")
        found += [TranscriptSource(path=str(file), size=file.stat().st_size) for file in sessions]
        return found

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        if offset:
            return
        read = _read_database if source.member else _read_tree
        yield Record(size=max(1, source.size), fields=read(source))


def _list_database(path: Path) -> list[TranscriptSource]:
    with _Database(path) as database:
        rows = database.list_rows(
            "SELECT s.id, coalesce((SELECT sum(length(p.data)) FROM part p"
            " WHERE p.session_id = s.id), 0) FROM session s ORDER BY s.time_created, s.id LIMIT ?",
            MAX_FILES,
        )
    return [
        TranscriptSource(path=str(path), size=size, member=name)
        for name, size in rows
        if isinstance(name, str) and isinstance(size, int)
    ]


def _read_database(source: TranscriptSource) -> Fields:
    if source.size > MAX_ELEMENT_BYTES:
        raise InvalidInput("the session is longer than 64 MiB")
    with _Database(Path(source.path)) as database:
        sessions = database.list_rows(
            "SELECT id, parent_id, directory, title, time_created FROM session WHERE id = ?",
            source.member,
        )
        messages = database.list_rows(
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
            source.member,
        )
        parts = database.list_rows(
            "SELECT message_id, id, data FROM part WHERE session_id = ? ORDER BY message_id, id",
            source.member,
        )
    if not sessions:
        raise InvalidInput("the session is gone")
    name, parent, directory, title, created = sessions[0]
    by_message: dict[object, list[dict[str, Any]]] = {}
    for message_id, part_id, data in parts:
        by_message.setdefault(message_id, []).append({**_load(data), "id": part_id})
    return Fields(
        {
            "session": {
                "id": name,
                "parentID": parent,
                "directory": directory,
                "title": title,
                "time": {"created": created},
            },
            "messages": [
                {**_load(data), "id": message_id, "parts": by_message.get(message_id, [])}
                for message_id, data in messages
            ],
        }
    )


class _Database:
    """A database of OpenCode, opened for reading only, with a limit of time for each query."""

    def __init__(self, path: Path) -> None:
        with files.open_regular(path, follow_link=True) as file:
            if file.read(len(_SQLITE)) != _SQLITE:
                raise InvalidInput(f"{path} is no database of OpenCode")
        # Without a log of changes beside it, the file is whole. SQLite would add one to read it.
        log = path.with_name(f"{path.name}-wal")
        mode = "mode=ro" if log.exists() else "mode=ro&immutable=1"
        self._path = path
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
        except sqlite3.Error as exc:
            raise InvalidInput(f"cannot read {path}: {exc}") from exc
        self._connection.execute("PRAGMA trusted_schema = OFF")

    def __enter__(self) -> Self:
        try:
            tables = self.list_rows("SELECT name, sql FROM sqlite_master WHERE type = ?", "table")
            plain = {name for name, sql in tables if not str(sql).upper().startswith("CREATE VIRT")}
            if not plain.issuperset(_TABLES):
                raise InvalidInput(f"{self._path} is no database of OpenCode: it has other tables")
        except BaseException:
            self._connection.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._connection.close()

    def list_rows(self, query: str, *values: object) -> list[Any]:
        end = time.monotonic() + _QUERY_SECONDS
        self._connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        try:
            with closing(self._connection.execute(query, values)) as cursor:
                return cursor.fetchall()
        except sqlite3.Error as exc:
            raise InvalidInput(f"cannot read {self._path}: {exc}") from exc


def _read_tree(source: TranscriptSource) -> Fields:
    """Read a session with its messages and their parts, each a file."""
    path = Path(source.path)
    session = _load(files.read_regular(path, MAX_ELEMENT_BYTES, follow_link=True))
    root, name = path.parent.parent.parent, str(session.get("id") or "")
    room = MAX_ELEMENT_BYTES
    messages = []
    for file in _list_json(root / "message", name):
        message, size = _read_json(file, room)
        parts = []
        room -= size
        for part_file in _list_json(root / "part", str(message.get("id") or "")):
            part, size = _read_json(part_file, room)
            room -= size
            parts.append(part)
        messages.append({**message, "parts": parts})
    return Fields({"session": session, "messages": messages})


def _list_json(folder: Path, name: str) -> list[Path]:
    """Return the files of one record, in order. The name comes from another file."""
    if not _SAFE_NAME.fullmatch(name) or name.startswith("."):
        return []
    return walk_files(folder / name, lambda file: file.suffix == ".json")


def _read_json(file: Path, room: int) -> tuple[dict[str, Any], int]:
    if room <= 0:
        raise InvalidInput("the session is longer than 64 MiB")
    data = files.read_regular(file, room)
    return _load(data), len(data)


def _load(data: object) -> dict[str, Any]:
    try:
        value = json.loads(data) if isinstance(data, str | bytes) else None
    except (ValueError, RecursionError):
        value = None  # half written
    return value if isinstance(value, dict) else {}


@dataclass(slots=True)
class OpenCodeTranscript:
    """A parser of sessions."""

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        session = line.fields("session")
        name, parent = session.text("id"), session.text("parentID")
        title, folder = session.text("title"), session.text("directory")
        talk = ConversationBuilder(
            session=transcripts.build_session_id(parent or name, name if parent else ""),
            number=number,
            about=transcripts.build_metadata(
                agent=AGENT, cwd=folder, project="" if folder else AGENT
            ),
            began_ms=transcripts.parse_millis(session.fields("time").value("created")),
            # A subagent's title is its task.
            title="" if parent or title.startswith(_UNTITLED) else title,
            start=RecordKind.SUBAGENT_START if parent else RecordKind.SESSION_START,
        )
        messages = line.blocks("messages")
        messages.sort(key=lambda message: (_get_time(message, "created") or 0, message.text("id")))
        for message in messages:
            _add_message(talk, message)
        return talk.entries or None


def _add_message(talk: ConversationBuilder, message: Fields) -> None:
    at_ms = _get_time(message, "created")
    parts = message.blocks("parts")
    texts = [part for part in parts if _is_said(part)]
    if message.text("role") == "user":
        said = "\n".join(part.text("text") for part in texts)
        talk.add(RecordKind.PROMPT, message.text("id"), transcripts.strip_injected(said), at_ms)
        return
    if message.text("role") != "assistant":
        return
    if message.true("summary"):
        summary = transcripts.strip_injected("\n".join(part.text("text") for part in texts))
        about = {SUMMARIZES: descriptions.COMPACTION}
        talk.add(RecordKind.SUMMARY, transcripts.fingerprint(summary), summary, at_ms, about)
        return
    model = transcripts.build_metadata(model=message.text("modelID"))
    for part in parts:
        if part.text("type") == "tool":
            _add_tool(talk, part, at_ms)
        elif _is_said(part):
            text = transcripts.strip_injected(part.text("text"))
            said_ms = _get_time(part, "end") or at_ms  # our hook records this time too
            talk.add(RecordKind.ANSWER, message.text("id"), text, said_ms, model)


def _add_tool(talk: ConversationBuilder, part: Fields, at_ms: int | None) -> None:
    state = part.fields("state")
    status = state.text("status")
    if status not in ("completed", "error"):
        return  # it still runs, or was broken off
    talk.add_tool(
        part.text("callID", "id"),
        tool_use.parse_use(part.text("tool"), state.fields("input")),
        state.text("output", "error"),
        _get_time(state, "end") or at_ms,
        failed=status == "error",
    )


def _is_said(part: Fields) -> bool:
    """Return whether a part is a text of the user or the model, not added by OpenCode."""
    if part.text("type") != "text":
        return False
    return not part.true("synthetic") and not part.true("ignored")


def _get_time(fields: Fields, name: str) -> int | None:
    return transcripts.parse_millis(fields.fields("time").value(name))
