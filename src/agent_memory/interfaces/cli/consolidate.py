"""`memory consolidate`: near-duplicates become one, after a look at the plan."""

from collections.abc import Iterator
from dataclasses import replace

import click

from agent_memory.features.memories.model.consolidations import ConsolidationPlan
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.capture import DOMAIN_HELP, resolve_domains, resolve_location
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.wire.memories import plan_json

SHOWN = 20


@click.command(
    cls=Command,
    examples=(
        "memory consolidate --dry-run",
        "memory consolidate --full --domain project",
        "memory consolidate --format json",
        "memory consolidate --undo",
    ),
)
@click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing.")
@click.option("--full", is_flag=True, help="Look at all memories, not only at what is new.")
@click.option("--domain", default="all", show_default=True, help=f"all, {DOMAIN_HELP}")
@click.option("-y", "--yes", is_flag=True, help="Apply the plan without a question.")
@click.option("--undo", is_flag=True, help="Take back the last consolidation.")
@invocation
def consolidate(
    run: Invocation, dry_run: bool, full: bool, domain: str, yes: bool, undo: bool
) -> None:
    """Merge memories that say the same, and put those away that are superseded.

    On a terminal the plan is shown first, and you are asked whether to apply it. Elsewhere it is
    applied: --dry-run shows it only, and --undo takes it back.
    """
    service, place = run.backend.require_services().consolidation, resolve_location(run)
    if undo:
        count, left = service.undo(place)
        note = f"; {left} were changed since, and stay" if left else ""
        run.show(
            {"undone": count, "left": left},
            lambda: f"\N{CHECK MARK} Undone: {count} memories are as they were{note}",
        )
        return
    with run.terminal.progress("Comparing", None) as advance:
        plan = service.plan(
            resolve_domains(run, domain), full=full, done=lambda _phase, done, _of: advance(done)
        )
    applied = not dry_run and not plan.empty
    call = run.terminal.call
    if applied and not yes and call.input_is_terminal and call.output_is_terminal:
        run.terminal.write("\n".join(_as_text(plan)) + "\n\n")
        applied = run.terminal.confirm("Apply this plan?")
    if applied:
        with run.terminal.progress("Merging", len(plan.merges)) as advance:
            missed = service.apply(plan, place, lambda _phase, done, _of: advance(done))
        plan = replace(plan, skipped=(*plan.skipped, *missed))
    run.show(
        plan_json(plan, applied=applied),
        lambda: "\n".join((*_as_text(plan), "", _outcome(plan, applied, dry_run))),
        essential=str(len(plan.merges)),
    )


def _as_text(plan: ConsolidationPlan) -> Iterator[str]:
    yield f"Looked at {plan.considered} memories."
    for merge in plan.merges[:SHOWN]:
        kept = merge.cluster.kept
        yield ""
        if merge.written is None:
            yield f"Keep      {kept.id}  {rendering.plain(kept.summary)}"
        else:
            yield f"Write     {rendering.plain(merge.written.summary)}"
        for old in merge.superseded:
            yield f"Supersede {old.id}  {rendering.plain(old.summary)}"
    if len(plan.merges) > SHOWN:
        yield f"... and {len(plan.merges) - SHOWN} more groups"
    moved: dict[str, int] = {}
    for move in plan.moves:
        moved[move.after.value] = moved.get(move.after.value, 0) + 1
    if moved:
        yield ""
        yield "Tiers: " + ", ".join(f"{count} become {name}" for name, count in moved.items())
    yield from (f"Skipped: {each}" for each in plan.skipped)


def _outcome(plan: ConsolidationPlan, applied: bool, dry_run: bool) -> str:
    if plan.empty:
        return "There is nothing to consolidate."
    if applied:
        undo = " `memory consolidate --undo` takes the merges back." if plan.merges else ""
        return f"\N{CHECK MARK} Applied.{undo}"
    if dry_run:
        return "Nothing was changed: leave --dry-run out to apply it."
    return "Nothing was changed."
