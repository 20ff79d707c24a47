"""`memory-daemon admin`: the database, the table of contents and the search indexes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import click

from agent_memory.features.jobs.services.jobs import Jobs
from agent_memory.features.maintenance.services.admin import Admin
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.toc.services.rebuild import Rebuild
from agent_memory.interfaces.cli import query_toc, rendering
from agent_memory.interfaces.cli.commands import Group, Invocation, PathType, invocation, remember
from agent_memory.interfaces.cli.filters import SINCE, resolve_range, time_option
from agent_memory.interfaces.cli.index_status import index_lines
from agent_memory.interfaces.cli.late_commands import list_of_features
from agent_memory.interfaces.cli.migrate import migrate
from agent_memory.interfaces.cli.verify import verify
from agent_memory.kernel.status import IndexesStatus, StoreStats


@click.group(
    cls=Group,
    examples=(
        "memory-daemon admin stats",
        "memory-daemon admin backup /mnt/backups/memory",
        "memory-daemon admin verify",
    ),
)
@click.option(
    "--db-path",
    type=PathType(),
    expose_value=False,
    callback=remember("db_path"),
    help="Another database, which no daemon may be using.",
)
def admin() -> None:
    """Maintain the database, the indexes and backups."""


@admin.command(
    examples=("memory-daemon admin stats", "memory-daemon admin --db-path /mnt/db stats")
)
@invocation
def stats(run: Invocation) -> None:
    """Show the size of the database, by column family."""
    with _open_admin(run) as opened:
        store = opened.stats()
    run.show(asdict(store), lambda: _stats_text(store))


@admin.command(examples=("memory-daemon admin compact", "memory-daemon admin compact --cf events"))
@click.option("--cf", "family", metavar="NAME", help="Only this column family.")
@invocation
def compact(run: Invocation, family: str | None) -> None:
    """Rewrite the database files to free the space of deleted data."""
    with _open_admin(run) as opened:
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
        "memory-daemon admin rebuild-toc --since 2026-01-01",
    ),
)
@time_option(
    *SINCE, "--from-date", help="Only sessions with events on or after the day of this time."
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@invocation
def rebuild_toc(run: Invocation, since: str | None, dry_run: bool) -> None:
    """Rebuild the table of contents from the events.

    Segments whose content does not change stay as they are.
    """
    rebuild = run.services[Rebuild]
    first = query_toc.find_day(run, resolve_range(run, since, None)[0]) if since else None
    sessions = rebuild.sessions(first)
    with run.terminal.progress("Rebuilding", len(sessions)) as advance:
        done = rebuild.run(sessions, dry_run=dry_run, on_progress=advance, complete=first is None)
    verb = "would be " if dry_run else ""
    run.show(
        asdict(done),
        lambda: (
            f"Read {rendering.count(done.sessions, 'session')}:"
            f" {rendering.count(done.written, 'segment')} {verb}rewritten,"
            f" {done.removed:,} {verb}removed,"
            f" {rendering.count(done.rolled_up, 'period')} {verb}rolled up"
        ),
    )


@admin.command("index-stats", examples=("memory-daemon admin index-stats --format json",))
@invocation
def index_stats(run: Invocation) -> None:
    """Show the search indexes: documents, waiting changes and size."""
    run.reject_other_db()
    indexes = run.services[Indexes].status()
    run.show(asdict(indexes), lambda: _index_text(indexes))


def _index_text(indexes: IndexesStatus) -> str:
    lines = ["Search Indexes:", *index_lines(indexes)]
    lines.append(f"Size of the word index: {rendering.size(indexes.words.size_bytes)}")
    if indexes.vectors is not None:
        lines.append(f"Size of the vectors: {rendering.size(indexes.vectors.size_bytes)}")
        lines.append(f"Model: {indexes.model}")
    return "\n  ".join(lines)


@admin.command(
    "rebuild-index",
    examples=(
        "memory-daemon admin rebuild-index",
        "memory-daemon admin rebuild-index --vectors --no-wait",
    ),
)
@click.option("--words", is_flag=True, help="Rebuild only the word index.")
@click.option("--vectors", is_flag=True, help="Rebuild only the vectors: embed everything again.")
@click.option(
    "--wait/--no-wait",
    default=True,
    help="Wait for the embedding, or let it run in the background.",
)
@invocation
def rebuild_index(run: Invocation, words: bool, vectors: bool, wait: bool) -> None:
    """Rebuild the search indexes from the database.

    Meanwhile the old word index keeps answering; vectors answer again as they are embedded.
    """
    run.reject_other_db()
    services = run.services
    indexes = services[Indexes]
    both = words == vectors
    store = services[Admin].stats()
    total = store.entries("events") + store.entries("segments")
    done: dict[str, int] = {}
    if both or words:
        with run.terminal.progress("Indexing words", total) as advance:
            done["words"] = indexes.rebuild_words(advance)
    if vectors or (both and indexes.status().vectors is not None):
        with run.terminal.progress("Queueing", total) as advance:
            done["vectors"] = indexes.rebuild_vectors(advance)
        if wait:
            queued = indexes.status().vectors_waiting
            with run.terminal.progress("Embedding", queued) as advance:
                indexes.embed(lambda left: advance(queued - left))
    services[Jobs].wake_indexes()
    later = "" if wait or "vectors" not in done else "; embedding continues in the background"
    run.show(
        done,
        lambda: (
            "Rebuilt "
            + ", ".join(f"{name}: {rendering.count(n, 'record')}" for name, n in done.items())
            + later
        ),
    )


@contextmanager
def _open_admin(run: Invocation) -> Iterator[Admin]:
    path = None if run.db_path is None else run.db_path.resolve()
    if path is None or path == run.backend.own_db:
        yield run.services[Admin]
    else:
        with run.backend.open_offline(path) as opened:
            yield opened


def _stats_text(store: StoreStats) -> str:
    return "\n".join(
        [
            "Database Statistics:",
            f"  Path: {store.path}",
            f"  Size: {rendering.size(store.size_bytes)}",
            "",
            "  Column Families:",
            *(
                f"    {each.name}: {rendering.count(each.entries, 'entry', 'entries')},"
                f" {rendering.size(each.size_bytes)}"
                for each in store.families
            ),
            *([] if store.path.startswith("postgresql:") else _rocks_lines(store)),
        ]
    )


def _rocks_lines(store: StoreStats) -> list[str]:
    return [
        "",
        "  RocksDB Info:",
        f"    Compaction: {store.pending_compactions} pending",
        f"    WAL: {rendering.size(store.wal_bytes)}",
    ]


for command in (migrate, verify):
    admin.add_command(command)
for added in list_of_features("memory-daemon admin"):
    admin.add_command(added.place.load())
