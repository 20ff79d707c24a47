"""`memory-daemon admin backup` and `restore`."""

from dataclasses import asdict, replace
from pathlib import Path

import click

from agent_memory import config
from agent_memory.features.backups.model.backups import BackupResult, RestoreResult, Retention
from agent_memory.features.backups.services.backups import BackupPlan
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.backend import RestoreOptions
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.errors import InvalidInput


def register(group: click.Group) -> None:
    group.add_command(backup)
    group.add_command(restore)


@click.command(
    cls=Command,
    examples=(
        "memory-daemon admin backup /mnt/backups/memory",
        'memory-daemon admin backup /mnt/backups/memory --schedule "0 0 3 * * *" --keep 7',
        "memory-daemon admin backup ~/memory-2026-11-17.tar.gz",
        "memory-daemon admin backup --unschedule",
    ),
)
@click.argument("target", required=False, type=click.Path(path_type=Path), metavar="[DIR|FILE]")
@click.option("--schedule", metavar="CRON", help="Also take one at these times (UTC), into DIR.")
@click.option("--unschedule", is_flag=True, help="Take no more by schedule; take none now.")
@click.option(
    "--keep",
    type=click.IntRange(1, 10_000),
    help="Then remove snapshots of this store in DIR but the newest ones. Default with"
    " --schedule: backup.keep.",
)
@click.option(
    "--keep-weekly",
    type=click.IntRange(0, 10_000),
    help="Of those, keep the newest of each week, for so many weeks. Default with --schedule:"
    " backup.keep_weekly.",
)
@invocation
@click.pass_context
def backup(
    ctx: click.Context,
    run: Invocation,
    target: Path | None,
    schedule: str | None,
    unschedule: bool,
    keep: int | None,
    keep_weekly: int | None,
) -> None:
    """Back up everything while the daemon runs, and verify it.

    DIR is a folder of snapshots: files that an earlier one has are not copied again. FILE, a name
    that ends in .tar, .tar.gz or .tgz, is one archive. Without either, DIR is backup.path.
    """
    given = ctx.meta["db_path"]
    if given is not None and run.path(given).resolve() != run.backend.own_db:
        raise click.UsageError("a backup is one of the running daemon: leave --db-path out")
    backups = run.backend.require_services().backups
    if unschedule:
        if target is not None or schedule is not None:
            raise click.UsageError("--unschedule stands alone")
        backups.follow(replace(backups.plan, schedule=""), lambda plan: _write(run, plan))
        run.show({"scheduled": False}, lambda: "No more backups are taken by schedule.")
        return
    where = run.path(target) if target is not None else Path(backups.plan.folder)
    if target is None and not backups.plan.folder:
        raise click.UsageError("give a DIR or a FILE, or set backup.path")
    if schedule is not None:
        _check_folder(where)
        defaults = backups.plan.retention
        retention = Retention(
            newest=defaults.newest if keep is None else keep,
            weekly=defaults.weekly if keep_weekly is None else keep_weekly,
        )
        plan = BackupPlan(folder=str(where), schedule=schedule, retention=retention)
        backups.follow(plan, lambda plan: _write(run, plan))
    elif keep is not None:
        _check_folder(where)
        retention = Retention(newest=keep, weekly=keep_weekly or 0)
    elif keep_weekly is not None:
        raise click.UsageError("--keep-weekly needs --keep")
    with run.terminal.progress("Backing up", None) as advance:
        taken = backups.take(
            str(where), retention if schedule is not None or keep is not None else None, advance
        )
    run.show(
        {**asdict(taken), "scheduled": schedule is not None},
        lambda: _render_backup(taken, schedule),
        essential=taken.path,
    )


def _check_folder(where: Path) -> None:
    if where.name.endswith((".tar", ".tar.gz", ".tgz", ".zst")):
        raise InvalidInput(f"{where.name}: --schedule and --keep need a folder of snapshots")


def _write(run: Invocation, plan: BackupPlan) -> None:
    """Write the plan into the user's config file, for the daemons to come."""
    # Late: what edits TOML takes a twentieth of every start to load, and only this needs it.
    from agent_memory.interfaces import config_file  # noqa: PLC0415

    path = run.config_file or config.folders(run.terminal.call.environ).config_file
    config_file.change_all(
        path,
        {
            "backup.path": plan.folder,
            "backup.schedule": plan.schedule,
            "backup.keep": plan.retention.newest,
            "backup.keep_weekly": plan.retention.weekly,
        },
    )


def _render_backup(taken: BackupResult, schedule: str | None) -> str:
    lines = [
        f"Backed up {taken.events:,} events to {rendering.plain(taken.path)}",
        f"  {taken.files:,} files verified, {rendering.size(taken.size_bytes)}",
    ]
    if taken.new_bytes < taken.size_bytes:
        lines.append(
            f"  {rendering.size(taken.new_bytes)} were copied, the rest is shared with the store or"
            " an earlier snapshot"
        )
    lines += [f"  Removed {rendering.plain(each)}" for each in taken.removed]
    if schedule is not None:
        lines.append(f"  Next ones by schedule: {schedule} (UTC)")
    return "\n".join(lines)


@click.command(
    cls=Command,
    needs_config=False,
    examples=(
        "memory-daemon stop && memory-daemon admin restore /mnt/backups/memory",
        "memory-daemon admin restore /mnt/backups/memory/20261117T030000Z-1f2e3d4c --force",
        "memory-daemon admin restore memory.tar.gz --to ~/.local/share/agent-memory",
    ),
)
@click.argument("source", type=click.Path(path_type=Path), metavar="BACKUP")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="DATA_FOLDER",
    help="Another data folder than your own.",
)
@click.option("--force", is_flag=True, help="Move a store that is there aside, and take its place.")
@invocation
def restore(run: Invocation, source: Path, to: Path | None, force: bool) -> None:
    """Bring a backup back: a snapshot, the newest one of a folder of snapshots, or an archive.

    Every checksum is verified first. No daemon may be running. What is there already stays, unless
    --force is given: then it is moved aside. The indexes are rebuilt when the daemon starts.
    """
    with run.terminal.progress("Restoring", None) as advance:
        done = run.backend.require_control().restore(
            RestoreOptions(
                backup=run.path(source).resolve(),
                config=run.config_file,
                to=None if to is None else run.path(to).resolve(),
                force=force,
            ),
            advance,
        )
    run.show(
        {
            "source": done.source,
            "data": done.data,
            "events": done.manifest.events,
            "made_ms": done.manifest.made_ms,
            "moved_aside": done.aside or None,
        },
        lambda: _render_restore(done),
        essential=done.data,
    )


def _render_restore(done: RestoreResult) -> str:
    manifest = done.manifest
    lines = [
        f"Restored {manifest.events:,} events to {rendering.plain(done.data)}",
        f"The backup is of {rendering.moment(manifest.made_ms)}",
    ]
    if done.aside:
        lines.append(f"What was there before is in {rendering.plain(done.aside)}")
    lines.append("Next: `memory-daemon start`. It rebuilds the indexes; `memory doctor` checks it.")
    return "\n".join(lines)
