"""The context window: the part of a conversation that fits, with room for the answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent_memory.features.runs.model.chats import Message, MessageRole
from agent_memory.features.runs.model.machine import ContextSnapshot, MessageStats
from agent_memory.kernel.errors import ContextTooLong

MESSAGE_TOKENS = 4  # overhead of counted message: its role and delimiters
LEFT_OUT = "[left out to make room]"
LEFT_OUT_TOKENS = MESSAGE_TOKENS + 8


class CountedMessage(NamedTuple):
    message: Message
    tokens: int


Exchange = tuple[CountedMessage, ...]  # from one message of the user up to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindow:
    """The messages of a request: the system prompt, then history, then the current run."""

    size: int
    tool_tokens: int
    system: CountedMessage
    history: tuple[CountedMessage, ...]
    history_budget: int
    current: tuple[CountedMessage, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(counted.message for counted in (self.system, *self.history, *self.current))

    @property
    def room(self) -> int:
        """The tokens left for the answer."""
        return self.size - self.to_snapshot().total_tokens

    def add_answer(self, answer: CountedMessage) -> "ContextWindow":
        return replace(self, current=(*self.current, answer))

    def to_snapshot(self) -> ContextSnapshot:
        return ContextSnapshot(
            context_size=self.size,
            system_tokens=self.system.tokens,
            tool_tokens=self.tool_tokens,
            history_tokens=_total(self.history),
            memory_tokens=_total(self.current),
            history_messages=len(self.history),
            memory_messages=len(self.current),
            history_budget=self.history_budget,
            messages=(
                _stats(self.system, "system"),
                *(_stats(counted, "history") for counted in self.history),
                *(_stats(counted, "memory") for counted in self.current),
            ),
        )


def fit_window(
    *,
    size: int,
    answer: int,
    tool_tokens: int,
    system: CountedMessage,
    history: Sequence[Exchange],
    current: Sequence[CountedMessage],
) -> ContextWindow:
    """Fit the latest history, exchange by exchange, and leave `answer` tokens free. If the run
    itself is too long, drop its oldest tool results. Raises ContextTooLong."""
    room = size - answer - tool_tokens - system.tokens
    fitted = _drop_results(current, room)
    budget = room - _total(fitted)
    if budget < 0:
        needed = size - answer - budget
        raise ContextTooLong(
            f"the prompt, the tools and this run take {needed:,} tokens; the model's context has"
            f" {size:,}, and {answer:,} of them are reserved for the answer: ask for less at once,"
            " raise llama.context_size, or lower the agent's answer_tokens"
        )
    left, fitting = budget, list[Exchange]()
    for exchange in reversed(history):
        left -= _total(exchange)
        if left < 0:
            break
        fitting.insert(0, exchange)
    return ContextWindow(
        size=size,
        tool_tokens=tool_tokens,
        system=system,
        history=tuple(message for exchange in fitting for message in exchange),
        history_budget=budget,
        current=fitted,
    )


def _drop_results(current: Sequence[CountedMessage], room: int) -> tuple[CountedMessage, ...]:
    """Drop the oldest tool results, except those that the model has not seen yet."""
    messages = list(current)
    over = _total(messages) - room
    answers = (
        at for at, (message, _) in enumerate(messages) if message.role is MessageRole.ASSISTANT
    )
    seen = max(answers, default=0)
    for at, counted in enumerate(messages[:seen]):
        if over <= 0:
            break
        if counted.message.role is MessageRole.TOOL and counted.tokens > LEFT_OUT_TOKENS:
            over -= counted.tokens - LEFT_OUT_TOKENS
            message = replace(counted.message, content=LEFT_OUT)
            messages[at] = CountedMessage(message, LEFT_OUT_TOKENS)
    return tuple(messages)


def _total(messages: Sequence[CountedMessage]) -> int:
    return sum(counted.tokens for counted in messages)


def _stats(counted: CountedMessage, source: str) -> MessageStats:
    return MessageStats(role=counted.message.role, tokens=counted.tokens, source=source)
