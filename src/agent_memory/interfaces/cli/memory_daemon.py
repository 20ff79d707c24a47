"""The `memory-daemon` command: the daemon's life, queries, administration."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from agent_memory import config
from agent_memory.features.log.model.events import EventPage
from agent_memory.features.operations.services.admin import Admin
from agent_memory.interfaces.cli import backup, query_toc, rendering, service_unit
from agent_memory.interfaces.cli.backend import EventReader, StartOptions
from agent_memory.interfaces.cli.commands import Group, Invocation, global_options, invocation
from agent_memory.interfaces.cli.completion import completion
from agent_memory.interfaces.cli.recall import search
from agent_memory.interfaces.cli.scheduler import scheduler
from agent_memory.interfaces.cli.verify import verify
from agent_memory.interfaces.wire.errors import ERRORS
from agent_memory.interfaces.wire.events import page_json
from agent_memory.interfaces.wire.operations import damage_text, stats_json, status_json
from agent_memory.interfaces.wire.tokens import format_token, parse_token
from agent_memory.kernel.errors import FeatureUnavailable, StorageFailed
from agent_memory.kernel.status import BackupStatus, DaemonStatus, IndexesStatus, StoreStats

NOT_RUNNING = 1
FAILING = ERRORS[StorageFailed].exit
EXCERPT = 200


@click.group(
    cls=Group,
    name="memory-daemon",
    examples=(
        "memory-daemon start",
        "memory-daemon status --format json",
        "memory-daemon query events --from 1738278000000 --to 1738281600000",
    ),
)
@global_options
@click.option(
    "-l",
    "--log-level",
    type=click.Choice(config.LEVELS),
    help="Least severe level that the daemon logs.",
)
@click.pass_context
def memory_daemon(ctx: click.Context, log_level: str | None) -> None:
    """Run and look after the memory daemon.

    It records every conversation event durably and gives it back to agents and people. Commands
    that need it start it; there is no need to do so by hand.
    """
    ctx.meta["log_level"] = log_level


@memory_daemon.command(
    needs_config=False,
    examples=(
        "memory-daemon start",
        "memory-daemon start --foreground -p 9999",
        "memory-daemon start --db-path /var/lib/agent-memory/db",
    ),
)
@click.option("-f", "--foreground", is_flag=True, help="Be the daemon, and stay in this terminal.")
@click.option("-p", "--port", type=click.IntRange(0, 65535), help="gRPC port; 0 takes a free one.")
@click.option("--http-port", type=click.IntRange(0, 65535), help="HTTP port; 0 takes a free one.")
@click.option("--db-path", type=click.Path(path_type=Path), help="Folder of the database.")
@click.option(
    "-l", "--log-level", type=click.Choice(config.LEVELS), help="Least severe level to log."
)
@click.option("--ready-fd", type=int, hidden=True)
@click.option("--auto", is_flag=True, hidden=True)
@click.option("--replace", is_flag=True, hidden=True)
@invocation
@click.pass_context
def start(
    ctx: click.Context,
    run: Invocation,
    foreground: bool,
    port: int | None,
    http_port: int | None,
    db_path: Path | None,
    log_level: str | None,
    ready_fd: int | None,
    auto: bool,
    replace: bool,
) -> int:
    """Start the daemon and return when it serves."""
    options = StartOptions(
        foreground=foreground,
        grpc_port=port,
        http_port=http_port,
        db_path=None if db_path is None else run.path(db_path),
        log_level=log_level or ctx.meta["log_level"],
        config=run.config_file,
        ready_fd=ready_fd,
        auto=auto,
        replace=replace,
    )
    return run.backend.require_control().start(options, run.terminal.write)


@memory_daemon.command(needs_config=False, examples=("memory-daemon stop",))
@invocation
def stop(run: Invocation) -> int:
    """Stop the daemon: finish what it is doing, then end."""
    return run.backend.require_control().stop(run.terminal.write)


@memory_daemon.command(
    examples=("memory-daemon status", "memory-daemon status --format json | jq .grpc_port")
)
@click.option("-v", "--verbose", is_flag=True, help="Also addresses, paths, and settings' sources.")
@invocation
def status(run: Invocation, verbose: bool) -> int:
    """Say whether a daemon runs, where, and what it holds."""
    if run.backend.status is None:
        state = run.backend.require_control().state()
        run.show(
            {"running": False} | ({"state": state} if state else {}),
            lambda: "\n  ".join(["Daemon Status: Not running", *state.splitlines()]),
        )
        return NOT_RUNNING
    found = run.backend.status()
    run.show(status_json(found), lambda: _status_text(found, verbose=verbose))
    return 0 if found.store.writable else FAILING


def _status_text(found: DaemonStatus, *, verbose: bool) -> str:
    lines = [
        "Daemon Status: Running",
        f"  PID: {found.pid}",
        f"  Port: {found.grpc_port or 'none'}",
        f"  Uptime: {rendering.duration(found.uptime_seconds)}",
        f"  Events stored: {found.events:,}",
        f"  Database size: {rendering.size(found.db_bytes)}",
        *(f"  {line}" for line in store_lines(found)),
        *(f"  {line}" for line in ([] if found.indexes is None else _index_lines(found.indexes))),
        *(f"  {line}" for line in _backup_lines(found.backup)),
        *(f"  Warning: {warning}" for warning in found.warnings),
    ]
    if verbose:
        lines += [
            f"  Version: {found.version}",
            f"  gRPC: {', '.join(found.grpc_addresses) or 'not served'}",
            f"  HTTP: {', '.join(_urls(found)) or 'not served'}",
            f"  Socket: {found.socket}",
            f"  gRPC socket: {found.grpc_socket}",
            f"  HTTP socket: {found.http_socket}",
            f"  Data: {found.data_dir}",
            f"  Database: {found.db_path}",
            f"  Log: {found.log_path}",
            "  Settings not at their default:",
            *([f"    {name}: from {source}" for name, source in sorted(found.sources.items())]
              or ["    none"]),
        ]  # fmt: skip
    return "\n".join(lines)


def store_lines(found: DaemonStatus) -> Iterator[str]:
    """What is wrong with the store, if anything."""
    health = found.store
    if not health.writable:
        reads = "it answers reads" if health.readable else "it answers no reads"
        yield (
            f"STORE FAILING: nothing is recorded, {reads}; hooks go to the spool, if that can be"
            f" written. Trying again by itself: {rendering.plain(health.reason)}"
        )
    for damage in found.damages:
        yield f"DAMAGE: {rendering.plain(damage_text(damage))}"


def _backup_lines(found: BackupStatus) -> Iterator[str]:
    if found.path:
        yield f"Last backup: {rendering.moment(found.made_ms)} in {rendering.plain(found.path)}"
    if found.before_upgrade:
        yield f"Backup before the last upgrade: {rendering.plain(found.before_upgrade)}"


def _urls(found: DaemonStatus) -> Iterator[str]:
    return (f"{found.http_scheme}://{address}" for address in found.http_addresses)


def _index_lines(found: IndexesStatus) -> Iterator[str]:
    words = f"{found.words.documents:,} documents"
    yield f"Index of words: {words}, {found.words_waiting:,} changes waiting"
    if found.vectors is None:
        yield "Vectors: none (embedder.provider is none)"
    else:
        yield (
            f"Vectors: {found.vectors.documents:,} documents,"
            f" {found.vectors_waiting:,} changes waiting"
        )
    if found.doing:
        yield f"Now {found.doing}"
    if found.trouble:
        yield f"Trouble: {rendering.plain(found.trouble)}"


@memory_daemon.group(examples=("memory-daemon query events --from 0 --to 9999999999999 -l 10",))
@click.option(
    "-e",
    "--endpoint",
    help="Ask this daemon over gRPC, e.g. http://[::1]:50051. MEMORY_KEY may hold a bearer key.",
)
@click.pass_context
def query(ctx: click.Context, endpoint: str | None) -> None:
    """Read what was recorded."""
    ctx.meta["endpoint"] = endpoint


@query.command(
    examples=(
        "memory-daemon query events --from 1738278000000 --to 1738281600000",
        "memory-daemon query events --from 0 --to 9999999999999 -l 5 --format json",
    )
)
@click.option("--from", "start", type=int, required=True, metavar="MS", help="First time, Unix ms.")
@click.option("--to", "end", type=int, required=True, metavar="MS", help="Last time, Unix ms.")
@click.option("-l", "--limit", type=int, default=50, show_default=True, help="Most events.")
@click.option("-t", "--token", help="Continuation token of the page before.")
@click.option("--full", is_flag=True, help="Whole texts, not just their beginning.")
@invocation
@click.pass_context
def events(
    ctx: click.Context,
    run: Invocation,
    start: int,
    end: int,
    limit: int,
    token: str | None,
    full: bool,
) -> None:
    """Show the events of a time range."""
    after = None if token is None else parse_token(token)
    with _open_events(run, ctx.meta["endpoint"]) as source:
        page = source.events(start, end, limit=limit, after=after)
    run.show(page_json(page), lambda: _events_text(page, start, end, full=full), page=True)


@contextmanager
def _open_events(run: Invocation, endpoint: str | None) -> Iterator[EventReader]:
    if endpoint is None:
        yield run.backend.require_services().timeline
    else:
        with run.backend.connect_remote(
            endpoint, run.terminal.call.environ.get("MEMORY_KEY")
        ) as remote:
            yield remote


def _events_text(page: EventPage, start: int, end: int, *, full: bool) -> str:
    lines = [f"Events ({start} - {end}):"]
    for number, event in enumerate(page.events, 1):
        at = rendering.moment(event.at_ms)
        lines.append(f"  {number}. {event.event_id} [{event.role.name}] {at}")
        if full:
            lines += [f"     {rendering.plain(line)}" for line in event.text.splitlines()]
        elif event.text:
            lines.append(f'     "{rendering.excerpt(event.text, EXCERPT)}"')
    more = "true" if page.next else "false"
    lines += ["", f"Total: {len(page.events)} events (has_more: {more})"]
    if page.next:
        lines.append(f"Next page: --token {format_token(page.next)}")
    return "\n".join(lines)


query_toc.register(query)
query.add_command(search)
memory_daemon.add_command(scheduler)


@memory_daemon.group(examples=("memory-daemon admin stats", "memory-daemon admin compact"))
@click.option(
    "--db-path",
    type=click.Path(path_type=Path),
    help="Another database, opened offline: no daemon may be using it.",
)
@click.pass_context
def admin(ctx: click.Context, db_path: Path | None) -> None:
    """Look after the database."""
    ctx.meta["db_path"] = db_path


@admin.command(
    examples=("memory-daemon admin stats", "memory-daemon admin --db-path /mnt/db stats")
)
@invocation
@click.pass_context
def stats(ctx: click.Context, run: Invocation) -> None:
    """Show what the database holds, by column family."""
    with _open_admin(run, ctx.meta["db_path"]) as opened:
        found = opened.stats()
    run.show(stats_json(found), lambda: _stats_text(found))


@admin.command(examples=("memory-daemon admin compact", "memory-daemon admin compact --cf events"))
@click.option("--cf", "family", metavar="NAME", help="Only this column family.")
@invocation
@click.pass_context
def compact(ctx: click.Context, run: Invocation, family: str | None) -> None:
    """Rewrite the database's files without what is no longer needed."""
    with _open_admin(run, ctx.meta["db_path"]) as opened:
        before = opened.stats()
        total = len(before.families) if family is None else 1
        with run.terminal.progress("Compacting", total) as advance:
            after = opened.compact(family, advance)
    run.show(
        {"size_bytes_before": before.size_bytes, "size_bytes": after.size_bytes},
        lambda: (
            f"Compacted {family or 'all column families'}:"
            f" {rendering.size(before.size_bytes)} -> {rendering.size(after.size_bytes)}"
        ),
    )


