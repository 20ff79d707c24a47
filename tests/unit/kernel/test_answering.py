"""What asks or announces, and so answers nothing."""

import pytest

from agent_memory.kernel.text import answering


@pytest.mark.parametrize(
    "text",
    [
        "Where is the lantern?",
        "how do we rotate the certificates",
        "Which of the two flags is needed here",
        "when did the release fail",
        "Is there a limit",
        "We tried it twice. Why?",
    ],
)
def test_a_question_asks(text: str) -> None:
    assert answering.asks(text)


@pytest.mark.parametrize(
    "text",
    ["", "The lantern is in the attic.", "When the cache is full, it is emptied.", "What a day."],
)
def test_a_statement_does_not(text: str) -> None:
    assert not answering.asks(text)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("Let me check the tests.", 1.0),
        ("Now let me look at `app.js` and see how it starts:", 1.0),
        ("I\N{RIGHT SINGLE QUOTATION MARK}ll now read both files.", 1.0),
        ("Let me put it into the other folder.", 0.0),
        ("The token has expired. Let me check why.", 0.5),
        ("Shall I go on?", 1.0),
        ("All tests pass.", 0.0),
        ("", 0.0),
    ],
)
def test_the_share_that_tells_nothing(text: str, share: float) -> None:
    assert answering.measure_non_answer(text) == pytest.approx(share, abs=0.01)


def test_a_long_text_tells_something() -> None:
    assert answering.measure_non_answer("Let me check this. " * 200) == 0.0
