"""The `memory-daemon` command: start, query and maintain the daemon."""

from collections.abc import Iterator
from pathlib import Path

import click

from agent_memory import config
from agent_memory.features.log.model.events import EventPage
from agent_memory.interfaces.cli import query_toc, rendering, service_unit
from agent_memory.interfaces.cli.admin import admin, describe_contents, index_lines
from agent_memory.interfaces.cli.backend import StartOptions
from agent_memory.interfaces.cli.commands import (
    Choice,
    Group,
    Invocation,
    PathType,
    endpoint_option,
    global_options,
    invocation,
    remember,
    report_control,
)
from agent_memory.interfaces.cli.completion import completion
from agent_memory.interfaces.cli.filters import limit_option, range_options, resolve_range
from agent_memory.interfaces.cli.help_topics import help_command
from agent_memory.interfaces.cli.recall import search
from agent_memory.interfaces.cli.scheduler import scheduler
from agent_memory.interfaces.cli.tokens import audit, token
from agent_memory.interfaces.wire.errors import ERRORS
from agent_memory.interfaces.wire.events import page_json
from agent_memory.interfaces.wire.operations import damage_text, status_json
from agent_memory.interfaces.wire.tokens import format_token, parse_token
from agent_memory.kernel.errors import ConfigError, FeatureUnavailable, StorageFailed
from agent_memory.kernel.ids import MAX_MILLIS
from agent_memory.kernel.status import BackupStatus, DaemonStatus

NOT_RUNNING = 1
FAILING = ERRORS[StorageFailed].exit
EXCERPT = 200

_log_level_option = click.option(
    "-l",
    "--log-level",
    type=Choice(config.LEVELS),
    expose_value=False,
    callback=remember("log_level"),
    help="Lowest level to log.",
)


@click.group(
    cls=Group,
    name="memory-daemon",
    sections={
        "Run": ("start", "stop", "restart", "status", "service", "serve-team"),
        "Read": ("query",),
        "Maintain": ("admin", "scheduler", "audit"),
        "Set up": ("token", "completion", "help"),
    },
    examples=(
        "memory-daemon status",
        "memory-daemon query tree",
        "memory-daemon admin backup /mnt/backups/memory",
        "memory-daemon token create dashboard",
    ),
)
@global_options
@_log_level_option
def memory_daemon() -> None:
    """Run, query and maintain the memory daemon.

    The daemon records the conversations of your agents and answers all commands. Commands start it
    if it is not running, so you rarely need to.
    """