@admin.command(
    "rebuild-toc",
    examples=(
        "memory-daemon admin rebuild-toc --dry-run",
        "memory-daemon admin rebuild-toc --from-date 2026-01-01",
    ),
)
@click.option("--from-date", type=query_toc.DAY, help="Only sessions with events from this day on.")
@click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")
@invocation
def rebuild_toc(run: Invocation, from_date: datetime | None, dry_run: bool) -> None:
    """Rebuild the table of contents from the events; what comes out the same stays as it is."""
    rebuild = run.backend.require_services().rebuild
    sessions = rebuild.sessions(None if from_date is None else from_date.date())
    with run.terminal.progress("Rebuilding", len(sessions)) as advance:
        done = rebuild.run(sessions, dry_run=dry_run, done=advance)
    verb = "would be" if dry_run else "were"
    run.show(
        asdict(done),
        lambda: (
            f"{done.sessions} sessions read: {done.written} segments {verb} rewritten,"
            f" {done.removed} {verb} removed, {done.rolled_up} periods rolled up"
        ),
    )


@admin.command("index-stats", examples=("memory-daemon admin index-stats --format json",))
@invocation
@click.pass_context
def index_stats(ctx: click.Context, run: Invocation) -> None:
    """Show what the search indexes hold, what waits for them, and how large they are."""
    _only_here(run, ctx)
    found = run.backend.require_services().indexes.status()
    run.show(asdict(found), lambda: _index_text(found))


