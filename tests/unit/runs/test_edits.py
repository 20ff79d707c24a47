"""Edits of texts, and the differences that people approve."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.model import edits
from agent_memory.kernel.errors import ToolFailed

GIT = shutil.which("git") or "git"
LINES = st.lists(st.sampled_from(["a", "b", "", "some words", "x = 1"]), max_size=12).map("\n".join)


def test_the_one_place_is_replaced() -> None:
    assert edits.replace_text("one two", "two", "three", everywhere=False) == "one three"


def test_several_places_are_refused_by_their_lines_unless_all_are_meant() -> None:
    with pytest.raises(ToolFailed, match=r"2 times \(lines 1, 3\)"):
        edits.replace_text("a\nb\na", "a", "c", everywhere=False)
    assert edits.replace_text("a\nb\na", "a", "c", everywhere=True) == "c\nb\nc"


def test_lines_may_end_otherwise_in_the_file() -> None:
    assert edits.replace_text("a\r\nb\r\n", "a\nb", "a\nc", everywhere=False) == "a\r\nc\r\n"


def test_what_is_not_there_is_answered_with_what_is() -> None:
    text = "def one():\n    pass\n\n\ndef total(items):\n    return sum(items)\n"
    with pytest.raises(ToolFailed, match=r"The file has from line 5:\ndef total\(items\):"):
        edits.replace_text(text, "def total(item):\n  return 0", "", everywhere=False)
    with pytest.raises(ToolFailed, match=r"The file has from line 2:\n    pass"):
        edits.replace_text(text, "\tpass", "x", everywhere=False)
    with pytest.raises(ToolFailed, match="read the file first"):
        edits.replace_text(text, "nothing of the kind", "x", everywhere=False)
    with pytest.raises(ToolFailed, match="the file is empty"):
        edits.replace_text("", "x", "y", everywhere=False)


def test_nothing_to_change_is_no_edit() -> None:
    with pytest.raises(ToolFailed, match="nothing would change"):
        edits.replace_text("a", "a", "a", everywhere=False)


def test_a_difference_reads_as_everywhere() -> None:
    told = edits.render_diff("src/a.py", "one\ntwo\nthree\n", "one\n2\nthree\n")
    assert told == "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    new = edits.render_diff("b", None, "hello\n")
    assert new == "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+hello"
    assert edits.render_diff("b", "x", "x") == "no change in b"
    assert "(an empty file)" in edits.render_diff("b", None, "")
    assert "No newline at end of file" in edits.render_diff("b", "x\n", "x")


@given(LINES, LINES)
def test_patch_makes_of_the_old_text_the_new_one(before: str, after: str) -> None:
    told = edits.render_diff("file", before, after)
    if before == after:
        return
    assert _patched(before, told) == after


@given(LINES, LINES, st.integers(100, 130))
def test_many_lines_are_not_compared_and_still_right(before: str, after: str, many: int) -> None:
    old = before + "\n" + "filler one\n" * 9 * many + "end"
    new = after + "\n" + "filler two\n" * 9 * many + "end"
    assert _patched(old, edits.render_diff("file", old, new)) == new


def test_patch_itself_takes_it(tmp_path: Path) -> None:
    before = "".join(f"line {number}\n" for number in range(60))
    after = before.replace("line 7\n", "").replace("line 40", "other 40").rstrip("\n")
    (tmp_path / "file").write_text(before)
    told = edits.render_diff("file", before, after) + "\n"
    subprocess.run(
        [GIT, "apply", "--unsafe-paths", "-"], cwd=tmp_path, input=told.encode(), check=True
    )
    assert (tmp_path / "file").read_text() == after


def test_nothing_in_a_difference_moves_a_cursor_or_turns_the_writing() -> None:
    hidden = "rm -rf /\x1b[2K\rls \u202e evil\u2028 \x9b1m \u200b tab\t\xa0end\n"
    told = edits.render_diff("a\x1b[2Kb", None, hidden)
    assert not set(told) & set("\x1b\r\u202e\u2028\x9b\u200b")
    assert "\\x1b[2K\\rls \\u202e evil\\u2028" in told
    assert "tab\t\xa0end" in told


def test_what_is_cut_says_so() -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    told = edits.truncate_text(text, 200)
    assert len(told) <= 200
    shown, _, note = told.rpartition("\n")
    assert text.startswith(shown)
    left = 100 - len(shown.split("\n"))
    assert note == f"[cut here: {left} more lines are not shown]"
    assert edits.truncate_text("short", 200) == "short"
    assert len(edits.truncate_text("x" * 1_000, 200)) <= 200


def _patched(before: str, told: str) -> str:
    """What a unified diff makes of a text, by what such a diff means."""
    old = re.findall(r"[^\n]*\n|[^\n]+", before)
    taken = 0
    result: list[str] = []
    steps: list[str] = []
    for line in told.split("\n")[2:]:
        if line.startswith("\\"):
            steps[-1] = steps[-1].removesuffix("\n")
        else:
            steps.append(line + "\n")
    for step in steps:
        sign, text = step[0], step[1:]
        if sign == "@":
            head = re.match(r"@ -(\d+)(?:,(\d+))? ", text)
            assert head is not None
            start = int(head[1]) - (head[2] != "0")
            result += old[taken:start]
            taken = start
            continue
        if sign in "- ":
            assert old[taken] == text
            taken += 1
        if sign in "+ ":
            result.append(text)
    return "".join((*result, *old[taken:]))
