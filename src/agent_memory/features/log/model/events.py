"""Conversation events and their limits. An `Event` is valid once built."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId

MAX_EVENT_ID_CHARS = 128
MAX_SESSION_ID_CHARS = 256
MAX_TEXT_BYTES = 1 << 20
MAX_METADATA_ENTRIES = 256
MAX_METADATA_BYTES = 64 << 10


class EventType(IntEnum):
    """The numbers are stored and sent on the wire: never change them."""

    SESSION_START = 1
    USER_MESSAGE = 2
    ASSISTANT_MESSAGE = 3
    TOOL_RESULT = 4
    ASSISTANT_STOP = 5
    SUBAGENT_START = 6
    SUBAGENT_STOP = 7
    SESSION_END = 8


class EventRole(IntEnum):
    """The numbers are stored and sent on the wire: never change them."""

    USER = 1
    ASSISTANT = 2
    SYSTEM = 3
    TOOL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One conversation event. Immutable once stored; identified by `event_id` alone."""

    event_id: EventId
    session_id: SessionId
    at_ms: Millis
    type: EventType
    role: EventRole
    text: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_name("event_id", self.event_id, MAX_EVENT_ID_CHARS)
        check_session_id(self.session_id)
        check_millis("timestamp_ms", self.at_ms)
        size = _utf8_size("text", self.text)
        if size > MAX_TEXT_BYTES:
            raise InvalidInput(
                f"text is {size:,} bytes; the limit is {MAX_TEXT_BYTES:,} (1 MiB):"
                " split the event or shorten its text"
            )
        if self.metadata:
            _check_metadata(self.metadata)

    @property
    def position(self) -> Position:
        return Position(at_ms=self.at_ms, event_id=self.event_id)


def to_fields(event: Event) -> dict[str, Any]:
    """Return the fields as JSON names them everywhere: in answers, archives and files."""
    return {
        "event_id": event.event_id,
        "session_id": event.session_id,
        "timestamp_ms": event.at_ms,
        "event_type": event.type.name.lower(),
        "role": event.role.name.lower(),
        "text": event.text,
        "metadata": dict(event.metadata),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Some events in order. `next` is set if there are more: read on after it."""

    events: tuple[Event, ...]
    next: Position | None = None


class SessionPosition(NamedTuple):
    """The place of an event in its session; of a segment, the place of its first event."""

    session_id: SessionId
    at: Position


def check_session_id(value: str) -> None:
    _check_name("session_id", value, MAX_SESSION_ID_CHARS)


def check_millis(name: str, value: int) -> None:
    if not 0 <= value <= MAX_MILLIS:
        raise InvalidInput(
            f"{name} is {value}; it must be Unix milliseconds from 0 to {MAX_MILLIS} (13 digits)"
        )


def _check_name(name: str, value: str, limit: int) -> None:
    if not value:
        raise InvalidInput(f"{name} is required and must not be empty")
    if len(value) > limit:
        raise InvalidInput(f"{name} has {len(value)} characters; the limit is {limit}")
    if not value.isprintable():
        raise InvalidInput(f"{name} must contain only printable characters")


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MAX_METADATA_ENTRIES:
        raise InvalidInput(
            f"metadata has {len(metadata)} entries; the limit is {MAX_METADATA_ENTRIES}"
        )
    size = _utf8_size("metadata", "".join((*metadata, *metadata.values())))
    if size > MAX_METADATA_BYTES:
        raise InvalidInput(
            f"metadata has {size:,} bytes; the limit is {MAX_METADATA_BYTES:,} (64 KiB)"
        )


def _utf8_size(name: str, text: str) -> int:
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{name} must be valid Unicode (it has a lone surrogate)") from exc