def _index_text(found: IndexesStatus) -> str:
    lines = ["Search Indexes:", *(f"  {line}" for line in _index_lines(found))]
    lines.append(f"  Size of the index of words: {rendering.size(found.words.size_bytes)}")
    if found.vectors is not None:
        lines.append(f"  Size of the vectors: {rendering.size(found.vectors.size_bytes)}")
        lines.append(f"  Model: {found.model}")
    return "\n".join(lines)


@admin.command(
    "rebuild-index",
    examples=(
        "memory-daemon admin rebuild-index",
        "memory-daemon admin rebuild-index --vectors --no-wait",
    ),
)
@click.option("--words", is_flag=True, help="Only the index of words.")
@click.option("--vectors", is_flag=True, help="Only the vectors; everything is embedded again.")
@click.option("--wait/--no-wait", default=True, help="Until all is embedded, or in the background.")
@invocation
@click.pass_context
def rebuild_index(
    ctx: click.Context, run: Invocation, words: bool, vectors: bool, wait: bool
) -> None:
    """Rebuild the search indexes from what is stored. The index of words goes on answering, the
    vectors come back as they are embedded."""
    _only_here(run, ctx)
    services = run.backend.require_services()
    indexes = services.indexes
    both = words == vectors
    found = indexes.status()
    stored = services.admin.stats()
    total = stored.entries("events") + stored.entries("segments")
    done: dict[str, int] = {}
    if both or words:
        with run.terminal.progress("Indexing words", total) as advance:
            done["words"] = indexes.rebuild_words(advance)
    if vectors or (both and found.vectors is not None):
        with run.terminal.progress("Queueing", total) as advance:
            done["vectors"] = indexes.rebuild_vectors(advance)
        if wait:
            queued = indexes.status().vectors_waiting
            with run.terminal.progress("Embedding", queued) as advance:
                indexes.embed(lambda left: advance(queued - left))
    services.jobs.wake_indexes()
    later = "" if wait or "vectors" not in done else "; embedding goes on in the background"
    run.show(
        done,
        lambda: "Rebuilt " + ", ".join(f"{k}: {n:,} records" for k, n in done.items()) + later,
    )


