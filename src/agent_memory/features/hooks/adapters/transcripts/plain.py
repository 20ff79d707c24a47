"""Plain transcripts of any agent: JSON objects with the names of our event export."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

from agent_memory.features.hooks.adapters.transcripts.files import JsonLines, Record
from agent_memory.features.hooks.adapters.transcripts.json_files import read_elements
from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.transcripts import (
    RecordKind,
    TranscriptEntry,
    TranscriptSource,
)
from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from agent_memory.platform import files

N = TypeVar("N", bound=IntEnum)

_TYPES = {
    EventRole.USER: EventType.USER_MESSAGE,
    EventRole.ASSISTANT: EventType.ASSISTANT_MESSAGE,
    EventRole.TOOL: EventType.TOOL_RESULT,
    EventRole.SYSTEM: EventType.USER_MESSAGE,
}


@dataclass(frozen=True, slots=True)
class PlainEvents(JsonLines):
    """Files with an event on each line, or one file with a list of events."""

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        if not source.name.endswith(".json"):
            yield from JsonLines.read_records(self, source, offset)
            return
        with files.open_regular(Path(source.path), follow_link=True) as file:
            file.seek(offset)
            yield from read_elements(file, offset)


@dataclass(slots=True)
class PlainTranscript:
    """A parser of one transcript."""

    name: str

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        session = line.text("session_id")
        if not session:
            raise InvalidInput("no session_id")
        at_ms = transcripts.parse_millis(line.value("timestamp_ms"))
        if at_ms is None:
            at_ms = transcripts.parse_millis(line.value("timestamp"))
        if at_ms is None:
            raise InvalidInput("neither timestamp_ms nor timestamp is a time")
        role = _parse_enum(EventRole, "role", line.text("role"))
        name = line.text("event_type")
        kind = _parse_enum(EventType, "event_type", name) if name else _TYPES[role]
        text = transcripts.strip_injected(line.text("text"))
        if not text and kind in _TYPES.values():
            return None
        event_id = line.text("event_id") or transcripts.build_event_id(
            session,
            RecordKind.OTHER,
            transcripts.fingerprint(str(at_ms), kind.name, role.name, text),
        )
        return [
            TranscriptEntry(
                event_id=event_id,
                session_id=session,
                at_ms=at_ms,
                type=kind,
                role=role,
                text=transcripts.fit_text(text),
                metadata=dict(line.fields("metadata").strings()),
                line=number,
            )
        ]


def _parse_enum(values: type[N], field: str, name: str) -> N:
    try:
        return values[name.upper()]
    except KeyError as exc:
        names = ", ".join(value.name.lower() for value in values)
        raise InvalidInput(f"{field} {name[:40]!r} is none of {names}") from exc