@memory_daemon.command(
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
@_log_level_option
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


@memory_daemon.command(
    "serve-team",
    examples=("memory-daemon serve-team --config /etc/agent-memory/team.toml",),
)
@invocation
def serve_team(run: Invocation) -> int:
    """Serve a memory in PostgreSQL, in the foreground.

    For systemd or a container: the folder deploy/ has a unit, a compose file and an example of the
    settings. The command is `start --foreground`, but fails if storage.url is not set, instead of
    beginning a memory in files.
    """
    if not run.loaded.settings.storage.url:
        raise ConfigError(
            f"{run.find_config_file()} sets no storage.url: give the address of a PostgreSQL"
            " database, or use `memory-daemon start` for a memory in files"
        )
    options = StartOptions(foreground=True, log_level=run.log_level, config=run.config_file)
    run.terminal.end_waiting()  # the log of the daemon follows
    control = run.backend.require_control()
    return report_control(run, lambda say: control.start(options, say))


@memory_daemon.command(needs_config=False, examples=("memory-daemon stop",))
@invocation
def stop(run: Invocation) -> int:
    """Stop the daemon when its current work is done."""
    return report_control(run, run.backend.require_control().stop)


@memory_daemon.command(needs_config=False, examples=("memory-daemon restart",))
@invocation
def restart(run: Invocation) -> int:
    """Stop the daemon and start it again, with the same options.

    Settings that it reads only at its start take effect. With settings that no daemon can start
    with, the command fails and the daemon stays as it is.
    """
    return report_control(run, run.backend.require_control().restart)


@memory_daemon.command(
    examples=("memory-daemon status", "memory-daemon status --format json | jq .grpc_port")
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Also show addresses, paths and changed settings."
)
@invocation
def status(run: Invocation, verbose: bool) -> int:
    """Show whether the daemon is running, and what it stores.

    The exit code is 1 if no daemon is running, and 4 if it cannot write its store.
    """
    if run.backend.status is None:
        state = run.backend.require_control().state()
        run.show(
            {"running": False} | ({"state": state} if state else {}),
            lambda: "\n  ".join([_format_state("Not running", rendering.BAD), *state.splitlines()]),
        )
        return NOT_RUNNING
    daemon = run.backend.status()
    run.show(status_json(daemon), lambda: _status_text(daemon, verbose=verbose))
    return 0 if daemon.store.writable else FAILING


def _status_text(daemon: DaemonStatus, *, verbose: bool) -> str:
    lines = [
        f"PID: {daemon.pid}",
        f"Port: {daemon.grpc_port or 'none'}",
        f"Uptime: {rendering.duration(daemon.uptime_seconds)}",
        f"Events stored: {daemon.events:,}",
        f"Database size: {rendering.size(daemon.db_bytes)}",
        *_store_lines(daemon),
        *([] if daemon.indexes is None else index_lines(daemon.indexes)),
        *([] if daemon.contents is None else [f"Contents: {describe_contents(daemon.contents)}"]),
        *_summarizer_lines(daemon.summarizer),
        *_backup_lines(daemon.backup),
        *(f"{rendering.paint('Warning:', rendering.CAREFUL)} {it}" for it in daemon.warnings),
    ]
    if verbose:
        urls = [f"{daemon.http_scheme}://{address}" for address in daemon.http_addresses]
        lines += [
            f"Version: {daemon.version}",
            f"gRPC: {', '.join(daemon.grpc_addresses) or 'not served'}",
            f"HTTP: {', '.join(urls) or 'not served'}",
            f"Socket: {daemon.socket}",
            f"gRPC socket: {daemon.grpc_socket}",
            f"HTTP socket: {daemon.http_socket}",
            f"Data: {daemon.data_dir}",
            f"Database: {daemon.db_path}",
            f"Log: {daemon.log_path}",
            "Changed settings:",
            *(
                [f"  {name}: from {source}" for name, source in sorted(daemon.sources.items())]
                or ["  none"]
            ),
        ]
    return "\n  ".join([_format_state("Running", rendering.GOOD), *lines])


def _format_state(word: str, code: str) -> str:
    return f"Daemon Status: {rendering.paint(word, code)}"


def _summarizer_lines(summarizer: str) -> Iterator[str]:
    if summarizer not in ("", "extractive"):
        yield f"Summarizer: {summarizer}"


def _store_lines(daemon: DaemonStatus) -> Iterator[str]:
    """Describe what is wrong with the store, if anything."""
    health = daemon.store
    if not health.writable:
        reads = "reads work" if health.readable else "reads fail too"
        failing = rendering.paint("STORE FAILING:", rendering.BAD)
        yield (
            f"{failing} nothing is recorded, {reads}. Hook calls go to the spool if that can"
            f" be written. The daemon keeps trying. Cause: {rendering.plain(health.reason)}"
        )
    for damage in daemon.damages:
        yield f"{rendering.paint('DAMAGE:', rendering.BAD)} {rendering.plain(damage_text(damage))}"


def _backup_lines(backup: BackupStatus) -> Iterator[str]:
    if backup.path:
        moment = rendering.format_zoned(backup.made_ms)
        yield f"Last backup: {moment} in {rendering.plain(backup.path)}"
    if backup.before_upgrade:
        yield f"Backup before the last upgrade: {rendering.plain(backup.before_upgrade)}"


@memory_daemon.group(
    examples=(
        "memory-daemon query tree --from 2026-03-02 --to 2026-03-08",
        "memory-daemon query events --from 0 --to 9999999999999 -l 10",
        'memory-daemon query -e http://127.0.0.1:50051 search "retry policy"',
    )
)
@endpoint_option
def query() -> None:
    """Read events and the table of contents."""


@query.command(
    examples=(
        "memory-daemon query events --since yesterday",
        "memory-daemon query events --from '12 Feb' --to yesterday",
        "memory-daemon query events --from 1738278000000 --to 1738281600000",
        "memory-daemon query events --from 0 --to 9999999999999 -l 5 --format json",
    )
)
@range_options
@limit_option(50, help="Show at most this many.")
@click.option("-t", "--token", help="Token of the next page, from the page before.")
@click.option("--full", is_flag=True, help="Show whole texts, not only the beginning.")
@invocation
def events(
    run: Invocation,
    since: str | None,
    until: str | None,
    limit: int,
    token: str | None,
    full: bool,
) -> None:
    """Show the events of a time range, the oldest first."""
    start, end = resolve_range(run, since, until)
    after = None if token is None else parse_token(token)
    with run.open_service(lambda services: services.timeline) as timeline:
        page = timeline.list_events(start, end, limit=limit, after=after)
        while page.next is not None and len(page.events) < limit:  # more than one page may have
            left = limit - len(page.events)
            more = timeline.list_events(start, end, limit=left, after=page.next)
            page = EventPage(events=(*page.events, *more.events), next=more.next)
    run.show(page_json(page), lambda: _events_text(page, start, end, full=full), page=True)


def _events_text(page: EventPage, start: int, end: int, *, full: bool) -> str:
    on_screen = rendering.is_on_screen()
    lines = [_describe_range(start, end) if on_screen else f"Events ({start} - {end}):"]
    for number, event in enumerate(page.events, 1):
        at = rendering.format_zoned(event.at_ms)
        lines.append(f"  {number}. {event.event_id} [{event.role.name}] {at}")
        if full:
            lines += [f"     {rendering.plain(line)}" for line in event.text.splitlines()]
        elif event.text:
            lines.append(f'     "{rendering.excerpt(event.text, EXCERPT)}"')
    more = "" if on_screen else f" (has_more: {'true' if page.next else 'false'})"
    lines += ["", f"Total: {rendering.count(len(page.events), 'event')}{more}"]
    if page.next:
        lines.append(f"Next page: --token {format_token(page.next)}")
    return "\n".join(lines)


def _describe_range(start: int, end: int) -> str:
    """Return the heading of events for people: a side without a limit is not a date."""
    if end >= MAX_MILLIS:
        return f"Events since {rendering.format_zoned(start)}:" if start else "All events:"
    if not start:
        return f"Events until {rendering.format_zoned(end)}:"
    return f"Events from {rendering.format_span(start, end)}:"


query_toc.register(query)
query.add_command(search)


@memory_daemon.group(
    examples=("memory-daemon service install --dry-run", "memory-daemon service remove")
)
def service() -> None:
    """Start the daemon at login, through systemd or launchd."""


@service.command("install", needs_config=False, examples=("memory-daemon service install",))
@click.option("--dry-run", is_flag=True, help="Show the unit, and write nothing.")
@invocation
def install_service(run: Invocation, dry_run: bool) -> None:
    """Write the unit that starts the daemon; show how to activate it."""
    unit = service_unit.for_platform(run.terminal.call, config_file=run.config_file)
    if not dry_run:
        run.installing.note(unit.write())
    run.show(
        {"path": str(unit.path), "written": not dry_run, "activate": unit.activate},
        lambda: (
            (f"{unit.path}\n\n{unit.text}" if dry_run else f"Wrote {unit.path}")
            + f"\nActivate it with: {' '.join(unit.activate)}"
        ),
    )


@service.command("remove", needs_config=False, examples=("memory-daemon service remove",))
@invocation
def remove_service(run: Invocation) -> None:
    """Deactivate and remove the unit."""
    unit = service_unit.for_platform(run.terminal.call)
    note = ""
    if unit.path.exists():
        try:
            unit.run(unit.deactivate)  # first: systemd must still find the unit to disable it
        except FeatureUnavailable as exc:
            note = str(exc)
    removed = unit.remove()
    run.installing.remove_folders()
    if note:
        run.terminal.warn(f"note: the unit may still be active: {note}\n")
    run.show(
        {"path": str(unit.path), "removed": removed, "note": note},
        lambda: f"Removed {unit.path}" if removed else f"{unit.path} does not exist.",
    )


for command in (admin, scheduler, token, audit, completion, help_command):
    memory_daemon.add_command(command)
