"""`memory today`, `memory log` and `memory sessions`: what was done, by day and by session."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from agent_memory.features.toc.model.journal_entries import SessionEntry
from agent_memory.features.toc.services.journal import JournalScope, WorkJournal
from agent_memory.interfaces.cli import journal_pages, rendering
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.cli.filters import (
    check_project,
    limit_option,
    project_option,
    range_options,
    resolve_project,
    resolve_range,
    resolve_time,
)
from agent_memory.interfaces.wire.journal import day_json, session_json
from agent_memory.platform.ports import Clock

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_SESSIONS = 20
MOST_DAYS = 100  # of `memory today --date 'last year'`
NOTHING_YET = (
    "Nothing is recorded yet. `memory install AGENT` records new sessions,"
    " `memory import --from claude-code` reads past ones."
)


NOT_LISTED_YET = "What is recorded is not in the table of contents yet. Try again in a moment."


def _list_options(function: F) -> F:
    """Add the options of commands that list sessions."""
    options = [
        limit_option(DEFAULT_SESSIONS, help="Most sessions."),
        project_option,
        click.option("--agent", default="", help="Only of this agent."),
        range_options,
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command(
    cls=Command,
    examples=(
        "memory today",
        "memory today --project my-app",
        "memory today --date yesterday",
        'memory today --date "12 Feb"',
        "memory show 01KH7AFAJ2MPHT    # an id at the end of a line",
    ),
)
@project_option
@click.option(
    "--date",
    "day",
    default="today",
    metavar="DAY",
    help="Another day: yesterday, 2026-02-11, '12 Feb'; or several: 'last week'.",
)
@invocation
def today(run: Invocation, project: str, day: str) -> None:
    """Show what was done today, by project and session.

    Each line has an id that `memory show` opens. Days are those of `cli.timezone`, by default
    your system's.
    """
    journal = run.services[WorkJournal]
    project = resolve_project(run, project)
    since, until = resolve_time(run, day)
    scope = JournalScope(since=since, until=until, project=project, zone=run.zone)
    page = journal.list_days(scope, limit=MOST_DAYS)
    last = None
    if not page.days:
        last = journal.find_last(JournalScope(project=project))
        check_project(run, project)
    if page.more:
        run.terminal.warn(f"note: the newest {MOST_DAYS} days are shown\n")
    run.show(
        {
            "timezone": str(run.zone),
            "days": [day_json(entry) for entry in page.days],
            "last_session": None if last is None else session_json(last),
        },
        lambda: (
            journal_pages.render_days(run.terminal, page.days)
            or _explain_empty_day(run, scope, last)
        ),
        markdown=lambda: (
            journal_pages.format_days_markdown(page.days) or _explain_empty_day(run, scope, last)
        ),
        essential="\n".join(entry.session_id for shown in page.days for entry in shown.sessions),
        page=True,
    )


@click.command(
    cls=Command,
    examples=(
        "memory log",
        "memory log --since 'last week' --project my-app",
        "memory log -n 5 --oneline",
        "memory log --format json | jq -r '.sessions[].title'",
    ),
)
@_list_options
@click.option("--oneline", is_flag=True, help="One line for each session.")
@invocation
def log(run: Invocation, /, oneline: bool, **asked: Any) -> None:
    """Show the sessions with what came of them, newest first.

    It reads like `git log`. `memory show` opens every id in it. A session belongs to a time if
    something in it happened then; its subagents are part of it.
    """
    render = journal_pages.render_lines if oneline else journal_pages.render_log
    _show_sessions(
        run,
        _list_sessions(run, **asked),
        lambda entries: render(run.terminal, entries),
        journal_pages.format_log_markdown,
    )


@click.command(
    cls=Command,
    examples=(
        "memory sessions",
        "memory sessions --agent codex --since 'last month'",
        "memory sessions -n 1 --format quiet    # the id of the newest",
    ),
)
@_list_options
@invocation
def sessions(run: Invocation, /, **asked: Any) -> None:
    """List the sessions, newest first.

    TIME is how long was worked, without pauses. An active session has not ended, and something
    happened in it in the last half hour.
    """
    now = run.services[Clock].now()
    _show_sessions(
        run,
        _list_sessions(run, **asked),
        lambda entries: journal_pages.render_table(run.terminal, entries, now),
        lambda entries: journal_pages.format_table_markdown(entries, now),
    )


def _show_sessions(
    run: Invocation,
    entries: Sequence[SessionEntry],
    render: Callable[[Sequence[SessionEntry]], str],
    markdown: Callable[[Sequence[SessionEntry]], str],
) -> None:
    run.show(
        {"sessions": [session_json(entry) for entry in entries]},
        lambda: render(entries) if entries else _explain_nothing(run),
        markdown=lambda: markdown(entries) if entries else _explain_nothing(run),
        essential="\n".join(entry.session_id for entry in entries),
        page=True,
    )


def _list_sessions(
    run: Invocation, *, limit: int, project: str, agent: str, since: str | None, until: str | None
) -> tuple[SessionEntry, ...]:
    project = resolve_project(run, project)
    start, end = resolve_range(run, since, until)
    scope = JournalScope(since=start, until=end, project=project, agent=agent)
    page = run.services[WorkJournal].list_sessions(scope, limit=limit)
    if not page.sessions:
        check_project(run, project)
    if page.more:
        run.terminal.warn(f"note: there are more; -n {2 * limit} shows them\n")
    return page.sessions


def _explain_empty_day(run: Invocation, scope: JournalScope, last: SessionEntry | None) -> str:
    if last is None:
        return _name_project("Nothing is recorded yet of project", scope.project) or _explain_empty(
            run
        )
    first, final = (rendering.moment(at)[:10] for at in (scope.since, scope.until))
    days = f"on {first}" if first == final else f"from {first} to {final}"
    at, name = rendering.format_zoned(last.end_ms), rendering.plain(last.short_id)
    return "\n".join(
        (
            f"Nothing is recorded {days}{_name_project(' of project', scope.project)}.",
            f"The last activity was {at}, session {name}: {rendering.excerpt(last.title, 200)}",
            f"`memory today --date {at[:10]}` shows that day.",
        )
    )


def _explain_nothing(run: Invocation) -> str:
    last = run.services[WorkJournal].find_last(JournalScope())
    if last is None:
        return _explain_empty(run)
    at = rendering.format_zoned(last.end_ms)
    return f"No session passes these filters. The last activity of all was {at}."


def _explain_empty(run: Invocation) -> str:
    """Explain why there is no session at all."""
    return NOT_LISTED_YET if run.services[WorkJournal].has_events() else NOTHING_YET


def _name_project(words: str, project: str) -> str:
    return f"{words} {rendering.plain(project)}" if project else ""
