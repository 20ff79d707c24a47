"""`memory-daemon admin verify`: read everything that is stored, and repair what is damaged."""

from dataclasses import asdict

import click

from agent_memory.features.operations.services.verification import Verdict
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.wire.errors import ERRORS
from agent_memory.interfaces.wire.operations import damage_text
from agent_memory.kernel.errors import FeatureUnavailable, StorageFailed
from agent_memory.kernel.status import StoreRepair

DAMAGED = ERRORS[StorageFailed].exit


@click.command(
    cls=Command,
    examples=(
        "memory-daemon admin verify",
        "memory-daemon stop && memory-daemon admin verify --repair",
    ),
)
@click.option("--repair", is_flag=True, help="Repair what is wrong; damaged files are kept aside.")
@invocation
@click.pass_context
def verify(ctx: click.Context, run: Invocation, repair: bool) -> int:
    """Read everything that is stored, and compare it with its checksums.

    It reads every row of the database, every file of the search indexes and every note, and exits
    with 4 if something is wrong. With --repair it rebuilds what is derived (indexes, table of
    contents, notes). Damaged tables of the database are repaired only while no daemon runs: what
    can be read is copied into a new database, and the old one is kept in a folder beside it.
    """
    if ctx.meta["db_path"] is not None:
        raise click.UsageError("verify reads the daemon's own database: leave --db-path out")
    if run.backend.services is None:
        if not repair:
            raise FeatureUnavailable("no daemon runs here: start one, or give --repair")
        return _repair_store(run)
    verification = run.backend.require_services().verification
    with run.terminal.progress("Reading", None) as advance:
        verdict = verification.verify(advance)
    made: tuple[str, ...] = ()
    if repair:
        with run.terminal.progress("Rebuilding", None) as advance:
            verdict, made = verification.repair(verdict, advance)
    run.show(
        {"sound": verdict.sound, **asdict(verdict), "rebuilt": list(made)},
        lambda: "\n".join(_lines(verdict, made)),
    )
    return 0 if verdict.sound else DAMAGED


def _repair_store(run: Invocation) -> int:
    """In a process without a daemon: only the database itself."""
    with run.terminal.progress("Reading", None) as advance:
        done = run.backend.require_control().repair(run.config_file, advance)
    run.show(asdict(done), lambda: "\n".join(_repair_lines(done)))
    return 0


def _lines(verdict: Verdict, made: tuple[str, ...]) -> list[str]:
    lines = [
        f"Read {verdict.rows:,} rows, {verdict.memories:,} memories and {verdict.notes:,} notes."
    ]
    lines += [f"Damaged: {rendering.plain(damage_text(each))}" for each in verdict.damages]
    lines += [f"Damaged: {name} ({files})" for name, files in verdict.indexes.items()]
    lines += [f"Problem: {rendering.plain(each)}" for each in verdict.problems]
    lines += [f"Rebuilt {each}" for each in made]
    if verdict.damages:
        lines.append("To repair: memory-daemon stop && memory-daemon admin verify --repair")
    elif not verdict.sound:
        lines.append("To repair: memory-daemon admin verify --repair")
    if verdict.sound:
        lines.append("Everything is sound.")
    return lines


def _repair_lines(done: StoreRepair) -> list[str]:
    lines = [f"Read {done.rows:,} rows."]
    lines += [f"Repaired: {rendering.plain(damage_text(each))}" for each in done.damages]
    if not done.damages:
        lines.append("The database is sound.")
    else:
        lines.append("The next start rebuilds the search indexes and the table of contents.")
    return lines
