"""`memory consolidate`: show the plan, ask, and merge near-duplicate memories."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import click
import msgspec

from agent_memory.features.memories.model.consolidations import ConsolidationPlan
from agent_memory.features.memories.operations import ConsolidationAnswer
from agent_memory.features.memories.services.consolidation import Consolidation
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.capture import DOMAIN_HELP, resolve_domains, resolve_location
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation

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
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
@click.option("--full", is_flag=True, help="Compare all memories, not only the new ones.")
@click.option("--domain", default="all", show_default=True, help=f"all, {DOMAIN_HELP}")
@click.option("-y", "--yes", is_flag=True, help="Apply the plan without asking.")
@click.option("--undo", is_flag=True, help="Undo the last consolidation.")
@invocation
def consolidate(
    run: Invocation, dry_run: bool, full: bool, domain: str, yes: bool, undo: bool
) -> None:
    """Merge memories that say the same, and archive the old ones.

    On a terminal, the command shows the plan and asks before it applies it. Elsewhere it applies
    the plan at once. --dry-run only shows the plan; --undo reverts the last consolidation.
    """
    service, location = run.services[Consolidation], resolve_location(run)
    if undo:
        count, left = service.undo(location)
        stay = f"{rendering.count(left, 'memory', 'memories')} changed since"
        note = f"; {stay}: left as found" if left else ""
        run.show(
            {"undone": count, "left": left},
            lambda: (
                f"\N{CHECK MARK} Undone: {rendering.count(count, 'memory', 'memories')}"
                f" restored{note}"
            ),
        )
        return
    call = run.terminal.call
    asks = not yes and call.input_is_terminal and call.output_is_terminal
    with ExitStack() as bars:
        advance = bars.enter_context(run.terminal.progress("Comparing", None))

        def confirm(plan: ConsolidationPlan) -> bool:
            nonlocal advance
            bars.close()  # a progress bar would overwrite the question
            if dry_run:
                return False
            if asks:
                with run.set_screen():
                    text = rendering.arrange("\n".join(_as_text(plan)))
                run.terminal.write(f"{text}\n\n")
                if not run.terminal.confirm("Apply this plan?"):
                    return False
            advance = bars.enter_context(run.terminal.progress("Merging", len(plan.merges)))
            return True

        outcome = service.consolidate(
            resolve_domains(run, domain),
            location,
            full=full,
            confirm=confirm,
            on_progress=lambda _phase, current, _total: advance(current),
        )
    plan, applied = outcome.plan, outcome.applied
    run.show(
        msgspec.to_builtins(ConsolidationAnswer.from_plan(plan, applied=applied)),
        lambda: "\n".join((*_as_text(plan), "", _outcome(plan, applied, dry_run))),
        essential=str(len(plan.merges)),
    )


def _as_text(plan: ConsolidationPlan) -> Iterator[str]:
    yield f"Compared {rendering.count(plan.considered, 'memory', 'memories')}."
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
        yield f"... and {rendering.count(len(plan.merges) - SHOWN, 'more group')}"
    moved = Counter(move.after.value for move in plan.moves)
    if moved:
        yield ""
        changes = (f"{n} {'becomes' if n == 1 else 'become'} {name}" for name, n in moved.items())
        yield "Tiers: " + ", ".join(changes)
    yield from (f"Skipped: {reason}" for reason in plan.skipped)


def _outcome(plan: ConsolidationPlan, applied: bool, dry_run: bool) -> str:
    if plan.empty:
        return "There is nothing to consolidate."
    if applied:
        undo = " To undo the merges, run `memory consolidate --undo`." if plan.merges else ""
        return f"\N{CHECK MARK} Applied.{undo}"
    if dry_run:
        return "Nothing was changed. To apply the plan, leave out --dry-run."
    return "Nothing was changed."
