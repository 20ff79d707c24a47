"""`memory-daemon start`, `stop`, `restart` and `serve-team`."""

from pathlib import Path

import click

from agent_memory.interfaces.cli.backend import StartOptions
from agent_memory.interfaces.cli.commands import (
    Command,
    Invocation,
    PathType,
    invocation,
    log_level_option,
    report_control,
)
from agent_memory.kernel.errors import ConfigError


@click.command(
    cls=Command,
    needs_config=False,
    examples=(
        "memory-daemon start",
        "memory-daemon start --foreground -p 9999",
        "memory-daemon start --db-path /var/lib/agent-memory/db",
    ),
)
@click.option(
    "-f", "--foreground", is_flag=True, help="Run in this terminal, not in the background."
)
@click.option("-p", "--port", type=click.IntRange(0, 65535), help="gRPC port; 0 picks a free one.")
@click.option("--http-port", type=click.IntRange(0, 65535), help="HTTP port; 0 picks a free one.")
@click.option("--db-path", type=PathType(), help="Folder of the database.")
@log_level_option
@click.option("--auto", is_flag=True, hidden=True)
@invocation
def start(
    run: Invocation,
    foreground: bool,
    port: int | None,
    http_port: int | None,
    db_path: Path | None,
    auto: bool,
) -> int:
    """Start the daemon in the background.

    The command returns when the daemon is ready.
    """
    options = StartOptions(
        foreground=foreground,
        grpc_port=port,
        http_port=http_port,
        db_path=None if db_path is None else run.path(db_path),
        log_level=run.log_level,
        config=run.config_file,
        auto=auto,
    )
    if foreground:
        run.terminal.end_waiting()  # the log of the daemon follows
    control = run.backend.require_control()
    return report_control(run, lambda say: control.start(options, say))


@click.command(
    "serve-team",
    cls=Command,
    examples=("memory-daemon serve-team --config /etc/agent-memory/team.toml",),
)
@invocation
def serve_team(run: Invocation) -> int:
    """Serve the memory of a team in PostgreSQL, in the foreground.

    For systemd or a container: the folder deploy/ has a unit, a compose file and an example of the
    settings. The command is `start --foreground`, but fails if storage.url is not set, instead of
    beginning a memory in files, and if team.enabled is not, instead of showing everything to
    everyone who has a key.
    """
    settings = run.loaded.settings
    if not settings.storage.url:
        raise ConfigError(
            f"{run.find_config_file()} sets no storage.url: give the address of a PostgreSQL"
            " database, or use `memory-daemon start` for a memory in files"
        )
    if not settings.team.enabled:
        raise ConfigError(
            f"{run.find_config_file()} does not set `team.enabled = true`: without it, every key"
            " shows everything; use `memory-daemon start` for a memory of your own"
        )
    options = StartOptions(foreground=True, log_level=run.log_level, config=run.config_file)
    run.terminal.end_waiting()  # the log of the daemon follows
    control = run.backend.require_control()
    return report_control(run, lambda say: control.start(options, say))


@click.command(cls=Command, needs_config=False, examples=("memory-daemon stop",))
@invocation
def stop(run: Invocation) -> int:
    """Stop the daemon when its current work is done."""
    return report_control(run, run.backend.require_control().stop)


@click.command(cls=Command, needs_config=False, examples=("memory-daemon restart",))
@invocation
def restart(run: Invocation) -> int:
    """Stop the daemon and start it again, with the same options.

    Settings that it reads only at its start take effect. With settings that no daemon can start
    with, the command fails and the daemon stays as it is.
    """
    return report_control(run, run.backend.require_control().restart)
