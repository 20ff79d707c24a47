"""Events of an agent's hooks, and the event that each is recorded as."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from agent_memory.client.values import Event, EventRole, EventType


class HookEventType(Enum):
    """What an agent's hook tells about."""

    SESSION_START = "session_start"
    USER_PROMPT_SUBMIT = "user_prompt_submit"
    ASSISTANT_RESPONSE = "assistant_response"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    STOP = "stop"
    SUBAGENT_START = "subagent_start"
    SUBAGENT_STOP = "subagent_stop"


class _Recorded(NamedTuple):
    event_type: EventType
    role: EventRole


_RECORDED: Mapping[HookEventType, _Recorded] = {
    HookEventType.SESSION_START: _Recorded(EventType.SESSION_START, EventRole.SYSTEM),
    HookEventType.USER_PROMPT_SUBMIT: _Recorded(EventType.USER_MESSAGE, EventRole.USER),
    HookEventType.ASSISTANT_RESPONSE: _Recorded(EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT),
    HookEventType.TOOL_USE: _Recorded(EventType.TOOL_RESULT, EventRole.TOOL),
    HookEventType.TOOL_RESULT: _Recorded(EventType.TOOL_RESULT, EventRole.TOOL),
    HookEventType.STOP: _Recorded(EventType.SESSION_END, EventRole.SYSTEM),
    HookEventType.SUBAGENT_START: _Recorded(EventType.SUBAGENT_START, EventRole.SYSTEM),
    HookEventType.SUBAGENT_STOP: _Recorded(EventType.SUBAGENT_STOP, EventRole.SYSTEM),
}


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event of an agent's hook. Each `with_...` method returns a changed copy."""

    session_id: str
    hook_type: HookEventType
    text: str = ""
    timestamp: datetime | int | None = None
    tool_name: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)

    def with_timestamp(self, timestamp: datetime | int) -> "HookEvent":
        """When it happened: an aware datetime or Unix milliseconds."""
        return replace(self, timestamp=timestamp)

    def with_tool_name(self, tool_name: str) -> "HookEvent":
        return replace(self, tool_name=tool_name)

    def with_metadata(self, metadata: Mapping[str, str]) -> "HookEvent":
        """With these entries added to those it has."""
        return replace(self, metadata={**self.metadata, **metadata})


def map_hook_event(hook: HookEvent) -> Event:
    """Build the event to ingest, with a new id, and the present time unless the hook has one."""
    recorded = _RECORDED[hook.hook_type]
    named = {} if hook.tool_name is None else {"tool_name": hook.tool_name}
    return Event(
        session_id=hook.session_id,
        timestamp=datetime.now(UTC) if hook.timestamp is None else hook.timestamp,
        event_type=recorded.event_type,
        role=recorded.role,
        text=hook.text,
        metadata={**hook.metadata, **named},
    )
