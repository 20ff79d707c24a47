"""`memory import`, `export` and `migrate`: many memories at once, and whole transcripts."""

from collections.abc import Sequence
from pathlib import Path

import click

from agent_memory.features.memories.model.memories import NAMESPACES, Draft, get_family
from agent_memory.features.memories.services.transfer import TransferResult
from agent_memory.interfaces import archive as archive_format
from agent_memory.interfaces import memory_files
from agent_memory.interfaces.cli import archive, backfill, rendering
from agent_memory.interfaces.cli.capture import DOMAIN_HELP, get_caller, resolve_domains
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ORG, PROJECT, USER, Domain

MAX_BYTES = 64 << 20
SECONDS = 300.0


@click.command(
    "import",
    cls=Command,
    own_format=True,
    examples=(
        "memory import memories.yaml",
        "cat memories.yaml | memory import --format yaml",
        "memory import notes.md --namespace learnings --dry-run",
        "memory import --from claude-code",
        "memory import --from codex ~/.codex/sessions/2026",
        "memory import everything.jsonl.gz",
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--from",
    "agent",
    type=click.Choice(backfill.AGENTS),
    help="Record the events of an agent's transcripts; FILE is a file or folder, by default all.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(memory_files.FORMATS),
    help="The input's format; default: as its name or content tells.",
)
@click.option("--namespace", type=click.Choice(NAMESPACES), help="For records that name none.")
@click.option(
    "--domain",
    help="Where all of them go; default: what is the user's or an organisation's stays so, all else"
    " goes to the project of this folder.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be captured, and change nothing.")
@click.option(
    "--output",
    type=click.Choice(("text", "json", "yaml", "quiet")),
    help="Format of what is told.",
)
@invocation
def import_memories(
    run: Invocation,
    file: Path | None,
    agent: str | None,
    format_: str | None,
    namespace: str | None,
    domain: str | None,
    dry_run: bool,
    output: str | None,
) -> None:
    """Capture the memories of FILE, or of standard input. What is there already is skipped.

    With --from, record the events of transcripts instead. A FILE of `memory export --all` is taken
    over whole: events, memories of all domains, knowledge and checkpoints.
    """
    run.format = output
    if agent is not None:
        backfill.import_transcripts(run, agent, file, dry_run=dry_run)
        return
    if file is not None and archive.is_archive(run.path(file)):
        if format_ or namespace or domain:
            raise click.UsageError("an archive says itself what each record is: give FILE alone")
        archive.import_all(run, run.path(file), dry_run=dry_run)
        return
    services = run.backend.require_services()
    data = _read(run, file)
    if archive_format.is_archive(data[:256]):
        raise click.UsageError(
            "this is an archive of `memory export --all`: save it, and give its name as FILE"
        )
    chosen = format_ or memory_files.guess_format(None if file is None else file.name, data[:4096])
    read = services.worker.call(
        memory_files.parse, data, chosen, namespace, timeout_seconds=SECONDS
    )
    drafts = [each for each in read if isinstance(each, Draft)]
    places = [f"record {number}" for number, each in enumerate(read, 1) if isinstance(each, Draft)]
    unread = [f"{each.place}: {each.reason}" for each in read if not isinstance(each, Draft)]
    where = {
        name: services.workplaces.resolve(name, get_caller(run))
        for name in _list_domains(drafts, domain)
    }
    others = {each.domain for each in drafts if each.domain.startswith(f"{PROJECT}:")}
    if domain is None and (others - {where[PROJECT].domain}):
        names = ", ".join(sorted(others - {where[PROJECT].domain})[:5])
        run.terminal.warn(f"warning: memories of {names} go to {where[PROJECT].domain}\n")
    with run.terminal.progress("Importing", len(drafts)) as advance:
        brought = services.transfer.import_drafts(
            drafts,
            lambda draft: where[domain or _own_domain(draft)],
            dry_run=dry_run,
            done=advance,
            places=places,
        )
    _show_result(run, brought, unread, dry_run)


def _list_domains(drafts: Sequence[Draft], domain: str | None) -> set[str]:
    return {domain} if domain is not None else {PROJECT, *(_own_domain(draft) for draft in drafts)}


def _own_domain(draft: Draft) -> str:
    """The domain that a record says it is of, here: a project's name differs between machines."""
    name = get_family(Domain(draft.domain))
    return name if name in (USER, ORG) else PROJECT


def _read(run: Invocation, file: Path | None) -> bytes:
    if file is None or str(file) == "-":
        if run.terminal.call.input_is_terminal:
            raise click.UsageError("give a FILE, or pipe the memories in")
        return run.terminal.read(limit=MAX_BYTES)
    path = run.path(file)
    try:
        if not path.is_file():  # a device or a pipe may have no end: standard input is for those
            raise InvalidInput(f"{path} is no file" if path.exists() else f"there is no {path}")
        with path.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as exc:
        raise InvalidInput(f"cannot read {path}: {exc.strerror}") from exc
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"{path} has more than {MAX_BYTES:,} bytes, the limit: split it")
    return data


