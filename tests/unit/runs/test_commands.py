"""Commands: which may be run, and what is kept of what they print."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.model import commands
from agent_memory.features.runs.model.commands import CommandResult, HeadTailBuffer
from agent_memory.kernel.errors import ToolFailed

ALLOWED = ("git status", "pytest", "'my tool' --dry")
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
CHUNKS = st.lists(st.binary(max_size=40), max_size=12)


class TestWords:
    @pytest.mark.parametrize(
        ("command", "words"),
        [
            ("git status", ["git", "status"]),
            ("  git   status\t--short ", ["git", "status", "--short"]),
            ("pytest -k 'a or b' \"c d\"", ["pytest", "-k", "a or b", "c d"]),
            ("'my tool' --dry x", ["my tool", "--dry", "x"]),
            ("pytest $HOME ~ `id` $(id) *", ["pytest", "$HOME", "~", "`id`", "$(id)", "*"]),
            ("git status\nrm -rf x", ["git", "status", "rm", "-rf", "x"]),
        ],
    )
    def test_are_those_of_one_program_as_they_are(self, command: str, words: list[str]) -> None:
        assert commands.split_command(command, ALLOWED) == words

    @pytest.mark.parametrize(
        "command",
        ["git", "git push", "git 'status x'", "gitstatus", "pytest2", "/bin/pytest", "./pytest",
         "rm -rf /", "FOO=1 pytest", "env pytest", "my tool --dry", "PYTEST"],
    )  # fmt: skip
    def test_of_another_beginning_are_refused_with_what_may_be(self, command: str) -> None:
        with pytest.raises(ToolFailed, match="not allowed; allowed are: git status, pytest"):
            commands.split_command(command, ALLOWED)

    @pytest.mark.parametrize("operator", ["|", "&&", ";", ">", "2>&1", "<", "||", "&"])
    def test_no_shell_is_between(self, operator: str) -> None:
        with pytest.raises(ToolFailed) as told:
            commands.split_command(f"pytest {operator} x", ALLOWED)
        assert str(told.value).endswith(f"one program and its arguments, without {operator}")

    @pytest.mark.parametrize("quoted", ["'|'", '">"', "a|b", '"<" "it\'s"', '"a\\"b" "|"'])
    def test_what_is_quoted_is_for_the_program(self, quoted: str) -> None:
        assert commands.split_command(f"pytest {quoted}", ALLOWED) == [
            "pytest",
            *shlex.split(quoted),
        ]

    @pytest.mark.parametrize(
        ("command", "said"),
        [
            ("", "is empty"),
            (" \n", "is empty"),
            ("pytest 'x", "cannot be parsed: No closing quotation"),
            ("pytest \\", "cannot be parsed"),
            ("pytest a\0b", "zero byte"),
        ],
    )
    def test_that_are_none_are_told_why(self, command: str, said: str) -> None:
        with pytest.raises(ToolFailed, match=said):
            commands.split_command(command, ALLOWED)

    @pytest.mark.parametrize("allowed", [(), ("",), ("  ",), ("'",)])
    def test_a_setting_that_says_nothing_allows_nothing(self, allowed: tuple[str, ...]) -> None:
        for command in ("pytest", "'' pytest", "'"):
            with pytest.raises(ToolFailed):
                commands.split_command(command, allowed)

    @given(st.lists(WORDS, max_size=4), st.lists(WORDS, min_size=1, max_size=3))
    def test_begin_with_all_of_those_allowed(self, given: list[str], allowed: list[str]) -> None:
        command = shlex.join(given)
        try:
            found = commands.split_command(command, [shlex.join(allowed)])
        except ToolFailed:
            assert given[: len(allowed)] != allowed
        else:
            assert found == given
            assert given[: len(allowed)] == allowed


class TestTold:
    @pytest.mark.parametrize(
        ("ran", "told"),
        [
            (CommandResult(code=0, output="well\n"), "well"),
            (CommandResult(code=0, output=""), "(no output)"),
            (CommandResult(code=0, output="  indented\n\n"), "  indented"),
            (CommandResult(code=3, output="bad\n"), "bad\nexit code 3"),
            (CommandResult(code=1, output=""), "exit code 1"),
            (CommandResult(code=-9, output=""), "exit code 137 (signal 9)"),
            (CommandResult(code=-11, output="x"), "x\nexit code 139 (signal 11)"),
        ],
    )
    def test_a_command_that_ends_is_a_result_however_it_ends(
        self, ran: CommandResult, told: str
    ) -> None:
        assert commands.format_result(ran, 5) == told

    def test_one_that_does_not_end_is_a_failure_with_what_it_printed(self) -> None:
        with pytest.raises(ToolFailed, match=r"^so far\nstopped: it took longer than 2\.5 s$"):
            commands.format_result(CommandResult(code=None, output="so far\n"), 2.5)
        with pytest.raises(ToolFailed, match=r"^stopped: it took longer than 120 s$"):
            commands.format_result(CommandResult(code=None, output=""), 120)


def feed(most: int, chunks: list[bytes]) -> HeadTailBuffer:
    ends = HeadTailBuffer(most)
    for each in chunks:
        ends.add(each)
    return ends


class TestEnds:
    @given(st.integers(0, 60), CHUNKS)
    def test_of_a_stream_no_more_is_kept_than_may_be(self, most: int, chunks: list[bytes]) -> None:
        ends, whole = feed(most, chunks), b"".join(chunks)
        assert len(ends.head) + len(ends.tail) == min(most, len(whole))
        assert ends.left_out == max(0, len(whole) - most)

    @given(st.integers(0, 60), CHUNKS)
    def test_its_beginning_and_its_end_are_kept(self, most: int, chunks: list[bytes]) -> None:
        ends, whole = feed(most, chunks), b"".join(chunks)
        assert whole.startswith(ends.head)
        assert whole.endswith(ends.tail)
        if ends.left_out:
            assert (len(ends.head), len(ends.tail)) == (most // 2, most - most // 2)

    @given(st.integers(0, 60), CHUNKS)
    def test_it_is_the_same_however_it_comes(self, most: int, chunks: list[bytes]) -> None:
        assert feed(most, chunks) == feed(most, [b"".join(chunks)])

    @given(st.lists(st.text(max_size=9), max_size=9))
    def test_what_has_room_is_told_whole(self, texts: list[str]) -> None:
        data = [each.encode("utf-8", "replace") for each in texts]
        whole = b"".join(data)
        assert feed(len(whole), data).text() == whole.decode()

    @given(st.integers(0, 60), CHUNKS)
    def test_what_is_told_is_hardly_longer(self, most: int, chunks: list[bytes]) -> None:
        assert len(feed(most, chunks).text()) <= most + 40

    def test_what_is_left_out_is_told(self) -> None:
        told = feed(10, [b"begin", b"x" * 5_000, b"close"]).text()
        assert told == "begin\n[5,000 bytes omitted here]\nclose"
