"""Days and sessions of the journal as text and markdown."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from agent_memory.features.toc.model import work_figures
from agent_memory.features.toc.model.journal_entries import DayEntry, SessionEntry
from agent_memory.features.toc.model.periods import Level, Period
from agent_memory.interfaces.cli import bullets, rendering
from agent_memory.interfaces.cli.paragraphs import Paragraphs
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.kernel.ids import Millis

NO_PROJECT = "no project"
_ID = "yellow"
_TIME = "cyan"
_PROJECT = "bold blue"
_COLUMN_LIMIT = 24  # of a project or an agent in a table
_LEAST_TITLE = 30  # columns; with less room a title has a line of its own


def render_days(terminal: Terminal, days: Sequence[DayEntry]) -> str:
    page = Paragraphs(terminal)
    for entry in days:
        page.add_blank()
        title = Period(level=Level.DAY, first=entry.day).title
        zone = rendering.format_zone(entry.start_ms)
        page.add(Text.assemble((title, "bold"), (f" ({zone})", "dim")))
        if entry.summary:
            page.add(Text(rendering.excerpt(entry.summary, 1_000)))
        for project, own in _group_projects(entry):
            page.add_blank()
            page.add(Text(rendering.plain(project or NO_PROJECT), style=_PROJECT))
            for session in own:
                _add_session(page, session)
        if not entry.summary:  # else it has the figures
            page.add_blank()
            page.add(Text(work_figures.describe(entry.work), style="bold"))
    return page.render()


def _add_session(page: Paragraphs, entry: SessionEntry) -> None:
    times = f"{rendering.clock_time(entry.start_ms)}-{rendering.clock_time(entry.end_ms)}"
    head = Text.assemble((rendering.plain(entry.short_id), _ID), "  ", (times, _TIME), "  ")
    active = Text.assemble("  ", ("active", "green")) if entry.active else Text()
    page.add(Text.assemble((_one_line(entry.title), "bold"), active), head=head, indent=2)
    _add_highlights(page, entry)


def _add_highlights(page: Paragraphs, entry: SessionEntry) -> None:
    for each in entry.highlights:
        word = each.kind.word
        page.add(
            Text.assemble(
                _one_line(each.text),
                "  ",
                (bullets.abbreviate_grip(each.grip_ids), bullets.ID_STYLE),
            ),
            head=Text(f"{word:<{bullets.WIDTH}}  ", style=bullets.get_style(each.kind)),
            indent=4,
        )


def render_log(terminal: Terminal, entries: Sequence[SessionEntry]) -> str:
    page = Paragraphs(terminal)
    for entry in entries:
        page.add_blank()
        state = Text.assemble(" ", ("(active)", "green")) if entry.active else Text()
        page.add(Text.assemble((f"session {rendering.plain(entry.short_id)}", _ID), state))
        for name, value in (
            ("Project", entry.project),
            ("Agent", entry.agent),
            ("Date", _format_time_range(entry) + _format_age(entry)),
            ("Work", _describe_work(entry)),
        ):
            if value:
                page.add(Text(rendering.plain(value)), head=Text(f"{name + ':':<9}"))
        page.add_blank()
        page.add(Text(_one_line(entry.title), style="bold"), indent=4)
        if entry.highlights:
            page.add_blank()
        _add_highlights(page, entry)
    return page.render()


def render_lines(terminal: Terminal, entries: Sequence[SessionEntry]) -> str:
    page = Paragraphs(terminal)
    for entry in entries:
        parts = [
            (rendering.plain(entry.short_id), _ID),
            (_format_start(entry), _TIME),
            (rendering.plain(entry.project), _PROJECT),
            (_one_line(entry.title), ""),
            ("(active)" if entry.active else "", "green"),
        ]
        page.add_cut(Text(" ").join(Text(text, style=style) for text, style in parts if text))
    return page.render()


@dataclass(frozen=True, slots=True)
class _TableColumn:
    """A column of the table. If there is no room, the one of the lowest `rank` goes first."""

    title: str
    cells: tuple[str, ...]
    style: str
    rank: int
    right: bool = False

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.title, *self.cells)))


def _build_columns(entries: Sequence[SessionEntry], now: Millis) -> list[_TableColumn]:
    def column(
        title: str,
        read: Callable[[SessionEntry], str],
        style: str = "",
        *,
        rank: int,
        right: bool = False,
    ) -> _TableColumn:
        cells = tuple(rendering.excerpt(read(entry), _COLUMN_LIMIT) for entry in entries)
        return _TableColumn(title, cells, style, rank, right)

    zone = rendering.format_zone(entries[0].start_ms)
    return [
        column("ID", lambda entry: entry.short_id, _ID, rank=9),
        column(f"STARTED ({zone})", lambda e: rendering.moment(e.start_ms)[:16], _TIME, rank=8),
        column("AGE", lambda e: "active" if e.active else rendering.age(e.end_ms, now), rank=3),
        column("TIME", _format_time_spent, rank=5, right=True),
        column("PROJECT", lambda entry: entry.project, _PROJECT, rank=6),
        column("AGENT", lambda entry: entry.agent, rank=1),
        column("PROMPTS", lambda entry: str(entry.work.prompts), rank=2, right=True),
    ]


def render_table(terminal: Terminal, entries: Sequence[SessionEntry], now: Millis) -> str:
    page = Paragraphs(terminal)
    columns = _build_columns(entries, now)

    def measure() -> int:
        return sum(column.width + 2 for column in columns)

    # Nothing follows the last column then, so the two blanks after it need no room.
    while page.is_wrapped and measure() - 2 > page.columns and len(columns) > 1:
        columns.remove(min(columns, key=lambda column: column.rank))
    apart = page.is_wrapped and page.columns - measure() < _LEAST_TITLE
    head = _join_cells(columns, [column.title for column in columns], header=True)
    page.add_cut(head if apart else Text.assemble(head, ("TITLE", "bold")))
    for number, entry in enumerate(entries):
        row = _join_cells(columns, [column.cells[number] for column in columns])
        title = Text(_one_line(entry.title))
        page.add_cut(row if apart else Text.assemble(row, title))
        if apart:
            page.add_cut(title, indent=columns[0].width + 2)
    return page.render()


def _join_cells(
    columns: Sequence[_TableColumn], cells: Sequence[str], *, header: bool = False
) -> Text:
    line = Text()
    for column, cell in zip(columns, cells, strict=True):
        space = " " * (column.width - cell_len(cell))
        style = "bold" if header else "green" if cell == "active" else column.style
        line.append(space if column.right else "")
        line.append(cell, style=style)
        line.append(("" if column.right else space) + "  ")
    return line


def format_days_markdown(days: Sequence[DayEntry]) -> str:
    return "\n".join(line for entry in days for line in _format_day(entry))


def format_log_markdown(entries: Sequence[SessionEntry]) -> str:
    return "\n".join(line for entry in entries for line in _format_session(entry, "##"))


def _format_day(entry: DayEntry) -> Iterator[str]:
    yield f"# {Period(level=Level.DAY, first=entry.day).title}\n"
    if entry.summary:
        yield f"{_one_line(entry.summary)}\n"
    for project, own in _group_projects(entry):
        yield f"## {rendering.plain(project or NO_PROJECT)}\n"
        for session in own:
            yield from _format_session(session, "###")
    if not entry.summary:
        yield f"{work_figures.describe(entry.work)}\n"


def _format_session(entry: SessionEntry, level: str) -> Iterator[str]:
    yield f"{level} {_one_line(entry.title)}\n"
    about = [entry.project, entry.agent, _format_time_range(entry), _describe_work(entry)]
    about += ["active"] if entry.active else []
    facts = ", ".join(rendering.plain(each) for each in about if each)
    yield f"`{rendering.plain(entry.session_id)}` {facts}\n"
    for each in entry.highlights:
        grip = bullets.abbreviate_grip(each.grip_ids)
        word = each.kind.word
        yield f"- **{word}**: {_one_line(each.text)}" + (f" (`{grip}`)" if grip else "")
    if entry.highlights:
        yield ""


def format_table_markdown(entries: Sequence[SessionEntry], now: Millis) -> str:
    columns = _build_columns(entries, now)
    rows = [
        [*(column.title for column in columns), "TITLE"],
        ["---"] * (len(columns) + 1),
        *(
            [*(column.cells[number] for column in columns), _one_line(entry.title)]
            for number, entry in enumerate(entries)
        ),
    ]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows
    )


def _group_projects(entry: DayEntry) -> Iterator[tuple[str, Iterable[SessionEntry]]]:
    """Yield the projects of a day with their sessions; sessions without a project come last."""

    def get_project(session: SessionEntry) -> str:
        return session.project

    by_project = sorted(entry.sessions, key=lambda each: (not each.project, each.project))
    yield from groupby(by_project, key=get_project)


def _format_start(entry: SessionEntry) -> str:
    if rendering.is_on_screen():
        return rendering.ago(entry.start_ms)
    return f"{rendering.moment(entry.start_ms)[:16]} {rendering.format_zone(entry.start_ms)}"


def _describe_work(entry: SessionEntry) -> str:
    prompts = rendering.count(entry.work.prompts, "prompt") if entry.work.prompts else ""
    figures = work_figures.describe(replace(entry.work, sessions=0))
    return ", ".join(filter(None, (prompts, figures)))


def _format_time_spent(entry: SessionEntry) -> str:
    return work_figures.format_duration(entry.work.seconds) or "< 1 min"


def _format_time_range(entry: SessionEntry) -> str:
    """Return start and end in the user's zone; the end has a date only if it is another day."""
    start, end = rendering.moment(entry.start_ms)[:16], rendering.moment(entry.end_ms)[:16]
    until = end[11:] if start[:10] == end[:10] else end
    return f"{start} to {until} {rendering.format_zone(entry.end_ms)}"


def _format_age(entry: SessionEntry) -> str:
    return f" ({rendering.ago(entry.end_ms)})" if rendering.is_on_screen() else ""


def _one_line(text: str) -> str:
    return rendering.plain(" ".join(text.split()))
