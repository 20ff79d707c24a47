"""`memory-daemon status`: whether the daemon is running, and what it stores."""

from collections.abc import Iterator

import click
import msgspec

from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.cli.index_status import describe_contents, index_lines
from agent_memory.interfaces.wire.errors import ERRORS
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.status import BackupStatus, DaemonStatus

NOT_RUNNING = 1
FAILING = ERRORS[StorageFailed].exit


@click.command(
    cls=Command,
    examples=("memory-daemon status", "memory-daemon status --format json | jq .grpc_port"),
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Also show addresses, paths and changed settings."
)
@invocation
def status(run: Invocation, verbose: bool) -> int:
    """Show whether the daemon is running, and what it stores.

    The exit code is 1 if no daemon is running, and 4 if it cannot write its store.
    """
    if run.backend.control is not None:
        state = run.backend.control.state()
        run.show(
            {"running": False} | ({"state": state} if state else {}),
            lambda: "\n  ".join([_format_state("Not running", rendering.BAD), *state.splitlines()]),
        )
        return NOT_RUNNING
    # Late: it loads services, which takes longer than a command without a daemon runs.
    from agent_memory.features.monitoring.operations import read_status  # noqa: PLC0415

    daemon = run.call(read_status)
    run.show(msgspec.to_builtins(daemon), lambda: _status_text(daemon, verbose=verbose))
    return 0 if daemon.store.writable else FAILING


def _status_text(daemon: DaemonStatus, *, verbose: bool) -> str:
    lines = [
        f"PID: {daemon.pid}",
        f"Port: {daemon.grpc_port or 'none'}",
        f"Uptime: {rendering.duration(daemon.uptime_seconds)}",
        f"Events stored: {f'{daemon.events:,}' if _is_counted(daemon) else 'unknown'}",
        f"Database size: {rendering.size(daemon.db_bytes) if _is_counted(daemon) else 'unknown'}",
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


def _is_counted(daemon: DaemonStatus) -> bool:
    """Tell whether what is stored could be counted."""
    return daemon.store.readable and not daemon.store.lost


def _store_lines(daemon: DaemonStatus) -> Iterator[str]:
    """Describe what is wrong with the store, if anything."""
    health = daemon.store
    if not health.writable:
        reads = "reads work" if _is_counted(daemon) else "reads fail too"
        failing = rendering.paint("STORE FAILING:", rendering.BAD)
        what = "the database server cannot be used, " if health.lost else ""
        yield (
            f"{failing} {what}nothing is recorded, {reads}. Hook calls go to the spool if that can"
            f" be written. The daemon keeps trying. Cause: {rendering.plain(health.reason)}"
        )
    for damage in daemon.damages:
        yield f"{rendering.paint('DAMAGE:', rendering.BAD)} {rendering.plain(damage.description)}"


def _backup_lines(backup: BackupStatus) -> Iterator[str]:
    if backup.path:
        moment = rendering.format_zoned(backup.made_ms)
        yield f"Last backup: {moment} in {rendering.plain(backup.path)}"
    if backup.before_upgrade:
        yield f"Backup before the last upgrade: {rendering.plain(backup.before_upgrade)}"