def _show_result(
    run: Invocation, brought: TransferResult, unread: Sequence[str], dry_run: bool
) -> None:
    refused = (*unread, *brought.refused)
    for each in refused:
        run.terminal.warn(f"warning: {rendering.plain(each)}\n")
    count = len(brought.created)
    verb = "Would capture" if dry_run else "Captured"
    run.show(
        {
            "success": not refused,
            "dry_run": dry_run,
            "captured": count,
            "skipped": brought.known,
            "refused": list(refused),
            "memory_ids": [memory.id for memory in brought.created],
        },
        lambda: (
            f"\N{CHECK MARK} {verb} {count}, skipped {brought.known} that are there already"
            + (f", refused {len(refused)}" if refused else "")
        ),
        essential="\n".join(memory.id for memory in brought.created),
    )
    if refused:
        raise InvalidInput(f"{len(refused)} of the records could not be taken over")


@click.command(
    cls=Command,
    own_format=True,
    examples=(
        "memory export > memories.yaml",
        "memory export --format jsonl --domain user -o user.jsonl",
        "memory export --namespace decisions --format markdown",
        "memory export --all everything.jsonl.gz",
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--all",
    "all_",
    is_flag=True,
    help="Everything, not only memories, as JSON lines: to FILE (.gz: compressed) or standard"
    " output.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(memory_files.FORMATS),
    help="Default: as the output's name tells, else yaml.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file, not to overwrite.")
@click.option("--namespace", type=click.Choice(NAMESPACES), help="Only this namespace.")
@click.option("--domain", default="all", show_default=True, help=f"all, {DOMAIN_HELP}")
@click.option("--include-archived", is_flag=True, help="Also what was archived.")
@invocation
def export(
    run: Invocation,
    file: Path | None,
    all_: bool,
    format_: str | None,
    output: Path | None,
    namespace: str | None,
    domain: str,
    include_archived: bool,
) -> None:
    """Write memories out, so that `memory import` can read them.

    With --all, write everything that is kept, as it is at one moment; docs/reference/archive.md
    describes it.
    """
    if all_:
        if format_ or namespace or domain != "all" or (file and output):
            raise click.UsageError("--all stands alone, with a FILE or without")
        archive.export_all(run, file or output)
        return
    if file is not None:
        raise click.UsageError("memories go to -o FILE; with --all, everything goes to FILE")
    found = [
        memory
        for memory in run.backend.require_services().curation.list_all(resolve_domains(run, domain))
        if namespace in (None, memory.namespace)
        and (include_archived or memory.status.value != "archived")
    ]
    found.sort(key=lambda memory: (memory.created_ms, memory.urn))
    chosen = format_ or (
        "yaml" if output is None else memory_files.guess_format(output.name, b"memories:")
    )
    if output is None:
        for piece in memory_files.dump(found, chosen):
            run.terminal.write(piece)
        return
    path = run.path(output)
    try:
        with path.open("x", encoding="utf-8", newline="") as target:
            target.writelines(memory_files.dump(found, chosen))
    except OSError as exc:
        raise InvalidInput(f"cannot write {path}: {exc.strerror}") from exc
    run.terminal.warn(f"{len(found)} memories written to {path}\n")


@click.command(
    cls=Command,
    examples=("memory migrate --dry-run", "memory migrate", "memory migrate --domain user"),
)
@click.option("--domain", default="project", show_default=True, help=DOMAIN_HELP)
@click.option("--dry-run", is_flag=True, help="Say what would be taken over, and change nothing.")
@invocation
def migrate(run: Invocation, domain: str, dry_run: bool) -> None:
    """Take over memories that earlier tools wrote into git notes, and index everything anew.

    The notes they come from stay as they are.
    """
    services = run.backend.require_services()
    place = services.workplaces.resolve(domain, get_caller(run))
    drafts = services.transfer.read_legacy(place)
    with run.terminal.progress("Migrating", len(drafts)) as advance:
        brought = services.transfer.import_drafts(
            drafts, lambda _: place, dry_run=dry_run, done=advance
        )
    if not dry_run:
        with run.terminal.progress("Indexing", None) as advance:
            services.indexes.rebuild_words(advance)
        services.jobs.wake_indexes()
    _show_result(run, brought, (), dry_run)
