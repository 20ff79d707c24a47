"""Commands on a real terminal: width, colors, prompts, progress and pager."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_runner import Answer, Home, ProgramServer, wait_until

RED = "\x1b[31m"
BOLD_RED = "\x1b[1;31m"
ESCAPE = b"\x1b"
ERASE = "\r\x1b[K"


@pytest.fixture(scope="module")
def programs() -> Iterator[ProgramServer]:
    with Home() as home, ProgramServer(home) as server:
        yield server


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """Write a pager that records its arguments and input instead of showing them."""
    script = tmp_path / "pager"
    script.write_text('#!/bin/sh\necho "$*" > "$0.args"\ncat > "$0.input"\n')
    script.chmod(0o700)
    return script


def _prose_width(shown: str) -> int:
    """Return the widest line of a help before its tables, whose words cannot be broken."""
    return max(len(line) for line in shown.partition("Options:")[0].splitlines())


@pytest.mark.parametrize("columns", [40, 120])
def test_help_is_as_wide_as_the_window(programs: ProgramServer, columns: int) -> None:
    with programs.on_terminal("--help", columns=columns) as screen:
        assert screen.finish() == 0

    assert columns * 0.75 < _prose_width(screen.text) <= columns


def test_in_a_pipe_help_has_the_usual_80_columns(programs: ProgramServer) -> None:
    assert 60 < _prose_width(programs.run("--help").text) <= 80


def test_columns_in_the_environment_win(programs: ProgramServer) -> None:
    with programs.on_terminal("facts", "--format", "json", env={"COLUMNS": "33"}) as screen:
        assert screen.finish() == 0

    assert '"columns": 33' in screen.text


def test_a_window_without_a_size_is_taken_for_80_columns(programs: ProgramServer) -> None:
    with programs.on_terminal("facts", "--format", "json", columns=0, lines=0) as screen:
        assert screen.finish() == 0

    assert '"columns": 80' in screen.text


def test_there_is_colour_on_a_terminal(programs: ProgramServer) -> None:
    with programs.on_terminal("red") as screen:
        assert screen.finish() == 0

    assert f"{RED}out" in screen.text
    assert f"{BOLD_RED}error:" in screen.text


@pytest.mark.parametrize(
    "env",
    [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"MEMORY_CLI__COLOR": "no"}, {"FORCE_COLOR": "0"}],
)
def test_colour_is_left_out_where_it_is_not_wanted(
    programs: ProgramServer, env: dict[str, str]
) -> None:
    with programs.on_terminal("red", env=env) as screen:
        assert screen.finish() == 0

    assert screen.shown == b"out\r\nerror: err\r\n"


def test_in_a_pipe_there_is_no_colour(programs: ProgramServer) -> None:
    assert programs.run("red") == Answer(0, b"out\n", b"error: err\n")


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "CLICOLOR_FORCE"])
def test_in_a_pipe_colour_can_be_forced(programs: ProgramServer, variable: str) -> None:
    answer = programs.run("red", env={variable: "1"})

    assert f"{RED}out" in answer.text
    assert f"{BOLD_RED}error:" in answer.errors


def test_no_color_wins_over_force_color(programs: ProgramServer) -> None:
    answer = programs.run("red", env={"FORCE_COLOR": "1", "NO_COLOR": "1"})

    assert answer == Answer(0, b"out\n", b"error: err\n")


def test_a_prompt_takes_the_answer(programs: ProgramServer) -> None:
    with programs.on_terminal("prompt") as screen:
        screen.read_until("Word: ")
        screen.type("hëllo wörld\n")
        assert screen.finish() == 0

    assert screen.text == "Word: hëllo wörld\n<hëllo wörld>\n"


def test_a_prompt_is_shown_where_output_goes_to_a_file(
    programs: ProgramServer, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    with path.open("wb") as file, programs.on_terminal("prompt", stdout=file) as screen:
        screen.read_until("Word: ")
        screen.type("x\n")
        assert screen.finish() == 0

    assert screen.text == "Word: x\n"
    assert path.read_text() == "<x>\n"


def test_a_hidden_answer_is_not_shown_and_echo_comes_back(programs: ProgramServer) -> None:
    with programs.on_terminal("prompt", "--hidden") as screen:
        screen.read_until("Word: ")
        wait_until(lambda: not screen.echoes, "echo is off")
        screen.type("s3cret\n")
        assert screen.finish() == 0
        assert screen.echoes

    assert screen.text == "Word: \n<s3cret>\n"


def test_ctrl_c_at_a_hidden_prompt_brings_echo_back(programs: ProgramServer) -> None:
    with programs.on_terminal("prompt", "--hidden") as screen:
        screen.read_until("Word: ")
        wait_until(lambda: not screen.echoes, "echo is off")
        screen.type("s3c")
        screen.interrupt()
        assert screen.finish() == 130
        assert screen.echoes

    assert "s3c" not in screen.text
    assert "Traceback" not in screen.text


def test_ctrl_c_at_a_prompt_ends_the_command(programs: ProgramServer) -> None:
    with programs.on_terminal("prompt") as screen:
        screen.read_until("Word: ")
        screen.interrupt()
        assert screen.finish() == 130

    assert "<" not in screen.text
    assert "Traceback" not in screen.text


def test_ctrl_d_at_a_prompt_ends_the_command(programs: ProgramServer) -> None:
    with programs.on_terminal("prompt") as screen:
        screen.read_until("Word: ")
        screen.type("\x04")
        assert screen.finish() == 130


def test_ctrl_c_cancels_a_command_that_works(programs: ProgramServer, tmp_path: Path) -> None:
    record = tmp_path / "record"
    with programs.on_terminal("work", str(record)) as screen:
        screen.read_until("working")
        screen.interrupt()
        assert screen.finish() == 130

    # The command learns of it after its user has the prompt back.
    wait_until(lambda: record.read_text() == "cancelled", "the command was cancelled")
    assert "Traceback" not in screen.text


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("y\n", "yes"), ("YES\n", "yes"), ("n\n", "no"), ("no\n", "no"), ("\n", "no")],
)
def test_a_question_is_answered_by_yes_or_no(
    programs: ProgramServer, typed: str, answer: str
) -> None:
    with programs.on_terminal("confirm") as screen:
        screen.read_until("Sure? [y/N] ")
        screen.type(typed)
        assert screen.finish() == 0

    assert screen.text.endswith(f"\n{answer}\n")


def test_a_question_is_asked_again_until_it_is_answered(programs: ProgramServer) -> None:
    with programs.on_terminal("confirm") as screen:
        for round_number in range(1, 4):
            until_asked = "Sure? [y/N] maybe\n" * (round_number - 1) + "Sure? [y/N] "
            screen.read_until(until_asked)
            screen.type("maybe\n" if round_number < 3 else "y\n")
        assert screen.finish() == 0

    assert screen.text.endswith("\nyes\n")


def test_progress_is_drawn_on_standard_error_of_a_terminal(
    programs: ProgramServer, tmp_path: Path
) -> None:
    path, seen = tmp_path / "out", tmp_path / "seen"
    with (
        path.open("wb") as file,
        programs.on_terminal("progress", "5", str(seen), stdout=file) as screen,
    ):
        screen.read_until("5/5")
        seen.touch()
        assert screen.finish() == 0

    assert re.search(r"Working  ━+  5/5", screen.text)
    assert screen.text.endswith(ERASE)
    assert path.read_text() == "done\n"


def test_a_warning_does_not_run_into_the_progress_bar(
    programs: ProgramServer, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    with programs.on_terminal("progress", "5", str(seen), "--warn") as screen:
        screen.read_until("5/5")
        seen.touch()
        assert screen.finish() == 0

    assert f"{ERASE}\x1b[1;33mwarning:\x1b[0m careful\n" in screen.text


def test_a_command_that_writes_nothing_for_long_shows_a_spinner(
    programs: ProgramServer, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    with programs.on_terminal("think", str(seen)) as screen:
        screen.read_until("Working")
        seen.touch()
        assert screen.finish() == 0

    assert screen.text.endswith(f"{ERASE}done\n")


def test_what_the_daemon_itself_writes_is_not_shown_beside_a_progress_bar(
    programs: ProgramServer, tmp_path: Path
) -> None:
    with programs.on_terminal("progress", "5", str(tmp_path)) as screen:
        assert screen.finish() == 0

    assert "of the server" not in screen.text


def test_in_a_pipe_no_progress_is_drawn(programs: ProgramServer, tmp_path: Path) -> None:
    assert programs.run("progress", "5", str(tmp_path)) == Answer(0, b"done\n", b"")


@pytest.mark.parametrize("env", [{"MEMORY_CLI__PROGRESS": "false"}, {"TERM": "dumb"}])
def test_progress_can_be_switched_off(
    programs: ProgramServer, tmp_path: Path, env: dict[str, str]
) -> None:
    with programs.on_terminal("progress", "5", str(tmp_path), env=env) as screen:
        assert screen.finish() == 0

    assert screen.text == "done\n"


def test_a_long_text_goes_to_the_pager_with_the_pagers_arguments(
    programs: ProgramServer, pager: Path
) -> None:
    with programs.on_terminal("page", "30", env={"PAGER": f"{pager} -a --long b"}) as screen:
        assert screen.finish() == 0

    assert screen.shown == b""
    assert Path(f"{pager}.args").read_text() == "-a --long b\n"
    assert Path(f"{pager}.input").read_text() == "".join(f"line {n}\n" for n in range(30))


def test_a_huge_text_goes_to_one_pager(programs: ProgramServer, pager: Path) -> None:
    count = 1_500_000
    with programs.on_terminal("page", str(count), env={"PAGER": str(pager)}) as screen:
        assert screen.finish() == 0

    shown = Path(f"{pager}.input").read_text()
    assert shown.count("\n") == count
    assert shown.startswith("line 0\n")


def test_a_text_that_fits_the_screen_needs_no_pager(programs: ProgramServer, pager: Path) -> None:
    with programs.on_terminal("page", "10", env={"PAGER": str(pager)}) as screen:
        assert screen.finish() == 0

    assert screen.text == "".join(f"line {n}\n" for n in range(10))


@pytest.mark.parametrize("chosen", ["", "cat"])
def test_an_empty_memory_pager_is_none(programs: ProgramServer, pager: Path, chosen: str) -> None:
    env = {"PAGER": str(pager), "MEMORY_PAGER": chosen}
    with programs.on_terminal("page", "30", env=env) as screen:
        assert screen.finish() == 0

    assert screen.text == "".join(f"line {n}\n" for n in range(30))
    assert not Path(f"{pager}.input").exists()


def test_memory_pager_wins_over_pager(programs: ProgramServer, pager: Path) -> None:
    env = {"PAGER": "/no/such/pager", "MEMORY_PAGER": f"{pager} -x"}
    with programs.on_terminal("page", "30", env=env) as screen:
        assert screen.finish() == 0

    assert screen.shown == b""
    assert Path(f"{pager}.args").read_text() == "-x\n"


def test_no_pager_is_an_option_of_every_command(programs: ProgramServer, pager: Path) -> None:
    env = {"PAGER": str(pager)}
    with programs.on_terminal("page", "30", "--no-pager", env=env) as screen:
        assert screen.finish() == 0

    assert screen.text.startswith("line 0\n")


@pytest.mark.parametrize("name", ["", " "])
def test_where_none_is_named_the_pager_is_less(
    programs: ProgramServer, pager: Path, name: str
) -> None:
    pager.rename(pager.with_name("less"))
    env = {"PAGER": name, "PATH": f"{pager.parent}:{programs.home.environ['PATH']}"}
    with programs.on_terminal("page", "30", env=env) as screen:
        assert screen.finish() == 0

    assert screen.shown == b""
    assert pager.with_name("less.input").read_text().startswith("line 0\n")
    assert pager.with_name("less.args").read_text() == "-FRX\n"


def test_without_a_pager_the_text_is_shown_plainly(programs: ProgramServer) -> None:
    with programs.on_terminal("page", "30", env={"PAGER": "/no/such/pager"}) as screen:
        assert screen.finish() == 0

    assert screen.text == "".join(f"line {n}\n" for n in range(30))


def test_a_pager_that_ends_early_ends_the_command_quietly(programs: ProgramServer) -> None:
    with programs.on_terminal("page", "100000", env={"PAGER": "head -1"}) as screen:
        assert screen.finish() == 0

    assert screen.text == "line 0\n"


def test_ctrl_c_in_a_pager_is_the_pagers(programs: ProgramServer, tmp_path: Path) -> None:
    script = tmp_path / "pager"
    script.write_text(
        '#!/bin/sh\ntrap "echo caught; exit" INT\necho paging\nread line < /dev/tty\n'
    )
    script.chmod(stat.S_IRWXU)
    with programs.on_terminal("page", "30", env={"PAGER": str(script)}) as screen:
        screen.read_until("paging")
        screen.interrupt()
        assert screen.finish() == 0

    assert "caught" in screen.text
    assert "Traceback" not in screen.text


def test_in_a_pipe_there_is_no_pager(programs: ProgramServer, pager: Path) -> None:
    answer = programs.run("page", "30", env={"PAGER": str(pager)})

    assert answer == Answer(0, "".join(f"line {n}\n" for n in range(30)).encode(), b"")


def test_the_pager_can_be_switched_off(programs: ProgramServer, pager: Path) -> None:
    env = {"PAGER": str(pager), "MEMORY_CLI__PAGER": "false"}
    with programs.on_terminal("page", "30", env=env) as screen:
        assert screen.finish() == 0

    assert screen.text.startswith("line 0\n")


def test_without_a_daemon_a_terminal_is_treated_alike() -> None:
    with Home() as home, home.on_terminal("memory-daemon", "--help", columns=50) as screen:
        assert screen.finish() == 0
        assert home.pid() is None

    assert 40 < _prose_width(screen.text) <= 50
    assert ESCAPE not in screen.shown
