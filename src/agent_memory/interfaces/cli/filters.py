"""Filters of commands: `--limit`, `--since`, `--project`, `--session`, `--in`.

They are defined here once, so that each takes the same words in every command.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.recall.model.search_filters import PLURALS, parse_kinds
from agent_memory.features.recall.services.opening import MIN_PREFIX, Opening
from agent_memory.features.toc.services.journal import JournalScope, WorkJournal
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.spelling import suggest_nearest
from agent_memory.kernel.text import time_expressions
from agent_memory.platform.clock import SystemClock

F = TypeVar("F", bound=Callable[..., Any])

HERE = "."  # the project of this folder
LIMIT = ("-n", "-l", "--limit")
SINCE = ("--since", "--from")
UNTIL = ("--until", "--to")
SINCE_HELP = "From a date, a time, or words: 'last week', yesterday, 2h."
UNTIL_HELP = "To a time; a day is included whole."
PROJECT_HELP = "Only of this project; . is that of this folder."
SESSION_HELP = "Only of this session; the beginning of its id is enough."
MOST_NAMED = 20  # projects in a message


class Kinds(click.ParamType[frozenset[DocumentKind]]):
    """Where to look: kinds of records, separated by commas."""

    name = "kinds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[DocumentKind]:
        if isinstance(value, frozenset):
            return value
        try:
            return parse_kinds([str(value)])
        except InvalidInput as exc:
            self.fail(str(exc), param, ctx)


class TimeWords(click.ParamType[str]):
    """A time in words. An empty one is an error, not no limit: it comes from an unset variable."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value).strip():
            self.fail("the time is empty", param, ctx)
        return str(value)


def limit_option(default: int | None = None, *, help: str) -> Callable[[F], F]:  # noqa: A002
    """Add `--limit`: list at most this many."""
    return click.option(
        *LIMIT,
        "limit",
        type=click.IntRange(1),
        default=default,
        show_default=default is not None,
        help=help,
    )


def range_options(function: F) -> F:
    """Add `--since` and `--until`, which `resolve_range` reads."""
    since = time_option(*SINCE, help=SINCE_HELP)
    until = time_option(*UNTIL, help=UNTIL_HELP)
    return since(until(function))


def time_option(*names: str, help: str) -> Callable[[F], F]:  # noqa: A002
    """Add an option that takes a time. Its value has the first of these names."""
    name = names[0].removeprefix("--")
    return click.option(*names, name, type=TimeWords(), metavar="TIME", help=help)


def project_option(function: F) -> F:
    """Add `--project`, which `resolve_project` reads."""
    return click.option("--project", default="", metavar="NAME", help=PROJECT_HELP)(function)


def session_option(function: F) -> F:
    """Add `--session`, which `resolve_session` or a search reads."""
    return click.option("--session", "session_id", default="", metavar="ID", help=SESSION_HELP)(
        function
    )


def kinds_option(default: str) -> Callable[[F], F]:
    """Add `--in`: the kinds of records to look for."""
    return click.option(
        "--in",
        "--kinds",
        "kinds",
        type=Kinds(),
        help=f"Where to look: {', '.join(PLURALS)}, several with commas, or all. {default}",
    )


def resolve_time(run: Invocation, written: str) -> tuple[Millis, Millis]:
    """Return the first and the last moment of a time in words, or in numbers."""
    return time_expressions.parse_moments(written, SystemClock().now(), run.zone)


def resolve_range(run: Invocation, since: str | None, until: str | None) -> tuple[Millis, Millis]:
    """Return the first and the last moment of `--since` and `--until`; None is without a limit."""
    start = resolve_time(run, since)[0] if since else 0
    end = resolve_time(run, until)[1] if until else MAX_MILLIS
    if start > end:
        raise InvalidInput(f"the start, {since!r}, is after the end, {until!r}: swap them")
    return Millis(start), Millis(end)


def resolve_project(run: Invocation, name: str) -> str:
    """Return the name of the project that `--project` means."""
    if name != HERE or run.endpoint is not None:
        return name
    call = run.terminal.call
    location = run.services[ProjectResolver].resolve_folder(
        Caller(folder=str(call.cwd), environ=call.environ)
    )
    return location.name


def check_project(run: Invocation, project: str) -> None:
    """Raise NotFound for the name of a project that has neither a session nor memories."""
    services = run.services
    if not project or services[ProjectResolver].projects.get(project) is not None:
        return
    if services[WorkJournal].find_last(JournalScope(project=project)) is not None:
        return
    names = _list_projects(run)
    nearest = suggest_nearest(project, names) or "."
    listed = f" Known projects: {', '.join(names[:MOST_NAMED])}" if names else ""
    raise NotFound(rendering.plain(f"no project {project!r}{nearest}{listed}"))


def _list_projects(run: Invocation) -> Sequence[str]:
    services = run.services
    known = {each.id for each in services[ProjectResolver].projects.list_all()}
    return sorted(known.union(services[WorkJournal].list_projects()))


def resolve_session(run: Invocation, name: str) -> str:
    """Return the id of the session that a name means. Raises NotFound and AmbiguousName."""
    found = run.services[Opening].find_session(name) if name else ""
    if found is None:
        raise NotFound(describe_unknown_session(name))
    return found


def describe_unknown_session(name: str) -> str:
    least = "" if len(name) >= MIN_PREFIX else f" (give at least {MIN_PREFIX} characters)"
    shown = rendering.plain(name[:80])
    return f"no session has an id that begins with {shown!r}{least}; `memory sessions` lists them"