def _only_here(run: Invocation, ctx: click.Context) -> None:
    given = ctx.meta["db_path"]
    if given is not None and run.path(given).resolve() != run.backend.own_db:
        raise click.UsageError("the indexes are those of the running daemon: leave --db-path out")


admin.add_command(verify)


@contextmanager
def _open_admin(run: Invocation, db_path: Path | None) -> Iterator[Admin]:
    wanted = None if db_path is None else run.path(db_path).resolve()
    if wanted is None or wanted == run.backend.own_db:
        yield run.backend.require_services().admin
    else:
        with run.backend.open_offline(wanted) as opened:
            yield opened


def _stats_text(found: StoreStats) -> str:
    return "\n".join(
        [
            "Database Statistics:",
            f"  Path: {found.path}",
            f"  Size: {rendering.size(found.size_bytes)}",
            "",
            "  Column Families:",
            *(
                f"    {each.name}: {each.entries:,} entries, {rendering.size(each.size_bytes)}"
                for each in found.families
            ),
            "",
            "  RocksDB Info:",
            f"    Compaction: {found.pending_compactions} pending",
            f"    WAL: {rendering.size(found.wal_bytes)}",
        ]
    )


backup.register(admin)


@memory_daemon.group(examples=("memory-daemon token create dashboard", "memory-daemon token list"))
def token() -> None:
    """Make, list and revoke the bearer keys of programs that use the daemon."""


