"""`memory lessons`: what sessions taught, and what came of it."""

from collections.abc import Iterator

import click
import msgspec
from rich.text import Text

from agent_memory.features.lessons.operations import (
    LessonAnswer,
    LessonDetails,
    LessonEdit,
    LessonFilter,
    LessonRejection,
    LessonsAnswer,
    LessonToShow,
    accept_lesson,
    edit_lesson,
    list_lessons,
    reject_lesson,
    show_lesson,
)
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import check_person
from agent_memory.interfaces.cli.commands import Group, Invocation, invocation
from agent_memory.interfaces.cli.derived import request_options
from agent_memory.interfaces.cli.filters import (
    check_project,
    limit_option,
    project_option,
    range_options,
    resolve_project,
    resolve_range,
    resolve_session,
    session_option,
)
from agent_memory.interfaces.cli.paragraphs import Paragraphs

DEFAULT_LIMIT = 20
TEXT_CHARS = 400
WORDS_CHARS = 800  # of each event
ID_CHARS = 8
NOTHING_YET = (
    "No lessons yet: they are learned from the sessions of your agents. `memory install AGENT`"
    " records new sessions, `memory import --from claude-code` reads past ones."
)
_ID, _TIME = "yellow", "cyan"


class _LessonsGroup(Group):
    """A group that lists if no command is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(
    "lessons",
    cls=_LessonsGroup,
    examples=(
        "memory lessons list",
        "memory lessons list --state new --project .",
        "memory lessons show 6f1c1f6e",
        'memory lessons reject 6f1c1f6e --reason "we moved to polars"',
    ),
)
def lessons_group() -> None:
    """List what sessions taught, and say what holds.

    Lessons are rules, decisions, failures and their fixes, dead ends, gotchas, open ends and facts,
    in the words of a session. Agents are given one at the moment that it is about. The last word
    counts: a lesson that a later one replaces is superseded. `memory review` shows new rules.
    """


@lessons_group.command(
    "list",
    examples=(
        "memory lessons list",
        "memory lessons list --kind failure --project my-app",
        "memory lessons list --since monday",
        "memory lessons list --words 'docker build' --format json",
    ),
)
@project_option
@session_option
@limit_option(DEFAULT_LIMIT, help="Most lessons.")
@range_options
@request_options(
    list_lessons,
    "project",
    "session_id",
    "from_timestamp_ms",
    "to_timestamp_ms",
    "limit",
    "offset",
)
@invocation
def list_command(
    run: Invocation,
    project: str,
    session_id: str,
    limit: int,
    since: str | None,
    until: str | None,
    kind: str | None,
    state: str | None,
    words: str | None,
) -> None:
    """List lessons, newest first.

    Each has its age, its kind, its state and its id, which `memory lessons show` opens.
    """
    project = resolve_project(run, project)
    start, end = resolve_range(run, since, until)
    request = msgspec.convert(
        {
            "project": project,
            "session_id": resolve_session(run, session_id),
            "kind": kind,
            "state": state,
            "words": words or "",
            "from_timestamp_ms": start,
            "to_timestamp_ms": end,
            "limit": limit,
        },
        LessonFilter,
    )
    answer = run.call(list_lessons, request)
    if not answer.lessons:
        check_project(run, project)
    run.show(
        msgspec.to_builtins(answer),
        lambda: _render_list(run, answer, is_filtered=request != LessonFilter(limit=limit)),
        essential="\n".join(each.uri for each in answer.lessons),
        page=True,
    )


@lessons_group.command("show", examples=("memory lessons show 6f1c1f6e",))
@click.argument("lesson_id", metavar="URI|ID")
@invocation
def show_command(run: Invocation, lesson_id: str) -> None:
    """Show a lesson, the events that say it, and what came of it."""
    _show(run, run.call(show_lesson, LessonToShow(lesson_id=lesson_id)))


@lessons_group.command(
    "edit", examples=('memory lessons edit 6f1c1f6e "Never use pandas here; polars is fine"',)
)
@click.argument("lesson_id", metavar="URI|ID")
@click.argument("text")
@invocation
def edit_command(run: Invocation, lesson_id: str, text: str) -> None:
    """Accept a lesson in other words."""
    check_person(run, "say that a lesson holds")
    _show(run, run.call(edit_lesson, LessonEdit(lesson_id=lesson_id, text=text)))


@lessons_group.command(
    "reject", examples=('memory lessons reject 6f1c1f6e --reason "we moved to polars"',)
)
@click.argument("lesson_id", metavar="URI|ID")
@click.option("--reason", default="", help="Why it does not hold.")
@invocation
def reject_command(run: Invocation, lesson_id: str, reason: str) -> None:
    """Reject a lesson that does not hold.

    Agents are not given it any more, even if it is said again. `memory lessons accept` takes that
    back. What an agent rejects in its shell is retired as well, and waits for you in `memory
    review`.
    """
    _show(run, run.call(reject_lesson, LessonRejection(lesson_id=lesson_id, reason=reason)))


@lessons_group.command("accept", examples=("memory lessons accept 6f1c1f6e",))
@click.argument("lesson_id", metavar="URI|ID")
@invocation
def accept_command(run: Invocation, lesson_id: str) -> None:
    """Accept a lesson, also one that was rejected."""
    check_person(run, "say that a lesson holds")
    _show(run, run.call(accept_lesson, LessonToShow(lesson_id=lesson_id)))


def _show(run: Invocation, lesson: LessonDetails) -> None:
    run.show(
        msgspec.to_builtins(lesson),
        lambda: "\n".join(_describe(lesson)),
        essential=lesson.text,
        page=True,
    )


def _render_list(run: Invocation, answer: LessonsAnswer, *, is_filtered: bool) -> str:
    if not answer.lessons:
        return "No lesson passes these filters." if is_filtered else NOTHING_YET
    page = Paragraphs(run.terminal)
    for lesson in answer.lessons:
        page.add_blank()
        page.add(Text(_describe_head(lesson)), head=Text(_describe_time(lesson), _TIME))
        text = Text(rendering.excerpt(lesson.text, TEXT_CHARS))
        page.add(text, head=Text(f"{lesson.id[:ID_CHARS]}  ", _ID), indent=2)
    more = answer.total - len(answer.lessons)
    return page.render() + (f"\n\n... and {more:,} more: -n {answer.total}" if more else "")


def _describe_time(lesson: LessonAnswer) -> str:
    shown = rendering.ago if rendering.is_on_screen() else rendering.format_zoned
    return f"{shown(lesson.timestamp_ms)}  "


def _describe_head(lesson: LessonAnswer) -> str:
    words = (lesson.kind, lesson.state, lesson.project, _describe_outcomes(lesson))
    return rendering.plain("  ".join(filter(None, words)))


def _describe_outcomes(lesson: LessonAnswer) -> str:
    if not lesson.given:
        return ""
    parts = [f"given {rendering.count(lesson.given, 'time')}"]
    parts += [f"heeded {lesson.heeded:,}"] if lesson.heeded else []
    parts += [f"repeated {lesson.repeated:,}"] if lesson.repeated else []
    return ", ".join(parts)


def _describe(lesson: LessonDetails) -> Iterator[str]:
    yield rendering.paint(rendering.plain(lesson.text), rendering.HEAD)
    yield ""
    review = " (`memory review` asks you to confirm it)" if lesson.to_review else ""
    fields = (
        ("Kind", lesson.kind),
        ("State", f"{lesson.state}{review}"),
        ("Reason", lesson.reason),
        ("Said", lesson.said),
        ("About", lesson.situation),
        ("Words of", "the user" if lesson.trust == "user" else f"the {lesson.trust}"),
        ("Time", rendering.format_with_age(lesson.timestamp_ms)),
        ("Project", lesson.project),
        ("Session", lesson.session_id),
        ("Files", ", ".join(lesson.paths)),
        ("Commands", ", ".join(lesson.commands)),
        ("Errors", ", ".join(lesson.errors)),
        ("Instead of", ", ".join(lesson.avoids)),
        ("Superseded by", lesson.superseded_by or ""),
        ("Outcome", _describe_outcomes(lesson) or "never given to an agent"),
        ("URI", lesson.uri),
    )
    yield from (f"{name}: {rendering.plain(value)}" for name, value in fields if value)
    for event in lesson.events:
        yield ""
        yield f"> {rendering.format_zoned(event.timestamp_ms)} | {event.role} | {event.event_id}"
        text = rendering.excerpt(event.text, WORDS_CHARS)
        yield from (f">   {line}".rstrip() for line in text.splitlines())
