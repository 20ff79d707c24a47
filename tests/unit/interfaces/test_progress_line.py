"""The line that says what a command is doing."""

import threading
from pathlib import Path

import pytest
from rich.cells import cell_len

from agent_memory.interfaces.cli import progress
from agent_memory.interfaces.cli.progress import ERASE, ProgressLine, draw
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.interfaces.command_socket.calls import CommandCall
from agent_memory.kernel.cancellation import CancelToken

SECONDS = 20.0


class Recorder:
    """A terminal that records what is written, and tells when something is."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.drawn = threading.Event()

    def __call__(self, text: str) -> None:
        self.written.append(text)
        self.drawn.set()


@pytest.mark.parametrize("columns", [12, 30, 59, 79])
@pytest.mark.parametrize("title", ["Importing", "日本語の題名", "A rather long title"])
def test_the_line_fits_the_terminal(title: str, columns: int) -> None:
    assert cell_len(draw(title, 1_234, 5_678, 3661.0, columns)) <= columns
    assert cell_len(draw(title, 1_234, None, 0.0, columns)) <= columns


def test_the_bar_fills() -> None:
    empty, half, full = (draw("Work", done, 4, 1.0, 60) for done in (0, 2, 4))

    assert empty.count("━") == 0
    assert full.count("─") == 0
    assert half.count("━") == half.count("─") == progress.BAR // 2
    assert full.endswith("4/4  1 s")


def test_more_than_the_total_is_a_full_bar() -> None:
    assert draw("Work", 9, 4, 1.0, 60).count("━") == progress.BAR


def test_without_a_total_there_are_only_figures() -> None:
    assert draw("Work", 3, None, 2.4, 60) == "Work  3  2 s"
    assert draw("Work", 0, None, 2.4, 60) == "Work  2 s"


def test_the_line_is_drawn_and_erased() -> None:
    terminal = Recorder()
    line = ProgressLine(terminal, 60, "Working", 10, delay_seconds=0)
    assert terminal.drawn.wait(SECONDS)
    line.end()

    assert "Working" in terminal.written[0]
    assert terminal.written[-1] == ERASE


def test_short_work_shows_nothing() -> None:
    terminal = Recorder()
    ProgressLine(terminal, 60, "Working", delay_seconds=SECONDS).end()

    assert terminal.written == []


def test_the_line_makes_way_for_other_output() -> None:
    terminal = Recorder()
    line = ProgressLine(terminal, 60, "Working", delay_seconds=0)
    assert terminal.drawn.wait(SECONDS)
    with line.hide():
        assert terminal.written[-1] == ERASE
        terminal("other\n")
        assert terminal.written[-1] == "other\n"
    line.end()


@pytest.mark.parametrize(
    ("is_terminal", "term", "expected"),
    [(True, "xterm", 1), (True, "dumb", 0), (False, "xterm", 0)],
)
def test_only_a_terminal_with_a_cursor_has_a_line(
    is_terminal: bool, term: str, expected: int
) -> None:
    call = CommandCall(
        program="memory",
        arguments=(),
        cwd=Path("/"),
        environ={"TERM": term},
        input_is_terminal=False,
        output_is_terminal=True,
        errors_are_terminal=is_terminal,
    )
    terminal = Terminal(call, SilentChannel(), CancelToken())
    with terminal.progress("Working", 10) as advance:
        advance(3)
        assert count_lines() == expected
    assert count_lines() == 0
    terminal.begin_waiting("Working")
    assert count_lines() == expected
    terminal.write("output ends it\n")
    assert count_lines() == 0


def count_lines() -> int:
    return sum(thread.name == progress.THREAD for thread in threading.enumerate())


class SilentChannel:
    """The streams of a caller who sends nothing."""

    def out(self, data: bytes, /) -> None: ...

    def err(self, data: bytes, /) -> None: ...

    def page(self, data: bytes, /) -> None: ...

    def ask(self, prompt: bytes, /, *, hidden: bool) -> bytes:  # noqa: ARG002
        return b""

    def ask_key(self, prompt: bytes, /) -> bytes:  # noqa: ARG002
        return b""

    def edit(self, data: bytes, /) -> bytes:  # noqa: ARG002
        return b""

    def read(self) -> bytes:
        return b""
