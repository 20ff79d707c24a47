"""Continuation tokens: a position in the event log, or an offset in a list."""

import base64
import binascii

from agent_memory.features.log.model.events import check_millis
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, Millis, Position

_UNKNOWN = (
    "continuation_token is not one that this server returned: pass it on unchanged,"
    " or leave it out to start over"
)


def format_token(position: Position) -> str:
    return base64.urlsafe_b64encode(f"{position.at_ms}:{position.event_id}".encode()).decode()


def parse_token(token: str) -> Position:
    try:
        at_ms, _, event_id = base64.b64decode(token, b"-_", validate=True).decode().partition(":")
        if not event_id:
            raise ValueError("no event id")
        check_millis("time", int(at_ms))
        return Position(at_ms=Millis(int(at_ms)), event_id=EventId(event_id))
    except (ValueError, binascii.Error, InvalidInput) as exc:
        raise InvalidInput(_UNKNOWN) from exc


def format_offset(offset: int | None) -> str | None:
    return None if offset is None else str(offset)


def parse_offset(token: str) -> int:
    """Return the offset in the token of a page of children or hits."""
    if not token.isdecimal() or len(token) > 9:
        raise InvalidInput(_UNKNOWN)
    return int(token)
