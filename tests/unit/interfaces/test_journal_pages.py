"""The pages of `memory today`, `log` and `sessions`: kinds, widths, what is left out."""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from rich.cells import cell_len

from agent_memory.features.toc.model.highlights import Highlight, Work
from agent_memory.features.toc.model.highlights import HighlightKind as Kind
from agent_memory.features.toc.model.journal_entries import DayEntry, SessionEntry
from agent_memory.interfaces.cli import journal_pages
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.interfaces.command_socket.calls import CommandCall
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.ids import Millis, SessionId

START, NOW = Millis(1_770_846_100_000), Millis(1_770_900_000_000)  # 2026-02-11 21:41:40, 15 h later
GRIP = "grip:1770847911992:01KH7C5G1RTGC3PN3FRGPSR3NV"
EVERY_KIND = {
    Kind.FINISHED: "finished",
    Kind.DONE: "done",
    Kind.DECIDED: "decided",
    Kind.FOUND: "found",
    Kind.BROKEN: "broken",
    Kind.OPEN: "open",
    Kind.STATE: "state",
}


class Unused:
    """A channel to which a page must not write: it is returned."""

    def out(self, data: bytes, /) -> None:
        assert not data  # the end of a capture

    def err(self, _: bytes, /) -> None:
        raise AssertionError

    def page(self, _: bytes, /) -> None:
        raise AssertionError

    def edit(self, _: bytes, /) -> bytes:
        raise AssertionError

    def ask(self, _: bytes, /, *, hidden: bool) -> bytes:
        raise AssertionError(hidden)

    def ask_key(self, _: bytes, /) -> bytes:
        raise AssertionError

    def read(self) -> bytes:
        raise AssertionError


def open_terminal(columns: int, *, is_terminal: bool = True) -> Terminal:
    call = CommandCall(
        program="memory",
        arguments=(),
        cwd=Path("/"),
        environ={"TERM": "xterm-256color"},
        input_is_terminal=is_terminal,
        output_is_terminal=is_terminal,
        errors_are_terminal=is_terminal,
        columns=columns,
    )
    return Terminal(call, Unused(), CancelToken())


def build_session(
    highlights: Iterable[Highlight] = (), *, title: str = "Light the lamp", active: bool = False
) -> SessionEntry:
    return SessionEntry(
        session_id=SessionId("8463c716-a2ea-4c14"),
        short_id="8463c716",
        project="lantern",
        agent="claude-code",
        title=title,
        start_ms=START,
        end_ms=Millis(START + 3_600_000),
        active=active,
        work=Work(sessions=1, prompts=3, commits=2, seconds=3_600, files=("a.py", "b.py")),
        highlights=tuple(highlights),
        segments=(),
    )


def build_day(*sessions: SessionEntry) -> DayEntry:
    work = Work(sessions=len(sessions), commits=2, seconds=3_600)
    return DayEntry(
        day=date(2026, 2, 11),
        start_ms=START,
        end_ms=Millis(START + 3_600_000),
        summary="The lamp is lit.",
        work=work,
        sessions=sessions,
    )


def build_highlights(kinds: Iterable[Kind], text: str = "Some words") -> list[Highlight]:
    return [
        Highlight(text=f"{text} {number}", grip_ids=(GRIP,), weight=float(number), kind=kind)
        for number, kind in enumerate(kinds)
    ]


def drop_styles(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_each_kind_has_a_word() -> None:
    session = build_session(build_highlights(EVERY_KIND))
    text = journal_pages.render_days(open_terminal(80, is_terminal=False), [build_day(session)])
    lines = [line.split()[0] for line in text.splitlines() if line.endswith("01KH7C5G1RTGC3")]
    assert lines == list(EVERY_KIND.values())
    assert "\x1b" not in text
    coloured = journal_pages.render_days(open_terminal(80), [build_day(session)])
    assert drop_styles(coloured) == text
    assert "\x1b[1;32mfinished" in coloured


@pytest.mark.parametrize("columns", [50, 60, 80, 200])
def test_long_words_and_titles_fit(columns: int) -> None:
    long = build_highlights([Kind.DONE, Kind.OPEN], "日本語 and words " * 20)
    session = build_session(long, title="A title that goes on and on " * 10, active=True)
    terminal = open_terminal(columns)
    for text in (
        journal_pages.render_days(terminal, [build_day(session)]),
        journal_pages.render_log(terminal, [session]),
        journal_pages.render_lines(terminal, [session]),
        journal_pages.render_table(terminal, [session], NOW),
    ):
        for line in drop_styles(text).splitlines():
            assert cell_len(line) <= columns, line


def test_the_table_leaves_columns_out_where_there_is_no_room() -> None:
    session = build_session()

    def read_head(columns: int) -> str:
        text = journal_pages.render_table(open_terminal(columns), [session], NOW)
        assert "…" not in text
        return " ".join(drop_styles(text).splitlines()[0].split())

    assert read_head(140) == "ID STARTED (UTC) AGE TIME PROJECT AGENT PROMPTS TITLE"
    for columns in (69, 80):  # as wide as the table
        assert read_head(columns) == "ID STARTED (UTC) AGE TIME PROJECT AGENT PROMPTS"
    assert read_head(60) == "ID STARTED (UTC) AGE TIME PROJECT PROMPTS"
    assert read_head(30) == "ID STARTED (UTC)"


def test_an_active_session_is_marked_everywhere() -> None:
    terminal = open_terminal(140, is_terminal=False)
    for active in (True, False):
        session = build_session(active=active)
        for text in (
            journal_pages.render_days(terminal, [build_day(session)]),
            journal_pages.render_log(terminal, [session]),
            journal_pages.render_lines(terminal, [session]),
            journal_pages.render_table(terminal, [session], NOW),
            journal_pages.format_log_markdown([session]),
            journal_pages.format_table_markdown([session], NOW),
        ):
            assert ("active" in text) is active


def test_control_characters_do_not_reach_the_terminal() -> None:
    session = build_session(build_highlights([Kind.DONE], "\x1b]0;owned\x07"), title="\x9b2J\nx")
    terminal = open_terminal(80, is_terminal=False)
    for text in (
        journal_pages.render_days(terminal, [build_day(session)]),
        journal_pages.render_table(terminal, [session], NOW),
        journal_pages.format_days_markdown([build_day(session)]),
    ):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


def test_a_markdown_table_escapes_its_borders() -> None:
    text = journal_pages.format_table_markdown([build_session(title="a | b")], NOW)
    assert text.splitlines()[-1].endswith(" | a \\| b |")


def test_sessions_without_a_project_come_last() -> None:
    bare = replace(build_session(), project="")
    text = journal_pages.render_days(
        open_terminal(80, is_terminal=False), [build_day(bare, build_session())]
    )
    lines = text.splitlines()
    assert lines.index("lantern") < lines.index(journal_pages.NO_PROJECT)