@token.command("create", examples=("memory-daemon token create dashboard",))
@click.argument("name")
@invocation
def create_token(run: Invocation, name: str) -> None:
    """Make a key. It is shown this once; only its hash is kept."""
    secret = run.backend.require_services().access.create(name)
    run.show({"name": name, "token": secret}, lambda: secret, essential=secret)


@token.command("list", examples=("memory-daemon token list --format json",))
@invocation
def list_tokens(run: Invocation) -> None:
    """List the keys by name, without the keys themselves."""
    found = run.backend.require_services().access.list()
    run.show(
        [{"name": key.name, "created_ms": key.created_ms} for key in found],
        lambda: (
            "\n".join(f"{key.name}  created {rendering.moment(key.created_ms)}" for key in found)
            or "No keys."
        ),
    )


@token.command("revoke", examples=("memory-daemon token revoke dashboard",))
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked.")
@invocation
def revoke_token(run: Invocation, name: str, yes: bool) -> int:
    """Revoke a key: whoever uses it is refused from now on."""
    asks = not yes and run.terminal.call.input_is_terminal
    if asks and not run.terminal.confirm(f"Revoke the key {name!r}?"):
        run.terminal.warn("Not revoked.\n")
        return 1
    run.backend.require_services().access.revoke(name)
    run.show({"revoked": name}, lambda: f"Revoked {name}")
    return 0


@memory_daemon.group(
    examples=("memory-daemon service install", "memory-daemon service install --dry-run")
)
def service() -> None:
    """Have the daemon started at login, by systemd or launchd."""


@service.command("install", needs_config=False, examples=("memory-daemon service install",))
@click.option("--dry-run", is_flag=True, help="Show what would be written; write nothing.")
@invocation
def install_service(run: Invocation, dry_run: bool) -> None:
    """Write the unit that starts the daemon, and say how to activate it."""
    unit = service_unit.for_platform(run.terminal.call, config_file=run.config_file)
    if not dry_run:
        unit.write()
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
    """Deactivate that unit and remove it."""
    unit = service_unit.for_platform(run.terminal.call)
    note = ""
    if unit.path.exists():
        try:
            unit.run(unit.deactivate)  # first: systemd must still find the unit to disable it
        except FeatureUnavailable as exc:
            note = str(exc)
    removed = unit.remove()
    if note:
        run.terminal.warn(f"note: it may still be active: {note}\n")
    run.show(
        {"path": str(unit.path), "removed": removed, "note": note},
        lambda: f"Removed {unit.path}" if removed else "There was none.",
    )


memory_daemon.add_command(completion)
