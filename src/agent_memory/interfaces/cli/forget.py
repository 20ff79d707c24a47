"""`memory forget`: memories and events gone for good, with a report that proves it."""

from collections.abc import Iterator
from dataclasses import asdict

import click

from agent_memory.features.forgetting.model.forgetting import ForgettingReport, Selection
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.capture import resolve_location
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.errors import Cancelled, NotFound
from agent_memory.kernel.ids import EventId, SessionId


def _reject_repeats(
    _ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> str | None:
    """Refuse an option that is given twice: the first would be left out without a word."""
    if len(given) > 1:
        raise click.UsageError(f"give --{option.name} once; forget one after the other")
    return given[0] if given else None


@click.command(
    cls=Command,
    examples=(
        "memory forget decisions:abc123def456:0",
        "memory forget abc123 --rewrite-notes",
        "memory forget --session s-42",
        "memory forget --from 2026-03-01 --to 2026-03-02 --yes",
    ),
)
@click.argument("memory_ids", nargs=-1)
@click.option("--event", callback=_reject_repeats, multiple=True, help="Forget this event.")
@click.option(
    "--session", callback=_reject_repeats, multiple=True, help="Forget all events of this session."
)
@click.option("--from", "since", metavar="TIME", help="Forget events from this time on,")
@click.option("--to", "until", metavar="TIME", help="to this one; both are included.")
@click.option(
    "--rewrite-notes",
    is_flag=True,
    help="Also rewrite the history of the git notes that hold the memory, in this clone.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; without a terminal nobody is asked.")
@invocation
@click.pass_context
def forget(
    ctx: click.Context,
    run: Invocation,
    memory_ids: tuple[str, ...],
    event: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    rewrite_notes: bool,
    yes: bool,
) -> None:
    """Forget memories, or events: nothing of them stays here but an empty tombstone.

    It cannot be undone. The report says where it was searched for afterwards, and which copies
    are out of reach.
    """
    chosen = [bool(memory_ids), event is not None, session is not None, bool(since or until)]
    if sum(chosen) != 1:
        raise click.UsageError("name memories, --event, --session, or a time with --from and --to")
    if memory_ids:
        report = _forget_memories(run, memory_ids, rewrite_notes, yes)
    else:
        report = _forget_events(run, _selection(run, event, session, since, until), yes)
    run.show(asdict(report), lambda: "\n".join(_as_text(report)), essential="")
    if report.proof.found_in:
        ctx.exit(1)


def _forget_memories(
    run: Invocation, names: tuple[str, ...], rewrite_notes: bool, yes: bool
) -> ForgettingReport:
    services, place = run.backend.require_services(), resolve_location(run)
    found = [services.curation.find(name, place, forgotten=True) for name in names]
    for memory in found:
        said = rendering.plain(memory.summary) or "(was forgotten before)"
        run.terminal.warn(f"{memory.id}  {said}\n")
    _ask(run, "Forget it for good?" if len(found) == 1 else "Forget them for good?", yes)
    with run.terminal.progress("Forgetting", None) as advance:
        return services.memory_forgetting.forget(
            found, place, rewrite_notes=rewrite_notes, done=lambda _, count: advance(count)
        )


def _forget_events(run: Invocation, selection: Selection, yes: bool) -> ForgettingReport:
    service = run.backend.require_services().forgetting
    preview = service.preview(selection)
    if not preview.events:
        return _earlier_report(run, selection)
    span = ""
    if preview.first_ms is not None and preview.last_ms is not None:
        first, last = rendering.moment(preview.first_ms), rendering.moment(preview.last_ms)
        span = f", from {first} to {last} UTC" if first != last else f", of {first} UTC"
    noun = "event" if preview.events == 1 else "events"
    run.terminal.warn(f"{preview.events:,} {noun} of {preview.sessions:,} sessions{span}\n")
    _ask(run, "Forget them for good?", yes)
    with run.terminal.progress("Forgetting", None) as advance:
        report = service.forget_events(selection, lambda _, count: advance(count))
    # None are left where the daemon has finished an interrupted call meanwhile.
    return report if report.events else _earlier_report(run, selection)


def _earlier_report(run: Invocation, selection: Selection) -> ForgettingReport:
    """The report of the same call, made before: finish that first if it was interrupted."""
    service = run.backend.require_services().forgetting
    with run.terminal.progress("Forgetting", None) as advance:
        report = service.earlier(selection, lambda _, count: advance(count))
    if report is None:
        raise NotFound("there is no such event: nothing was forgotten")
    run.terminal.warn("note: forgotten by an earlier call, with this report\n")
    return report


def _selection(
    run: Invocation, event: str | None, session: str | None, since: str | None, until: str | None
) -> Selection:
    if event is not None:
        return Selection(event_id=EventId(event))
    if session is not None:
        return Selection(session_id=SessionId(session))
    recall = run.backend.require_services().recall
    return Selection(
        since=recall.moments(since)[0] if since else None,
        until=recall.moments(until)[1] if until else None,
    )


def _ask(run: Invocation, question: str, yes: bool) -> None:
    if not yes and run.terminal.call.input_is_terminal and not run.terminal.confirm(question):
        raise Cancelled


def _as_text(report: ForgettingReport) -> Iterator[str]:
    counts = (
        (report.memories, "memory", "memories"),
        (report.events, "event", "events"),
    )
    what = ", ".join(f"{n:,} {one if n == 1 else many}" for n, one, many in counts if n)
    yield f"\N{CHECK MARK} Forgotten: {what}"
    if report.segments or report.versions or report.grips:
        yield (
            f"  Contents: {report.segments:,} segments cut anew, {report.nodes:,} nodes written"
            f" anew, {report.versions:,} versions and {report.grips:,} grips removed"
        )
    proof = report.proof
    where = f"{proof.files:,} files ({rendering.size(proof.size_bytes)})"
    yield f"  Searched for {proof.needles:,} pieces of it in the store, {where} and recall"
    if proof.found_in:
        yield f"  STILL FOUND in: {', '.join(proof.found_in)}"
    elif proof.needles:
        yield "  Found nowhere."
    if proof.shared:
        yield f"  {proof.shared:,} pieces also stand in events or memories that were kept."
    if proof.unreadable:
        yield f"  Could not be read: {', '.join(proof.unreadable)}"
    yield "  Not in reach:"
    yield from (f"    - {each}" for each in report.unreachable)
