"""`memory undo`: take back the last change."""

from collections.abc import Iterator

import click
import msgspec

from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.operations import UndoAnswer
from agent_memory.features.memories.services.undo import ChangeHistory, UndoPlan
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import check_person
from agent_memory.interfaces.cli.capture import resolve_location
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation

SHOWN = 20


@click.command(
    cls=Command,
    examples=("memory undo --dry-run", "memory undo", "memory undo --yes --format json"),
)
@click.option("--dry-run", is_flag=True, help="Show what would be undone, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@invocation
def undo(run: Invocation, dry_run: bool, yes: bool) -> None:
    """Take back the last change that you made to memories.

    It undoes a capture, edit, resolve, archive, review, import or consolidation: memories get back
    the status, tags and relations that they had, and new ones are archived. Run it again for the
    change before. On a terminal, it shows what it does and asks first. Nothing is lost: `memory
    list --status archived` lists what was archived.

    What agents captured is not undone, nor is a memory that was changed since. Forgetting cannot
    be undone.
    """
    if not dry_run:
        check_person(run, "undo your changes")
    history, here = run.services[ChangeHistory], resolve_location(run)
    plan = history.plan(dry_run=dry_run)
    call = run.terminal.call
    asks = not (yes or dry_run) and call.input_is_terminal and call.output_is_terminal
    if asks:
        run.terminal.write("\n".join(_describe(plan)) + "\n")
        if not run.terminal.confirm("Undo this?"):
            run.terminal.write("Nothing was changed.\n")
            return
    done = plan if dry_run else history.undo(plan.name, here)
    run.show(
        msgspec.to_builtins(UndoAnswer.from_plan(done, undone=not dry_run)),
        lambda: "\n".join((*(() if asks else _describe(done)), _conclude(done, dry_run))),
        essential="\n".join(memory.id for memory in (*done.restored, *done.archived)),
    )


def _describe(plan: UndoPlan) -> Iterator[str]:
    yield f"Last change: {plan.action.value}, {rendering.format_zoned(plan.at_ms)}"
    for verb, memories in (
        ("Restore", plan.restored),
        ("Archive", plan.archived),
        ("Leave", plan.left),
    ):
        yield from (f"  {verb:<7} {_name(memory)}" for memory in memories[:SHOWN])
        if len(memories) > SHOWN:
            yield f"  {verb:<7} {len(memories) - SHOWN:,} more"
    if plan.left:
        yield "  What is left was changed since."


def _conclude(plan: UndoPlan, dry_run: bool) -> str:
    count = len(plan.restored) + len(plan.archived)
    if dry_run:
        return "Nothing was changed. To undo it, leave out --dry-run."
    if not count:
        return "Nothing is left to undo of it."
    return f"\N{CHECK MARK} Undone: {rendering.count(count, 'memory', 'memories')}"


def _name(memory: Memory) -> str:
    return f"{memory.id}  {rendering.plain(memory.summary)}"
