"""The archive of `memory export --all`: one JSON object a line, the first a header.

docs/reference/archive.md describes every field. Times are milliseconds since 1970, bytes are
base64, sets are sorted. A later version may add fields and types; it changes none.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from agent_memory.features import import_modules
from agent_memory.features.backups.services.archiving import ArchiveRecord, MemoryRecord
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.facts import Fact, Former
from agent_memory.features.knowledge.model.procedures import Chain, Procedure
from agent_memory.features.knowledge.model.run_sessions import Run, RunSession
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.model.projects import Project
from agent_memory.features.memories.model.tiers import MemoryUse
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.interfaces.wire.events import event_json
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput
from agent_memory.kernel.ids import Millis
from agent_memory.platform.archive_parts import ArchiveFormat

FORMAT = "agent-memory-export"
VERSION = 1
MAX_REFUSED = 10_000  # lines in a row
MAX_LINE_BYTES = 64 << 20  # a checkpoint's state in base64

# Those of features that can be left out.
_FORMATS: Mapping[str, ArchiveFormat] = {
    name: each
    for module in import_modules("archive_records")
    for name, each in module.FORMATS.items()
}
_BY_KIND = {each.kind: each for each in _FORMATS.values()}
TYPES: Mapping[str, type[Any]] = {
    "project": Project,
    "memory": MemoryRecord,
    "user": User,
    "fact": Fact,
    "former_fact": Former,
    "procedure": Procedure,
    "tool_chain": Chain,
    "episode": Episode,
    "session": Session,
    "run": Run,
    "run_session": RunSession,
    "event": Event,
    "toc_node": TocNode,
    **{name: each.kind for name, each in _FORMATS.items()},
}
# Some readers end a line here; in JSON they occur only inside texts.
_BREAKS = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}
_NAMES = {kind: name for name, kind in TYPES.items()}


def is_archive(start: bytes) -> bool:
    """Return whether a file that starts with these bytes is an archive."""
    first = start.lstrip()[:200]
    return first.startswith(b"{") and f'"{FORMAT}"'.encode() in first


def header(version: str, made_ms: Millis) -> str:
    fields = {"format": FORMAT, "format_version": VERSION, "version": version, "made_ms": made_ms}
    return json.dumps(fields) + "\n"


def name_of(kind: type[ArchiveRecord]) -> str:
    return _NAMES[kind]


def line(record: ArchiveRecord) -> str:
    text = json.dumps({"type": name_of(type(record)), **_fields(record)}, ensure_ascii=False)
    return text.translate(_BREAKS) + "\n"


def _fields(record: ArchiveRecord) -> dict[str, Any]:
    match record:
        case Event():
            return event_json(record)
        case MemoryRecord(memory=memory, use=use):
            return {**_plain(memory), "use": _plain(use)}
        case TocNode():
            return {**_plain(record), "level": record.level.name.lower()}
        case _:
            known = _BY_KIND.get(type(record))
            return _plain(record) if known is None else known.write(record)


def _plain(value: Any) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(value, order="deterministic")
    return fields


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def read(lines: Iterable[bytes]) -> Iterator[tuple[str, ArchiveRecord | InvalidInput]]:
    """Yield each record, or the InvalidInput for a line that cannot be read, with its line number.

    Raises InvalidInput if this is not an archive, or one of a later format.
    """
    following = iter(lines)
    _check_header(next(following, b""))
    number, refused = 2, 0
    for text in following:
        if not text.isspace():
            place = f"line {number}"
            try:
                yield place, _record(text)
                refused = 0
            except InvalidInput as exc:
                yield place, exc
                refused += 1
        if refused == MAX_REFUSED:
            raise InvalidInput(
                f"the {MAX_REFUSED:,} lines up to line {number} cannot be read: what follows them"
                " is left out"
            )
        number += text.count(b"\n")


def _check_header(first: bytes) -> None:
    fields = _object(first)
    if fields.get("format") != FORMAT:
        raise InvalidInput("this is not an archive of `memory export --all`")
    if fields.get("format_version") != VERSION:
        raise InvalidInput(
            f"the archive has format {fields.get('format_version')!r}; this version of Agent Memory"
            f" reads format {VERSION}: upgrade Agent Memory"
        )


def _object(text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"not valid JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise InvalidInput("not a JSON object")
    return fields


def _record(text: bytes) -> ArchiveRecord:
    fields = _object(text)
    name = fields.pop("type", None)
    if name not in TYPES:
        raise InvalidInput(f"the type {name!r} is unknown")
    try:
        record: ArchiveRecord = _build_record(TYPES[name], fields)
    except RecursionError as exc:
        raise InvalidInput(f"not a valid {name}: it is nested too deeply") from exc
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, AgentMemoryError) as exc:
        raise InvalidInput(f"not a valid {name}: {exc}") from exc
    return record


def _build_record(kind: type[Any], fields: dict[str, Any]) -> Any:
    if kind is Event:
        return msgspec.convert(
            {
                **_without(fields, "timestamp_ms", "event_type"),
                "at_ms": fields["timestamp_ms"],
                "type": EventType[str(fields["event_type"]).upper()],
                "role": EventRole[str(fields["role"]).upper()],
            },
            Event,
        )
    if kind is MemoryRecord:
        return MemoryRecord(
            memory=msgspec.convert(_without(fields, "use"), Memory),
            use=msgspec.convert(fields.get("use", {}), MemoryUse),
        )
    if kind in _BY_KIND:
        return _BY_KIND[kind].read(fields)
    if kind is TocNode:
        return msgspec.convert({**fields, "level": Level[str(fields["level"]).upper()]}, TocNode)
    return msgspec.convert(fields, kind)
