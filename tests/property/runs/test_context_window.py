"""Whatever a conversation holds: what a model is given fits, is whole, and is counted exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.model import context_window
from agent_memory.features.runs.model.chats import CallId, Message, MessageRole, ToolCall
from agent_memory.features.runs.model.context_window import (
    LEFT_OUT,
    LEFT_OUT_TOKENS,
    ContextWindow,
    CountedMessage,
)
from agent_memory.kernel.errors import ContextTooLong

Conversation = tuple[
    list[tuple[CountedMessage, ...]], tuple[CountedMessage, ...]
]  # history, current run
tokens = st.integers(context_window.MESSAGE_TOKENS, 400)


def said(
    role: MessageRole, text: str, size: int, *calls: ToolCall, answers: str = ""
) -> CountedMessage:
    about = CallId(answers) if answers else None
    return CountedMessage(Message(role=role, content=text, calls=calls, call_id=about), size)


@st.composite
def exchanges(draw: st.DrawFn, name: str) -> tuple[CountedMessage, ...]:
    """A prompt, turns with calls and what came of them, and mostly an answer."""
    found = [said(MessageRole.USER, f"{name} prompt", draw(tokens))]
    for turn in range(draw(st.integers(0, 3))):
        names = [f"{name}-{turn}-{number}" for number in range(draw(st.integers(1, 3)))]
        calls = [ToolCall(call_id=CallId(each), name="read_file", arguments="{}") for each in names]
        found.append(said(MessageRole.ASSISTANT, "", draw(tokens), *calls))
        found += [said(MessageRole.TOOL, "result", draw(tokens), answers=each) for each in names]
    if draw(st.booleans()):
        found.append(said(MessageRole.ASSISTANT, "answer", draw(tokens)))
    return tuple(found)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    history = [draw(exchanges(f"h{number}")) for number in range(draw(st.integers(0, 6)))]
    return history, draw(exchanges("now"))


def unanswered(messages: tuple[Message, ...]) -> list[CallId]:
    """Calls without results, and results without calls, in a row."""
    waiting: list[CallId] = []
    wrong: list[CallId] = []
    for message in messages:
        if message.role is MessageRole.TOOL and message.call_id is not None:
            if waiting and waiting[0] == message.call_id:
                waiting.pop(0)
            else:
                wrong.append(message.call_id)
        else:
            wrong += waiting
            waiting = [call.call_id for call in message.calls]
    return wrong + waiting


def window(
    size: int, answer: int, tools: int, system: int, conversation: Conversation
) -> ContextWindow:
    history, current = conversation
    return context_window.fit_window(
        size=size,
        answer=answer,
        tool_tokens=tools,
        system=said(MessageRole.SYSTEM, "system", system),
        history=history,
        current=current,
    )


@given(
    size=st.integers(256, 4096),
    share=st.integers(2, 8),
    tools=st.integers(0, 300),
    system=tokens,
    conversation=conversations(),
)
def test_it_fits_is_whole_and_adds_up(
    size: int,
    share: int,
    tools: int,
    system: int,
    conversation: Conversation,
) -> None:
    history, current = conversation
    answer = size // share
    try:
        found = window(size, answer, tools, system, conversation)
    except ContextTooLong:
        unseen = max(
            (at for at, each in enumerate(current) if each.message.role is MessageRole.ASSISTANT),
            default=0,
        )
        least = sum(
            min(each.tokens, LEFT_OUT_TOKENS)
            if each.message.role is MessageRole.TOOL and at < unseen
            else each.tokens
            for at, each in enumerate(current)
        )
        assert least + system + tools + answer > size, "it would have fitted"
        return
    told = found.to_snapshot()
    assert told.total_tokens + answer <= size
    assert found.room == told.remaining_tokens >= answer
    assert told.history_tokens <= told.history_budget
    assert told.total_messages == len(found.messages) == len(told.messages)
    assert sum(each.tokens for each in told.messages) + tools == told.total_tokens
    assert [each.role for each in told.messages] == [each.role for each in found.messages]
    for source, count, total in (
        ("system", 1, told.system_tokens),
        ("history", told.history_messages, told.history_tokens),
        ("memory", told.memory_messages, told.memory_tokens),
    ):
        of_it = [each.tokens for each in told.messages if each.source == source]
        assert (len(of_it), sum(of_it)) == (count, total)
    assert not unanswered(found.messages)
    whole = [each for exchange in history for each in exchange]
    assert found.history == tuple(whole[len(whole) - len(found.history) :])
    assert not found.history or found.history[0].message.role is MessageRole.USER
    for before, after in zip(current, found.current, strict=True):
        assert after == before or (
            after.message.content == LEFT_OUT and after.tokens < before.tokens
        )


def test_what_the_model_has_not_seen_yet_is_never_left_out() -> None:
    call = ToolCall(call_id=CallId("a"), name="read_file", arguments="{}")
    current = (
        said(MessageRole.USER, "prompt", 10),
        said(MessageRole.ASSISTANT, "", 10, call),
        said(MessageRole.TOOL, "long", 300, answers="a"),
    )
    with pytest.raises(
        ContextTooLong, match=r"take 330 tokens.*has 300.*100 of them are reserved for the answer"
    ):
        window(300, 100, 0, 10, ([], current))
    later = (
        *current,
        said(MessageRole.ASSISTANT, "and", 10, call),
        said(MessageRole.TOOL, "x", 10, answers="a"),
    )
    found = window(300, 100, 0, 10, ([], later))
    assert [each.message.content for each in found.current] == ["prompt", "", LEFT_OUT, "and", "x"]
