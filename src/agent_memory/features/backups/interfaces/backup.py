"""`memory-daemon admin backup` and `restore`."""

from dataclasses import asdict, replace
from pathlib import Path

import click

from agent_memory import config
from agent_memory.features.backups.model.backups import BackupResult, RestoreResult, Retention
from agent_memory.features.backups.services.backups import BackupPlan, Backups
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Command, Invocation, PathType, invocation
from agent_memory.kernel.errors import FeatureUnavailable, InvalidInput


@click.command(
    cls=Command,
    examples=(
        "memory-daemon admin backup /mnt/backups/memory",
        'memory-daemon admin backup /mnt/backups/memory --schedule "0 0 3 * * *" --keep 7',
        "memory-daemon admin backup ~/memory-2026-11-17.tar.gz",
        "memory-daemon admin backup --unschedule",
    ),
)
@click.argument("target", required=False, type=PathType(), metavar="[DIR|FILE]")
@click.option(
    "--schedule",
    metavar="CRON",
    help="Also back up to DIR at these times (cron with seconds, UTC).",
)
@click.option(
    "--unschedule", is_flag=True, help="Stop the scheduled backups, and do not back up now."
)
@click.option(
    "--keep",
    type=click.IntRange(1, 10_000),
    help="Keep this many snapshots of this store in DIR, and remove older ones. Default with"
    " --schedule: backup.keep.",
)
@click.option(
    "--keep-weekly",
    type=click.IntRange(0, 10_000),
    help="Of the older ones, keep the newest of each week, for this many weeks. Default with"
    " --schedule: backup.keep_weekly.",
)
@invocation
def backup(
    run: Invocation,
    target: Path | None,
    schedule: str | None,
    unschedule: bool,
    keep: int | None,
    keep_weekly: int | None,
) -> None:
    """Back up everything and verify the copy, while the daemon runs.

    DIR is a folder of snapshots: a file that an earlier snapshot holds is not copied again. A FILE
    whose name ends in .tar, .tar.gz or .tgz is one archive. Without either, DIR is backup.path.
    """
    run.reject_other_db()
    backups = run.services[Backups]
    if unschedule:
        if target is not None or schedule is not None:
            raise click.UsageError("--unschedule takes no DIR, FILE or --schedule")
        backups.follow(replace(backups.plan, schedule=""), lambda plan: _write(run, plan))
        run.show({"scheduled": False}, lambda: "Scheduled backups are off.")
        return
    where = run.path(target) if target is not None else Path(backups.plan.folder)
    if target is None and not backups.plan.folder:
        raise click.UsageError("give a DIR or FILE, or set backup.path")
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
        raise InvalidInput(f"{where.name} is an archive: --schedule and --keep need a folder")


def _write(run: Invocation, plan: BackupPlan) -> None:
    """Write the plan into the config file, for the next start of the daemon."""
    # Late: loading the TOML editor takes a twentieth of the start time of every command.
    from agent_memory import config_file  # noqa: PLC0415

    config_file.change_all(
        run.find_config_file(),
        {
            "backup.path": plan.folder,
            "backup.schedule": plan.schedule,
            "backup.keep": plan.retention.newest,
            "backup.keep_weekly": plan.retention.weekly,
        },
    )


def _render_backup(taken: BackupResult, schedule: str | None) -> str:
    lines = [
        f"Backed up {rendering.count(taken.events, 'event')} to {rendering.plain(taken.path)}",
        f"  {rendering.count(taken.files, 'file')} verified, {rendering.size(taken.size_bytes)}",
    ]
    if taken.new_bytes < taken.size_bytes:
        lines.append(
            f"  {rendering.size(taken.new_bytes)} copied; the rest is shared with the store or an"
            " earlier snapshot"
        )
    lines += [f"  Removed {rendering.plain(path)}" for path in taken.removed]
    if schedule is not None:
        lines.append(f"  Scheduled: {schedule} (UTC)")
    return "\n".join(lines)


@click.command(
    cls=Command,
    needs_config=False,
    examples=(
        "memory-daemon stop && memory-daemon admin restore /mnt/backups/memory",
        "memory-daemon admin restore /mnt/backups/memory/20261117T030000.000Z-1f2e3d4c --force",
        "memory-daemon admin restore memory.tar.gz --to ~/.local/share/agent-memory",
    ),
)
@click.argument("source", type=PathType(), metavar="BACKUP")
@click.option(
    "--to",
    type=PathType(),
    metavar="DATA_FOLDER",
    help="Restore into this data folder instead of your own.",
)
@click.option("--force", is_flag=True, help="Move an existing store aside first.")
@invocation
def restore(run: Invocation, source: Path, to: Path | None, force: bool) -> None:
    """Restore a backup while no daemon is running.

    BACKUP is a snapshot, a folder of snapshots (the newest is taken) or an archive. Every checksum
    is verified first. An existing store is never overwritten: without --force the command stops,
    with it the store is moved aside. The daemon rebuilds the indexes at its next start.
    """
    # Late: the daemon loads the rest of the feature, and no other command without one needs it.
    from agent_memory.features.backups import feature  # noqa: PLC0415

    control = run.backend.require_control()
    environ = run.terminal.call.environ
    own_data = config.folders(environ).data
    name = "db" if to is not None else _find_db_name(run)
    data = own_data if to is None else run.path(to).resolve()
    with run.terminal.progress("Restoring", None) as advance, control.lock_data(data):
        done = feature.restore(
            run.path(source).resolve(),
            data=data,
            db_path=data / Path(name).expanduser(),
            force=force,
            on_progress=advance,
        )
    run.show(
        {
            "source": done.source,
            "data": done.data,
            "events": done.manifest.events,
            "made_ms": done.manifest.made_ms,
            "moved_aside": done.aside or None,
        },
        lambda: _render_restore(done, own_data),
        essential=done.data,
    )


def _find_db_name(run: Invocation) -> str:
    """Return where the database is in the user's data folder."""
    storage = config.load(run.terminal.call.environ, file=run.config_file).settings.storage
    if storage.url:
        raise FeatureUnavailable(
            "the database is on a server (storage.url): restore a dump of it with `pg_restore`;"
            " --to restores this backup into another data folder"
        )
    return storage.path or "db"


def _render_restore(result: RestoreResult, own_data: Path) -> str:
    manifest = result.manifest
    lines = [
        f"Restored {rendering.count(manifest.events, 'event')} to {rendering.plain(result.data)}",
        f"The backup was made at {rendering.format_zoned(manifest.made_ms)}",
    ]
    if result.aside:
        lines.append(f"The previous store is in {rendering.plain(result.aside)}")
    data = Path(result.data)
    if data != own_data.resolve():
        lines.append(f"To use it, move it to {rendering.plain(str(own_data))}.")
        return "\n".join(lines)
    lines.append("Next: `memory-daemon start`. It rebuilds the indexes; `memory doctor` checks it.")
    return "\n".join(lines)
