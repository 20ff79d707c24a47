"""The prompt of each turn of a run, counted in tokens of the model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_memory.features.runs.model import context_window
from agent_memory.features.runs.model.chats import ChatRequest, Message, MessageRole, ToolSpec
from agent_memory.features.runs.model.context_window import (
    MESSAGE_TOKENS,
    ContextWindow,
    CountedMessage,
    Exchange,
)
from agent_memory.features.runs.ports import ChatModel
from agent_memory.kernel.cancellation import CancelToken


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Options for the model's answer. None is the default of the server."""

    temperature: float | None = None
    answer_tokens: int | None = None


@dataclass(slots=True, kw_only=True)
class PromptFrame:
    """The parts of the prompt that stay the same in all turns of a run."""

    model: ChatModel
    size: int
    system: str
    tools: Sequence[ToolSpec]
    definitions: str  # of the tools, as the model gets them
    history: Sequence[tuple[Message, ...]]
    sampling: SamplingOptions
    _counted: list[Exchange] | None = field(default=None, init=False)

    def window(self, current: Sequence[Message], cancel: CancelToken) -> ContextWindow:
        """Fit a run into the context. Raises ContextTooLong and the errors of the model."""
        system = Message(role=MessageRole.SYSTEM, content=self.system)
        counted = self.count_messages([system, *current], cancel)
        (tool_tokens,) = self.model.count_tokens([self.definitions], cancel) if self.tools else (0,)
        if self._counted is None:
            self._counted = self._latest(cancel)
        return context_window.fit_window(
            size=self.size,
            answer=self.sampling.answer_tokens or self.size // 4,
            tool_tokens=tool_tokens,
            system=counted[0],
            history=self._counted,
            current=counted[1:],
        )

    def request(self, window: ContextWindow) -> ChatRequest:
        return ChatRequest(
            messages=window.messages,
            tools=self.tools,
            max_tokens=self.sampling.answer_tokens or window.room,
            temperature=self.sampling.temperature,
        )

    def count_messages(
        self, messages: Sequence[Message], cancel: CancelToken
    ) -> list[CountedMessage]:
        counts = self.model.count_tokens([_text(message) for message in messages], cancel)
        return [
            CountedMessage(message, count + MESSAGE_TOKENS)
            for message, count in zip(messages, counts, strict=True)
        ]

    def _latest(self, cancel: CancelToken) -> list[Exchange]:
        """Count the latest exchanges, until they exceed the context."""
        latest: list[Exchange] = []
        left = self.size
        for exchange in reversed(self.history):
            latest.insert(0, tuple(self.count_messages(exchange, cancel)))
            left -= sum(counted.tokens for counted in latest[0])
            if left < 0:
                break
        return latest


def _text(message: Message) -> str:
    return "\n".join(
        (message.content, *(f"{call.name} {call.arguments}" for call in message.calls))
    )
