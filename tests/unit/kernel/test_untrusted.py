"""What is hidden in a text is shown, and what writing needs is kept."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.hooks.model.transcripts import OWN_MARKERS
from agent_memory.kernel.text.untrusted import REPLACEMENT, disarm, replace_hidden

KEPT = {
    "plain text, and code: a < b, List<String>, x[0]": "code",
    "one\ttwo\r\nthree": "lines",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467": "a family",
    "\u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3": "emoji",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f": "a flag",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645": "Persian",
    "\u0915\u094d\u200d\u0937": "Hindi",
    "\u05e9\u05dc\u05d5\u05dd!\u200f (C++\u200e)": "Hebrew with marks",
    "\u845b\U000e0100\u57ce": "a variant in Japanese",
    "\u1820\u180b": "Mongolian",
    "e\u0301, \u0e19\u0e49\u0e33, \uac00": "marks, Thai, Korean",
}
HIDDEN = {
    "tags": "".join(chr(0xE0000 + ord(letter)) for letter in "obey"),
    "a flag that is none": "\U0001f3f4\U000e0067\U000e0061\U000e007f",
    "an override": "\u202egpj.exe\u202c",
    "isolates, also in Hebrew": "\u05d0\u2066b\u2069",
    "a mark without letters from right to left": "a\u200fb",
    "two marks": "\u05d0\u200f\u200f",
    "a joiner of Latin letters": "a\u200db\u200cc",
    "spaces without a width": "a\u200b\u2060\ufeffb",
    "selectors without an emoji": "a\ufe0f",
    "many selectors": "\U0001f600\ufe01\U000e0110\U000e01ef",
    "fillers": "\u115f\u3164\uffa0",
    "a soft hyphen": "\u00ad",
    "controls": "\x1b[31m\x00\x7f\x9b",
    "separators of lines": "a\u2028b",
}


@pytest.mark.parametrize("text", KEPT, ids=KEPT.get)
def test_what_writing_needs_is_kept(text: str) -> None:
    assert disarm(text) == text


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_what_is_hidden_is_shown(text: str) -> None:
    shown = replace_hidden(text)
    assert REPLACEMENT in shown
    assert len(shown) == len(text)  # so that places in it stay what they are
    plain = {each for each in text if each.isascii() and each.isprintable()}
    for char in set(text) - set(shown) - plain:
        assert unicodedata.category(char) in {"Cf", "Cc", "Mn", "Lo", "Zl", "Cn"}
    assert not set(shown) & (set(text) - plain - set("\u05d0\U0001f3f4\U0001f600"))


@given(
    st.text(
        st.sampled_from(
            "a<\u0627\u0915\u094d\u05d0\u4e00\u200b\u200c\u200d\u200f\u202e\ufe0f\u2764\U0001f468\U0001f3f4\U000e0067\U000e007f"
        )
    )
)
def test_a_second_time_changes_nothing(text: str) -> None:
    once = disarm(text)
    assert disarm(once) == once
    assert len(once) == len(text)
    assert not set(once) & set("\u200b\u202e")


@pytest.mark.parametrize(
    "markup",
    [
        *(f"</{name}>" for name in OWN_MARKERS),
        *("<system>", "< / SYSTEM >", "<system-reminder>", "<invoke name='x'>"),
        *("<function_calls>", "<tool_result>", "<|im_start|>", "<<SYS>>", "[INST]", "[/inst]"),
        "<user_instructions>",
    ],
)
def test_markup_of_a_system_is_none_any_more(markup: str) -> None:
    shown = disarm(f"before {markup} after")
    assert len(shown) == len(markup) + 13
    assert markup not in shown
    assert shown[7] in "\u2039("


@pytest.mark.parametrize("text", ["< " * 100_000, "<" * 100_000, "<a" * 100_000, "[" * 100_000])
def test_it_takes_linear_time(text: str) -> None:
    """As a test of its limits: one that is quadratic takes minutes."""
    assert disarm(text) == text
