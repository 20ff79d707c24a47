"""Chats: what a model is given in a conversation, and what it says piece by piece."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NewType

CallId = NewType("CallId", str)


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool that the model wants to use. `arguments` is JSON as the model wrote it: it may be
    none."""

    call_id: CallId
    name: str
    arguments: str

    @property
    def parsed_arguments(self) -> dict[str, Any] | None:
        return parse_arguments(self.arguments)


def parse_arguments(arguments: str) -> dict[str, Any] | None:
    """What a model wrote, where it is what it should be."""
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`calls` are those of an assistant's; `call_id` tells which of them a tool's answers."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: CallId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a model may use. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    max_tokens: int
    temperature: float | None = None  # the server's own


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of what a model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnd:
    """The last thing a model says. `whole` is False where it ran into `max_tokens`."""

    calls: tuple[ToolCall, ...] = ()
    whole: bool = True


StreamPart = TextDelta | ReasoningDelta | StreamEnd
