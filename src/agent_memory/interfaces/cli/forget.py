"""`memory forget`: delete memories and events for good, and prove it with a search."""

from collections.abc import Iterator
from dataclasses import asdict

import click

from agent_memory.features.forgetting.model.forgetting import (
    ForgettingNotice,
    ForgettingReport,
    Preview,
    Selection,
)
from agent_memory.features.forgetting.ports import ForgettingWatch
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.recall.services.opening import Opening
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import find_agent
from agent_memory.interfaces.cli.capture import resolve_location
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation, yes_option
from agent_memory.interfaces.cli.filters import SINCE, UNTIL, resolve_range, time_option
from agent_memory.kernel.errors import Cancelled
from agent_memory.kernel.ids import EventId, SessionId


def _reject_repeats(
    _ctx: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> str | None:
    """Reject a repeated option: click would silently drop the first one."""
    if len(values) > 1:
        raise click.UsageError(f"--{option.name} can be given only once")
    return values[0] if values else None


@click.command(
    cls=Command,
    examples=(
        "memory forget decisions:abc123def456:0",
        "memory forget abc123 --rewrite-notes",
        "memory forget --session s-42",
        "memory forget --since 2026-03-01 --until 2026-03-02 --yes",
    ),
)
@click.argument("memory_ids", nargs=-1)
@click.option("--event", callback=_reject_repeats, multiple=True, help="Forget this event.")
@click.option(
    "--session",
    callback=_reject_repeats,
    multiple=True,
    metavar="ID",
    help="Forget all events of this session; the beginning of its id is enough.",
)
@time_option(*SINCE, help="Forget the events from this time on.")
@time_option(*UNTIL, help="Forget the events up to and including this time.")
@click.option(
    "--rewrite-notes",
    is_flag=True,
    help="Also rewrite the git history of the notes that hold the memories, in this clone.",
)
@yes_option
@invocation
def forget(
    run: Invocation,
    memory_ids: tuple[str, ...],
    event: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    rewrite_notes: bool,
    yes: bool,
) -> int:
    """Delete memories or events for good.

    You cannot undo this. Only an empty tombstone stays. The report says where the command searched
    for remains afterwards, and which copies it cannot reach.

    Give ids of memories, or one of --event, --session, or a time range (--since and --until).
    """
    choices = [bool(memory_ids), event is not None, session is not None, bool(since or until)]
    if sum(choices) != 1:
        raise click.UsageError(
            "give one of these: ids of memories, --event, --session, or a time (--since, --until)"
        )
    watch = run.services.find(ForgettingWatch)
    tell_server = None if watch is None else watch()
    if memory_ids:
        report = _forget_memories(run, memory_ids, rewrite_notes, yes)
    else:
        report = _forget_events(run, _selection(run, event, session, since, until), yes)
    notice = None if tell_server is None else tell_server()
    shown = asdict(report) | ({} if notice is None else {"team": asdict(notice)})
    run.show(shown, lambda: "\n".join((*_as_text(report), *_describe(notice))), essential="")
    return 1 if report.proof.found_in else 0


def _forget_memories(
    run: Invocation, names: tuple[str, ...], rewrite_notes: bool, yes: bool
) -> ForgettingReport:
    services, location = run.services, resolve_location(run)
    memories = [services[MemoryEditor].find(name, location, forgotten=True) for name in names]
    for memory in memories:
        summary = rendering.plain(memory.summary) or "(already forgotten)"
        run.terminal.inform(f"{memory.id}  {summary}\n")
    _confirm(run, len(memories), yes)
    with run.terminal.progress("Forgetting", None) as advance:
        return services[MemoryForgetting].forget(
            memories,
            location,
            rewrite_notes=rewrite_notes,
            by_user=not find_agent(run.terminal.call.environ),
            on_progress=lambda _, count: advance(count),
        )


def _forget_events(run: Invocation, selection: Selection, yes: bool) -> ForgettingReport:
    service = run.services[Forgetting]
    preview = service.preview(selection)
    if preview.events:
        _confirm_events(run, preview, yes)
    with run.terminal.progress("Forgetting", None) as advance:
        report = service.forget_once(selection, lambda _, count: advance(count))
    if not preview.events:
        run.terminal.warn("note: an earlier call forgot them; this is its report\n")
    return report


def _confirm_events(run: Invocation, preview: Preview, yes: bool) -> None:
    span = ""
    if preview.first_ms is not None and preview.last_ms is not None:
        when = rendering.format_span(preview.first_ms, preview.last_ms)
        span = f", from {when}" if " to " in when else f", of {when}"
    events, sessions = (
        rendering.count(preview.events, "event"),
        rendering.count(preview.sessions, "session"),
    )
    run.terminal.inform(f"{events} of {sessions}{span}\n")
    _confirm(run, preview.events, yes)


def _selection(
    run: Invocation, event: str | None, session: str | None, since: str | None, until: str | None
) -> Selection:
    if event is not None:
        return Selection(event_id=EventId(event))
    if session is not None:
        # A session that is forgotten already keeps its name, for the report of that call.
        return Selection(session_id=SessionId(run.services[Opening].resolve_session(session)))
    start, end = resolve_range(run, since, until)
    return Selection(since=start if since else None, until=end if until else None)


def _confirm(run: Invocation, number: int, yes: bool) -> None:
    if not run.confirm(f"Forget {'it' if number == 1 else 'them'} for good?", yes=yes):
        raise Cancelled


def _describe(notice: ForgettingNotice | None) -> Iterator[str]:
    if notice is None:
        return
    if notice.asked:
        asked = rendering.count(notice.asked, "record")
        yield (
            f"  Team's server: asked it and your other machines to forget {asked}, which they erase"
            " after their upstream.erase_hours (24)"
        )
    for refused in notice.refused:
        yield rendering.plain(f"    It keeps {refused.name}: {refused.reason}")
    if notice.waiting:
        waiting = rendering.count(notice.waiting, "record")
        reason = rendering.plain(notice.error) or "log in first"
        yield f"  Team's server: it will be asked to forget {waiting} when it answers: {reason}"
    if not notice.asked and not notice.waiting:
        yield "  Team's server: nothing of this was shared with it"


def _as_text(report: ForgettingReport) -> Iterator[str]:
    counts = ((report.memories, "memory", "memories"), (report.events, "event", "events"))
    forgotten = ", ".join(rendering.count(*count) for count in counts if count[0])
    yield f"\N{CHECK MARK} Forgotten: {forgotten}"
    if report.segments or report.versions or report.grips:
        yield (
            f"  Table of contents: rebuilt {rendering.count(report.segments, 'segment')} and"
            f" {rendering.count(report.nodes, 'node')}, removed"
            f" {rendering.count(report.versions, 'version')} and"
            f" {rendering.count(report.grips, 'grip')}"
        )
    proof = report.proof
    files = f"{rendering.count(proof.files, 'file')} ({rendering.size(proof.size_bytes)})"
    pieces = rendering.count(proof.needles, "piece")
    yield f"  Searched for {pieces} of the text in the store, {files} and recall"
    if proof.found_in:
        still = rendering.paint("STILL FOUND", rendering.BAD)
        yield f"  {still} in: {', '.join(proof.found_in)}"
    elif proof.needles:
        yield "  Found nowhere."
    if proof.shared:
        yield (
            f"  {rendering.count(proof.shared, 'piece')} also in other events or memories, which"
            " stay."
        )
    if proof.unreadable:
        yield f"  Could not read: {', '.join(proof.unreadable)}"
    yield "  Out of reach:"
    yield from (f"    - {copy}" for copy in report.unreachable)
