"""`memory-daemon admin verify`: check everything that is stored, and repair damage."""

from dataclasses import asdict

import click

from agent_memory.features.maintenance.services.verification import Verdict, Verification
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.wire.errors import ERRORS
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
@click.option("--repair", is_flag=True, help="Repair damage. Damaged files are moved aside.")
@invocation
def verify(run: Invocation, repair: bool) -> int:
    """Check everything that is stored against its checksums.

    It reads every row of the database, every file of the search indexes and every note. The exit
    code is 4 if something is damaged.

    With --repair it rebuilds the indexes, the table of contents and the notes. It repairs the
    database itself only while no daemon is running: it copies all readable rows into a new
    database, and keeps the old one in a folder beside it.
    """
    if run.db_path is not None:
        raise click.UsageError("verify checks the daemon's own database: leave out --db-path")
    if run.backend.services is None:
        if not repair:
            raise FeatureUnavailable("no daemon is running: start it, or use --repair")
        return _repair_store(run)
    verification = run.services[Verification]
    with run.terminal.progress("Reading", None) as advance:
        verdict = verification.verify(advance)
    rebuilt: tuple[str, ...] = ()
    if repair:
        with run.terminal.progress("Rebuilding", None) as advance:
            verdict, rebuilt = verification.repair(verdict, advance)
    run.show(
        {"sound": verdict.sound, **asdict(verdict), "rebuilt": list(rebuilt)},
        lambda: "\n".join(_lines(verdict, rebuilt)),
    )
    return 0 if verdict.sound else DAMAGED


def _repair_store(run: Invocation) -> int:
    """Repair the database itself, in a process without a daemon."""
    with run.terminal.progress("Reading", None) as advance:
        done = run.backend.require_control().repair(run.config_file, advance)
    run.show(asdict(done), lambda: "\n".join(_repair_lines(done)))
    return 0


def _lines(verdict: Verdict, rebuilt: tuple[str, ...]) -> list[str]:
    rows = rendering.count(verdict.rows, "row")
    memories = rendering.count(verdict.memories, "memory", "memories")
    lines = [f"Read {rows}, {memories} and {rendering.count(verdict.notes, 'note')}."]
    words = ("Damaged:", "Lost:", "Problem:")
    damaged, gone, problem = (rendering.paint(word, rendering.BAD) for word in words)
    lines += [f"{damaged} {rendering.plain(it.description)}" for it in verdict.damages]
    lines += [f"{gone} {rendering.plain(it.description)}" for it in verdict.lost]
    lines += [f"{damaged} {name} ({files})" for name, files in verdict.indexes.items()]
    lines += [f"{problem} {rendering.plain(it)}" for it in verdict.problems]
    lines += [f"Rebuilt {name}" for name in rebuilt]
    if verdict.damages:
        lines.append("To repair: memory-daemon stop && memory-daemon admin verify --repair")
    elif verdict.indexes or verdict.problems:
        lines.append("To repair: memory-daemon admin verify --repair")
    if verdict.sound:
        lines.append(rendering.paint("No damage found.", rendering.GOOD))
    return lines


def _repair_lines(repair: StoreRepair) -> list[str]:
    lines = [f"Read {rendering.count(repair.rows, 'row')}."]
    lines += [f"Repaired: {rendering.plain(it.description)}" for it in repair.damages]
    if not repair.damages:
        lines.append("The database is not damaged.")
    else:
        lines.append(
            "The next start of the daemon rebuilds the search indexes and the table of contents."
        )
    return lines
