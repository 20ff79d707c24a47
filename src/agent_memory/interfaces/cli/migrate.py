"""`memory-daemon admin migrate`: move a memory between files and a database server."""

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Self

import click

from agent_memory import config
from agent_memory.features.maintenance.services.migration import MigrationReport
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.backend import MigrateOptions, MigrateResult, StorePlace
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.cli.terminal import Advance, Terminal
from agent_memory.interfaces.wire.errors import ERRORS
from agent_memory.kernel.errors import Cancelled, StorageFailed

DIFFERENT = ERRORS[StorageFailed].exit
HASH_CHARS = 12


@click.command(
    cls=Command,
    examples=(
        "memory-daemon admin migrate --from ./db --to postgresql://me@db.example/memory",
        "memory-daemon admin migrate --from postgresql://me@db.example/memory --to ./db",
        "memory-daemon admin migrate --from ./db --to postgresql:///memory --tenant ada",
    ),
)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="PATH|URL",
    help="Where the memory is: the folder of its database, or postgresql://...",
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="PATH|URL",
    help="Where it goes: a new folder, or postgresql://...",
)
@click.option(
    "--tenant",
    metavar="NAME",
    help="Whose memory it is in the database of the URL. Default: storage.tenant.",
)
@invocation
def migrate(run: Invocation, source: str, target: str, tenant: str | None) -> int:
    """Copy a memory to another store, and verify the copy.

    No daemon may use either of them. The source stays as it is. The target must have no memory yet.
    If the command is cut off, by Ctrl-C or a crash, run it again: it goes on where it was, and no
    daemon starts on the target before. At the end it reads both sides and compares the number of
    rows and a hash of each column family; the exit code is 4 if they differ.

    Put the password of a URL into ~/.pgpass: others on this machine can read command lines.
    """
    if tenant is not None and not config.TENANT.holds(tenant):
        raise click.UsageError(f"--tenant must be {config.TENANT.words}")
    options = MigrateOptions(
        source=_parse_place(run, "--from", source),
        target=_parse_place(run, "--to", target),
        tenant=tenant,
        config=run.config_file,
    )
    phases = _ProgressPhases(run.terminal)
    try:
        with phases:
            done = run.backend.require_control().migrate(options, phases.advance)
    except (Cancelled, KeyboardInterrupt):  # the latter without a daemon
        if phases.count is not None:
            run.terminal.warn(
                f"Stopped after {rendering.count(phases.count, 'row')}: run the same command again"
                " to go on\n"
            )
        raise
    report = done.report
    own_db = config.folders(run.terminal.call.environ).data / "db"
    steps = list(_list_next_steps(done, own_db)) if report.same else []
    run.show(
        {
            "same": report.same,
            **asdict(report),
            "families": [asdict(it) | {"same": it.same} for it in report.families],
            "next": steps,
        },
        lambda: "\n".join(_lines(report, steps)),
        verbatim=True,
        essential=report.target if report.same else "",
    )
    return 0 if report.same else DIFFERENT


class _ProgressPhases:
    """Shows a progress line for each phase of the work, one after the other."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._bars = ExitStack()
        self._phase = ""
        self._show: Advance | None = None
        self.count: int | None = None  # of rows that this phase has done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.close()

    def advance(self, phase: str, done: int, total: int) -> None:
        if phase != self._phase or self._show is None:
            self._bars.close()
            self._phase = phase
            # The total is an estimate: a bar that is full too early says less than none.
            self._show = self._bars.enter_context(
                self._terminal.progress(f"{phase} rows", max(done, total) or None)
            )
        self.count = done
        self._show(done)


def _parse_place(run: Invocation, option: str, text: str) -> StorePlace:
    if not text:
        raise click.UsageError("--from and --to must not be empty")
    if config.DATABASE_ADDRESS.holds(text):
        return text
    if "//" in text and not text.startswith(("/", "./", "../", "~")):
        # Without the text: it may have a password.
        raise click.UsageError(
            f"{option} is neither a folder nor an address of PostgreSQL, such as"
            " postgresql://me@db.example/memory"
        )
    return run.path(Path(text)).resolve()


def _list_next_steps(done: MigrateResult, own_db: Path) -> Iterator[str]:
    """Yield the commands that make the daemon use the target."""
    if isinstance(done.target, str):
        yield f"memory config set storage.url {shlex.quote(done.target)}"
        if done.tenant != done.set_tenant:
            yield f"memory config set storage.tenant {done.tenant}"
    else:
        yield "memory config unset storage.url"
        if done.target != own_db.resolve():
            yield f"memory config set storage.path {shlex.quote(str(done.target))}"
    yield "memory-daemon start"


def _lines(report: MigrationReport, steps: list[str]) -> Iterator[str]:
    counted = rendering.count(report.copied, "row")
    source, target = rendering.plain(report.source), rendering.plain(report.target)
    if report.ended:
        yield f"{target} was filled from {source} earlier. Nothing was copied."
    else:
        again = ", after an earlier run" if report.resumed else ""
        yield f"Copied {counted} from {source} to {target}{again}."
    yield ""
    yield from _table(report)
    yield ""
    if report.same:
        yield rendering.paint("Both sides are the same.", rendering.GOOD)
        yield "To use it:"
        yield from (f"  {step}" for step in steps)
        yield f"The memory in {source} stays as it was. Delete it when you no longer need it."
        return
    yield rendering.paint("The two sides differ.", rendering.BAD)
    if report.ended:
        yield "One of them was used since they were compared. Nothing was changed."
    else:
        yield "No daemon can start on the target. Run the command again: it copies what differs."


def _table(report: MigrationReport) -> Iterator[str]:
    width = max(len(it.name) for it in report.families)
    yield f"  {'family':<{width}}  {'rows':>12}  {'in the target':>13}  sha256"
    for it in report.families:
        mark = f"{it.source.sha256[:HASH_CHARS]}"
        if not it.same:
            mark += f" -> {it.target.sha256[:HASH_CHARS]} " + rendering.paint(
                "DIFFERS", rendering.BAD
            )
        yield f"  {it.name:<{width}}  {it.source.rows:>12,}  {it.target.rows:>13,}  {mark}"
    mark = "" if report.source_outbox == report.target_outbox else "DIFFERS"
    yield (
        f"  {'last change':<{width}}  {report.source_outbox:>12,}  {report.target_outbox:>13,}"
        f"  {mark}"
    ).rstrip()
