"""Plain transcripts, for everything else: one object a line, with the names our own export of
events uses."""

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.transcripts import RecordKind, TranscriptEntry
from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields

N = TypeVar("N", bound=IntEnum)

_TYPES = {
    EventRole.USER: EventType.USER_MESSAGE,
    EventRole.ASSISTANT: EventType.ASSISTANT_MESSAGE,
    EventRole.TOOL: EventType.TOOL_RESULT,
    EventRole.SYSTEM: EventType.USER_MESSAGE,
}


@dataclass(slots=True)
class PlainTranscript:
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
        said = line.text("event_type")
        kind = _parse_enum(EventType, "event_type", said) if said else _TYPES[role]
        text = transcripts.strip_injected(line.text("text"))
        if not text and kind in _TYPES.values():
            return None
        about = dict(line.fields("metadata").strings())
        given = line.text("event_id") or transcripts.build_event_id(
            session,
            RecordKind.OTHER,
            transcripts.fingerprint(str(at_ms), kind.name, role.name, text),
        )
        return [
            TranscriptEntry(
                event_id=given,
                session=session,
                at_ms=at_ms,
                type=kind,
                role=role,
                text=transcripts.fit_text(text),
                metadata=about,
                line=number,
            )
        ]


def _parse_enum(names: type[N], field: str, given: str) -> N:
    try:
        return names[given.upper()]
    except KeyError as exc:
        known = ", ".join(each.name.lower() for each in names)
        raise InvalidInput(f"{field} {given[:40]!r} is none of {known}") from exc
