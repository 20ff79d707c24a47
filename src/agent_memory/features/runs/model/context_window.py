"""Windows: what of a conversation a model is given, so that it fits and there is room to answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent_memory.features.runs.model.chats import Message, Role
from agent_memory.features.runs.model.machine import ContextSnapshot, MessageStats
from agent_memory.kernel.errors import ContextTooLong

MESSAGE_TOKENS = 4  # around each: its role, and where it begins and ends
LEFT_OUT = "[left out to make room]"
LEFT_OUT_TOKENS = MESSAGE_TOKENS + 8


class CountedMessage(NamedTuple):
    message: Message
    tokens: int


Exchange = tuple[CountedMessage, ...]  # from what a user says up to what is said next


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindow:
    """What is sent: the system's message, then history, then the current run."""

    size: int
    tool_tokens: int
    system: CountedMessage
    history: tuple[CountedMessage, ...]
    history_budget: int
    current: tuple[CountedMessage, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(each.message for each in (self.system, *self.history, *self.current))

    @property
    def room(self) -> int:
        """Tokens that are left for an answer."""
        return self.size - self.to_snapshot().total_tokens

    def add_answer(self, answer: CountedMessage) -> "ContextWindow":
        return replace(self, current=(*self.current, answer))

    def to_snapshot(self) -> ContextSnapshot:
        return ContextSnapshot(
            context_size=self.size,
            system_tokens=self.system.tokens,
            tool_tokens=self.tool_tokens,
            history_tokens=sum(each.tokens for each in self.history),
            memory_tokens=sum(each.tokens for each in self.current),
            history_messages=len(self.history),
            memory_messages=len(self.current),
            history_budget=self.history_budget,
            messages=(
                _stats(self.system, "system"),
                *(_stats(each, "history") for each in self.history),
                *(_stats(each, "memory") for each in self.current),
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
    """As much of the latest history as fits, exchange by exchange, with `answer` tokens left. Where
    the run itself is too long, what tools gave it earlier is left out. Raises ContextTooLong."""
    room = size - answer - tool_tokens - system.tokens
    kept = _drop_results(current, room)
    budget = room - sum(each.tokens for each in kept)
    if budget < 0:
        needed = size - answer - budget
        raise ContextTooLong(
            f"the prompt, the tools and what the run has done take {needed:,} tokens; the model's"
            f" context has {size:,}, of which {answer:,} are for the answer: ask for less at once,"
            " raise llama.context_size, or lower the agent's answer_tokens"
        )
    left, chosen = budget, list[Exchange]()
    for exchange in reversed(history):
        left -= sum(each.tokens for each in exchange)
        if left < 0:
            break
        chosen.insert(0, exchange)
    return ContextWindow(
        size=size,
        tool_tokens=tool_tokens,
        system=system,
        history=tuple(each for exchange in chosen for each in exchange),
        history_budget=budget,
        current=kept,
    )


def _drop_results(current: Sequence[CountedMessage], room: int) -> tuple[CountedMessage, ...]:
    """The oldest results of tools give way; those that the model has not seen yet stay."""
    kept = list(current)
    over = sum(each.tokens for each in kept) - room
    seen = max(
        (at for at, each in enumerate(kept) if each.message.role is Role.ASSISTANT), default=0
    )
    for at, each in enumerate(kept[:seen]):
        if over <= 0:
            break
        if each.message.role is Role.TOOL and each.tokens > LEFT_OUT_TOKENS:
            over -= each.tokens - LEFT_OUT_TOKENS
            kept[at] = CountedMessage(replace(each.message, content=LEFT_OUT), LEFT_OUT_TOKENS)
    return tuple(kept)


def _stats(counted: CountedMessage, source: str) -> MessageStats:
    return MessageStats(role=counted.message.role, tokens=counted.tokens, source=source)
