"""Requests to a chat model, and the parts of its streamed answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NewType

CallId = NewType("CallId", str)


class MessageRole(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A request of the model to call a tool. `arguments` is the model's text: it may not be valid
    JSON."""

    call_id: CallId
    name: str
    arguments: str

    @property
    def parsed_arguments(self) -> dict[str, Any] | None:
        return parse_arguments(self.arguments)


def parse_arguments(arguments: str) -> dict[str, Any] | None:
    """Return the arguments if they are a JSON object, else None."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. An assistant has `calls`; a tool's message has the `call_id` it answers."""

    role: MessageRole
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: CallId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool offered to the model. `parameters` is the JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    max_tokens: int
    temperature: float | None = None  # None: the server's default


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the reasoning before the answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnd:
    """The end of the answer. `whole` is False if it was cut at `max_tokens`."""

    calls: tuple[ToolCall, ...] = ()
    whole: bool = True


StreamPart = TextDelta | ReasoningDelta | StreamEnd
