"""Framing: what a model is given for each turn of a run, counted in its own tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_memory.features.runs.model import context_window
from agent_memory.features.runs.model.chats import Message, Request, Role, Tool
from agent_memory.features.runs.model.context_window import (
    MESSAGE_TOKENS,
    Counted,
    Exchange,
    Window,
)
from agent_memory.features.runs.ports import ChatModel
from agent_memory.kernel.cancellation import Halt


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a model is to answer. None is as it comes."""

    temperature: float | None = None
    answer_tokens: int | None = None


@dataclass(slots=True, kw_only=True)
class Frame:
    """What stays the same for all turns of a run."""

    model: ChatModel
    size: int
    system: str
    tools: Sequence[Tool]
    definitions: str  # the tools, as the model is told of them
    history: Sequence[tuple[Message, ...]]
    manner: Manner
    _counted: list[Exchange] | None = field(default=None, init=False)

    def window(self, current: Sequence[Message], halt: Halt) -> Window:
        """Raises ContextTooLong, and what the model raises."""
        system = Message(role=Role.SYSTEM, content=self.system)
        counted = self.counted([system, *current], halt)
        (tool_tokens,) = self.model.count([self.definitions], halt) if self.tools else (0,)
        if self._counted is None:
            self._counted = self._latest(halt)
        return context_window.fitted(
            size=self.size,
            answer=self.manner.answer_tokens or self.size // 4,
            tool_tokens=tool_tokens,
            system=counted[0],
            history=self._counted,
            current=counted[1:],
        )

    def request(self, window: Window) -> Request:
        return Request(
            messages=window.messages,
            tools=self.tools,
            max_tokens=self.manner.answer_tokens or window.room,
            temperature=self.manner.temperature,
        )

    def counted(self, messages: Sequence[Message], halt: Halt) -> list[Counted]:
        counts = self.model.count([_text(each) for each in messages], halt)
        return [
            Counted(message, count + MESSAGE_TOKENS)
            for message, count in zip(messages, counts, strict=True)
        ]

    def _latest(self, halt: Halt) -> list[Exchange]:
        """What might fit: nobody needs to know how long the rest is."""
        found: list[Exchange] = []
        left = self.size
        for exchange in reversed(self.history):
            found.insert(0, tuple(self.counted(exchange, halt)))
            left -= sum(each.tokens for each in found[0])
            if left < 0:
                break
        return found


def _text(message: Message) -> str:
    return "\n".join(
        (message.content, *(f"{call.name} {call.arguments}" for call in message.calls))
    )
