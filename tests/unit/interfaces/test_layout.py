"""Text for a terminal: lines that fit, and colours that change nothing but the colour."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from agent_memory.interfaces.cli import layout

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
MARK = re.compile(r"^\s*(?:>\s*)?(?:[-✓] |\[1\] |a  )?")
unhurried = settings(deadline=None)
words = st.text(st.sampled_from("ab:>-.é日😀"), min_size=1, max_size=30)
lines = st.lists(words, max_size=12).map(" ".join)
indents = st.sampled_from(["", "  ", "> ", "  - ", "Label: ", "    Label: ", "[1] ", "✓ ", "a  "])
texts = st.lists(st.builds(str.__add__, indents, lines), max_size=6).map("\n".join)


@unhurried
@given(text=texts, columns=st.integers(24, 100))
def test_a_line_fits_unless_one_word_is_too_wide(text: str, columns: int) -> None:
    for line in layout.fit(text, columns).split("\n"):
        assert cell_len(line) <= columns or len(MARK.sub("", line).split()) == 1


@unhurried
@given(text=texts, columns=st.integers(24, 100))
def test_breaking_lines_loses_no_word(text: str, columns: int) -> None:
    def squeeze(written: str) -> str:
        return re.sub(r"[\s>]", "", written)  # the mark of a quoted turn is repeated

    assert squeeze(layout.fit(text, columns)) == squeeze(text)


@unhurried
@given(text=texts)
def test_a_line_that_fits_stays_as_it_is(text: str) -> None:
    assert layout.fit(text, 10_000) == "\n".join(line.rstrip() for line in text.split("\n"))


@pytest.mark.parametrize(
    ("line", "fitted"),
    [
        ("plain words that go on", "plain words that go\non"),
        ("  - a bullet that goes on", "  - a bullet that\n    goes on"),
        ("Label: a value that is long", "Label: a value that\n       is long"),
        (">   a quoted line goes on", ">   a quoted line\n>   goes on"),
        ("key  a value in a table", "key  a value in a\n     table"),
        ("a.wide.setting  its value", "a.wide.setting  its\n    value"),
        ("Session: of abcdefghijklmnopqr", "Session: of\n  abcdefghijklmnopqr"),
        ("URI: memory://events/01ABCDEFGHJ", "URI:\nmemory://events/01ABCDEFGHJ"),
        ("日本語の文章には空白がありません。", "日本語の文章には空白\nがありません。"),
    ],
)
def test_further_lines_begin_below_the_text(line: str, fitted: str) -> None:
    assert layout.fit(line, 20) == fitted


def test_colours_take_no_room() -> None:
    painted = layout.paint("green", "32")

    assert layout.fit(f"{painted} words", 20) == f"{painted} words"


@pytest.mark.parametrize("text", ["words that go on and on", "日本語の文章には空白がありません"])
def test_a_broken_text_has_its_colour_on_every_line(text: str) -> None:
    shown = layout.fit(f"Label: {layout.paint(text, '1')} end", 20)

    first, *further = shown.split("\n")
    assert first.startswith("Label: \x1b[1m")
    assert first.endswith("\x1b[0m")
    assert further[0].startswith("\x1b[1m")
    assert re.sub(r"\s", "", ESCAPES.sub("", shown)) == re.sub(r"\s", "", f"Label:{text}end")
    assert all(layout.measure(line) <= 20 for line in (first, *further))
    assert "\x1b" not in further[-1].partition("end")[2]


@unhurried
@given(text=texts)
def test_without_its_colours_a_text_is_the_same(text: str) -> None:
    assert ESCAPES.sub("", layout.colour(text)) == text


@pytest.mark.parametrize(
    ("text", "colored"),
    [
        ("decisions:abc123def456:0", True),
        ("blockers:abc1234", True),
        ("01KJWH7MMGZMRV", True),
        ("toc:day:2026-03-04", True),
        ("memory://events/e1", True),
        ("2026-03-04", True),
        ("2026-03-04 10:00:00 CET", True),
        ("✓ done", True),
        ("(to review)", True),
        ("a decision: abc", False),
        ("12:30", False),
        ("1.2026-03-045", False),
    ],
)
def test_ids_times_and_states_are_coloured(text: str, colored: bool) -> None:
    assert (layout.colour(text) != text) is colored


def test_what_has_a_colour_keeps_it() -> None:
    painted = layout.paint("decisions:abc123def456:0", "1")

    assert layout.colour(painted) == painted


def test_a_message_begins_with_a_coloured_word() -> None:
    assert layout.colour_message("error: no\n").startswith("\x1b[1;31merror:\x1b[0m")
    assert layout.colour_message("no error: here\n") == "no error: here\n"
