"""The contract of chats, over every implementation: real HTTP, and real programs."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_memory.platform.llm.chat import (
    MAX_ANSWER_BYTES,
    AnthropicChat,
    Chat,
    ChatAnswer,
    ChatQuestion,
    ChatUnavailable,
    ChatUnusable,
    OpenAiChat,
)
from tests.answering_programs import build_chat
from tests.contract.scripted_llm import Hang, Reply, Step, completion, error, message, scripted

LONG = 30.0  # for what must happen: it is only ever waited out by a failing test
SHORT = 0.2  # to wait for one that hangs
ANSWER = {"colour": "mauve", "note": "naïve — 行"}
QUESTION = ChatQuestion(
    system="You answer.",
    text="Which colour is it?",
    name="reply",
    schema={"type": "object", "properties": {"colour": {"type": "string"}}},
    max_tokens=100,
)

# What a server or a program does, and how each implementation is made to do it.
STEPS: dict[str, Callable[[str], Step]] = {
    "answers": lambda api: (
        completion(ANSWER) if api == "openai" else message([text_block(json.dumps(ANSWER))])
    ),
    "says nothing": lambda api: Reply(b'{"choices": []}') if api == "openai" else message([]),
    "fails": lambda _: error(500),
    "hangs": lambda _: Hang(),
    "never ends": lambda _: Reply(b" " * (MAX_ANSWER_BYTES + 1)),
}
PROGRAMS = {
    "answers": f"sys.stdin.read(); print({json.dumps(ANSWER)!r})",
    "says nothing": "sys.stdin.read()",
    "fails": "sys.exit(3)",
    "hangs": "time.sleep(1000)",
    "never ends": "\nwhile True: print(' ' * 65536)",
}

Behave = Callable[[str], Chat]


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.fixture(params=["openai", "anthropic", "command"])
def behave(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Behave]:
    """Build a chat whose other side behaves in this way, any number of times."""
    with ExitStack() as opened:

        def build(behaviour: str) -> Chat:
            chat: Chat
            if request.param == "command":
                chat = build_chat(tmp_path, PROGRAMS[behaviour])
            else:
                llm = opened.enter_context(scripted(*[STEPS[behaviour](request.param)] * 3))
                if request.param == "openai":
                    chat = OpenAiChat(base_url=llm.url)
                else:
                    chat = AnthropicChat(base_url=llm.url, model="m", api_key="k")
            opened.callback(chat.close)
            return chat

        yield build


def ask(chat: Chat, seconds: float = LONG) -> ChatAnswer:
    return chat.ask(QUESTION, seconds=seconds)


def test_the_answer_comes_back_as_written(behave: Behave) -> None:
    answer = ask(behave("answers"))
    assert json.loads(answer.text) == ANSWER
    assert answer.whole


def test_it_answers_any_number_of_questions(behave: Behave) -> None:
    chat = behave("answers")
    assert [json.loads(ask(chat).text) for _ in range(3)] == [ANSWER] * 3


def test_no_words_are_no_answer(behave: Behave) -> None:
    with pytest.raises(ChatUnusable):
        ask(behave("says nothing"))


def test_a_failure_may_pass(behave: Behave) -> None:
    with pytest.raises(ChatUnavailable):
        ask(behave("fails"))


def test_the_time_is_limited_and_the_question_counts_as_sent(behave: Behave) -> None:
    with pytest.raises(ChatUnavailable) as failed:
        ask(behave("hangs"), SHORT)
    assert failed.value.sent


def test_an_endless_answer_is_refused(behave: Behave) -> None:
    with pytest.raises(ChatUnusable, match="too long"):
        ask(behave("never ends"))


def test_after_its_end_nothing_is_asked(behave: Behave) -> None:
    chat = behave("answers")
    chat.close()
    with pytest.raises(ChatUnavailable, match="closed") as refused:
        ask(chat)
    assert not refused.value.sent


def test_no_message_repeats_the_question(behave: Behave) -> None:
    for behaviour in ("says nothing", "fails", "hangs"):
        with pytest.raises((ChatUnusable, ChatUnavailable)) as failed:
            ask(behave(behaviour), SHORT if behaviour == "hangs" else LONG)
        assert "colour" not in str(failed.value)
