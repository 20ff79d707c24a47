"""`memory import`, `export` and `migrate`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from agent_memory.features import import_modules
from agent_memory.features.jobs.services.jobs import Jobs
from agent_memory.features.memories.model.changes import ChangeAction
from agent_memory.features.memories.model.memories import NAMESPACES, Draft, get_family
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.memories.services.transfer import Transfer, TransferResult
from agent_memory.features.memories.services.undo import ChangeHistory
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.interfaces import conversation_files, memory_files
from agent_memory.interfaces.cli import backfill, conversations, rendering
from agent_memory.interfaces.cli.agent_shells import find_agent, name_agent
from agent_memory.interfaces.cli.capture import DOMAIN_HELP, resolve_domains
from agent_memory.interfaces.cli.commands import (
    FORMATS,
    Choice,
    Command,
    Invocation,
    PathType,
    invocation,
)
from agent_memory.interfaces.cli.filters import range_options, resolve_range
from agent_memory.kernel.errors import FeatureUnavailable, InvalidInput
from agent_memory.kernel.ids import ORG, PROJECT, USER, Domain
from agent_memory.kernel.tracing import Interface
from agent_memory.platform import files
from agent_memory.platform.ports import Worker

MAX_BYTES = 64 << 20
_HEAD_BYTES = 64 << 10
SECONDS = 300.0
_JSONL = "jsonl"
# Of the feature with the archive of everything, which may be left out.
_ARCHIVES = next(iter(import_modules("interfaces.archive_files")), None)


@click.command(
    "import",
    cls=Command,
    own_format=True,
    examples=(
        "memory import memories.yaml",
        "memory import --from-format jsonl < memories.txt",
        "memory import notes.md --namespace learnings --dry-run",
        "memory import --from claude-code",
        "memory import --from chatgpt ~/Downloads/chatgpt-export.zip --dry-run",
        "memory import everything.jsonl.gz",
    ),
)
@click.argument("file", required=False, type=PathType())
@click.option(
    "--from",
    "agent",
    type=Choice(backfill.SOURCES),
    help="Import the conversations of an agent or an export. FILE is a file or folder; default:"
    " where the agent keeps them.",
)
@click.option(
    "--from-format",
    type=Choice(memory_files.FORMATS),
    help="Format of FILE. Default: guessed from its name or content.",
)
@click.option("--namespace", type=Choice(NAMESPACES), help="Namespace of records without one.")
@click.option(
    "--domain",
    help="Domain of all memories. Default: those of a user or organization stay there, all others"
    " go to the project of this folder.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and change nothing.")
@click.option(
    "--include-excluded",
    is_flag=True,
    help="With --from, also import what hooks do not record here: folders of hooks.exclude, or not"
    " in hooks.projects, and what .memoryignore names.",
)
@click.option(
    "--format",
    "format_",
    type=Choice((*FORMATS, _JSONL)),
    help="Output format. (jsonl, which is none, still names the format of FILE.)",
)
@click.option("--output", type=Choice(FORMATS), hidden=True)  # the earlier name of --format
@invocation
def import_memories(
    run: Invocation,
    file: Path | None,
    agent: str | None,
    from_format: str | None,
    namespace: str | None,
    domain: str | None,
    dry_run: bool,
    include_excluded: bool,
    format_: str | None,
    output: str | None,
) -> None:
    """Import memories, past conversations, or an archive.

    FILE, or standard input, holds memories as YAML, JSON, JSON lines or Markdown. A FILE of JSON
    may hold events instead, as `memory export --conversations` writes them. With --from, FILE holds
    the conversations of an agent or an export. A FILE of `memory export --all` restores everything:
    events, memories of all domains, knowledge and checkpoints. Records that already exist are
    skipped.
    """
    if format_ == _JSONL or (output is not None and format_ in memory_files.FORMATS):
        from_format, format_ = from_format or format_, None  # as it was written earlier
        run.terminal.warn(
            "note: --format is the format of the output; write --from-format for that of FILE\n"
        )
    run.format = format_ or output or run.format
    if agent is not None:
        backfill.import_transcripts(
            run, agent, file, dry_run=dry_run, include_excluded=include_excluded
        )
        return
    if include_excluded:
        raise click.UsageError("--include-excluded needs --from")
    if _ARCHIVES is not None and file is not None and _ARCHIVES.is_archive(run.path(file)):
        if from_format or namespace or domain:
            raise click.UsageError(
                "FILE is an archive: leave out --from-format, --namespace and --domain"
            )
        _ARCHIVES.import_all(run, run.path(file), dry_run=dry_run)
        return
    head = b"" if file is None else _read_head(run.path(file))
    if source := conversation_files.guess_source(head):
        raise click.UsageError(f"FILE looks like an export of conversations: add --from {source}")
    if (
        file is not None
        and from_format in (None, "json", _JSONL)
        and conversation_files.is_conversation(file.name, head)
    ):
        if namespace or domain:
            raise click.UsageError("FILE holds conversations: leave out --namespace and --domain")
        backfill.record_files(
            run,
            backfill.PLAIN,
            [run.path(file)],
            dry_run=dry_run,
            include_excluded=include_excluded,
        )
        return
    services = run.services
    data = _read(run, file)
    if _ARCHIVES is not None and _ARCHIVES.archive.is_archive(data[:256]):
        raise click.UsageError(
            "standard input is an archive of `memory export --all`: save it to a file first"
        )
    if file is None and conversation_files.is_conversation("", data[:4096]):
        raise click.UsageError("standard input holds conversations: save them to a file first")
    from_format = from_format or memory_files.guess_format(
        None if file is None else file.name, data[:4096]
    )
    records = services[Worker].call(
        memory_files.parse, data, from_format, namespace, timeout_seconds=SECONDS
    )
    drafts = [record for record in records if isinstance(record, Draft)]
    places = [f"record {number}" for number, it in enumerate(records, 1) if isinstance(it, Draft)]
    unread = [f"{it.place}: {it.reason}" for it in records if not isinstance(it, Draft)]
    locations = {
        name: services[ProjectResolver].resolve(name, run.caller)
        for name in _list_domains(drafts, domain)
    }
    if domain is None:
        here = locations[PROJECT].domain
        others = {it.domain for it in drafts if it.domain.startswith(f"{PROJECT}:")} - {here}
        if others:
            names = ", ".join(sorted(others)[:5])
            run.terminal.warn(f"warning: memories of {names} go to {here}\n")
    environ = run.terminal.call.environ
    drafts = [_add_importer(draft, name_agent(environ)) for draft in drafts]
    with (
        run.terminal.progress("Importing", len(drafts)) as advance,
        _record_import(run) as transfer,
    ):
        result = transfer.import_drafts(
            drafts,
            lambda draft: locations[domain or _own_domain(draft)],
            dry_run=dry_run,
            on_progress=advance,
            places=places,
        )
    _show_result(run, result, unread, dry_run)


def _add_importer(draft: Draft, agent: str) -> Draft:
    """Say who imports a record that a person or another tool wrote. An export says it itself."""
    if draft.updated_ms is not None:
        return draft
    return replace(draft, agent=agent, interface=Interface.CLI.value)


@contextmanager
def _record_import(run: Invocation) -> Iterator[Transfer]:
    by_user = not find_agent(run.terminal.call.environ)
    with run.services[ChangeHistory].recording(ChangeAction.IMPORT, by_user=by_user) as changing:
        yield changing.transfer


def _read_head(path: Path) -> bytes:
    try:
        with files.open_regular(path, follow_link=True) as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""  # the reader of memories says what is wrong


def _list_domains(drafts: Sequence[Draft], domain: str | None) -> set[str]:
    return {domain} if domain is not None else {PROJECT, *(_own_domain(draft) for draft in drafts)}


def _own_domain(draft: Draft) -> str:
    """Return the kind of a record's domain: names of projects differ between machines."""
    name = get_family(Domain(draft.domain))
    return name if name in (USER, ORG) else PROJECT


def _read(run: Invocation, file: Path | None) -> bytes:
    if file is None or str(file) == "-":
        if run.terminal.call.input_is_terminal:
            raise click.UsageError("give a FILE, or pipe memories into the command")
        return run.terminal.read(limit=MAX_BYTES)
    path = run.path(file)
    try:
        if not path.is_file():  # a device or pipe may have no end; standard input takes those
            wrong = "is not a file" if path.exists() else "does not exist"
            hint = "; for conversations, say whose: --from chatgpt" if path.is_dir() else ""
            raise InvalidInput(f"{path} {wrong}{hint}")
        with path.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as exc:
        raise InvalidInput(f"cannot read {path}: {exc.strerror}") from exc
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"{path} is longer than {MAX_BYTES:,} bytes, the limit: split it")
    return data


def _show_result(
    run: Invocation, result: TransferResult, unread: Sequence[str], dry_run: bool
) -> None:
    refused = (*unread, *result.refused)
    for reason in refused:
        run.terminal.warn(f"warning: {rendering.plain(reason)}\n")
    count = len(result.created)
    verb = "Would capture" if dry_run else "Captured"
    run.show(
        {
            "success": not refused,
            "dry_run": dry_run,
            "captured": count,
            "skipped": result.known,
            "refused": list(refused),
            "memory_ids": [memory.id for memory in result.created],
        },
        lambda: (
            f"\N{CHECK MARK} {verb} {rendering.count(count, 'memory', 'memories')},"
            f" skipped {result.known:,} that already exist"
            + (f", refused {len(refused):,}" if refused else "")
        ),
        essential="\n".join(memory.id for memory in result.created),
    )
    if refused:
        raise InvalidInput(f"{rendering.count(len(refused), 'record')} could not be imported")


@click.command(
    cls=Command,
    own_format=True,
    examples=(
        "memory export > memories.yaml",
        "memory export --format jsonl --domain user -o user.jsonl",
        "memory export --namespace decisions --format markdown",
        "memory export --conversations --since 'last week' talks.md",
        "memory export --conversations --format obsidian ~/vault",
        "memory export --all everything.jsonl.gz",
    ),
)
@click.argument("file", required=False, type=PathType())
@click.option(
    "--conversations",
    "conversations_",
    is_flag=True,
    help="Write conversations instead of memories, to FILE or standard output: as markdown to read,"
    " as jsonl for `memory import`, or as obsidian, a folder of notes.",
)
@range_options
@click.option(
    "--all",
    "all_",
    is_flag=True,
    help="Write everything, not only memories, as JSON lines to FILE (.gz: compressed) or standard"
    " output.",
)
@click.option(
    "--format",
    "format_",
    type=Choice((*memory_files.FORMATS, conversation_files.OBSIDIAN)),
    help="Default: from the name of the output file, else yaml; of conversations, markdown.",
)
@click.option(
    "-o", "--output", type=PathType(), help="Write to this file, which must not exist yet."
)
@click.option("--namespace", type=Choice(NAMESPACES), help="Only this namespace.")
@click.option("--domain", default="all", show_default=True, help=f"all, {DOMAIN_HELP}")
@click.option("--include-archived", is_flag=True, help="Include archived memories.")
@invocation
def export(
    run: Invocation,
    file: Path | None,
    conversations_: bool,
    since: str | None,
    until: str | None,
    all_: bool,
    format_: str | None,
    output: Path | None,
    namespace: str | None,
    domain: str,
    include_archived: bool,
) -> None:
    """Export memories, conversations, or everything.

    `memory import` takes all of it back, except Markdown of conversations, which is to be read.
    With --all, it writes a consistent copy of everything that is stored; docs/reference/archive.md
    describes the format.
    """
    if format_ is None and run.format in memory_files.FORMATS:
        format_ = run.format  # given before the name of the command
    if conversations_:
        if all_ or namespace or domain != "all" or include_archived or (file and output):
            raise click.UsageError("--conversations takes only --since, --until, --format and FILE")
        conversations.export_conversations(run, file or output, format_, since, until)
        return
    if all_:
        if format_ or namespace or domain != "all" or since or until or (file and output):
            raise click.UsageError("--all takes only a FILE, or none for standard output")
        if _ARCHIVES is None:
            raise FeatureUnavailable("this installation has no archives")
        _ARCHIVES.export_all(run, file or output)
        return
    if file is not None:
        raise click.UsageError("use -o FILE for memories; only --all and --conversations take FILE")
    if format_ == conversation_files.OBSIDIAN:
        raise click.UsageError("--format obsidian needs --conversations")
    start, end = resolve_range(run, since, until)
    memories = [
        memory
        for memory in run.services[MemoryEditor].list_all(resolve_domains(run, domain))
        if namespace in (None, memory.namespace)
        and start <= memory.created_ms <= end
        and (include_archived or memory.status.value != "archived")
    ]
    memories.sort(key=lambda memory: (memory.created_ms, memory.urn))
    format_ = format_ or (
        "yaml" if output is None else memory_files.guess_format(output.name, b"memories:")
    )
    if output is None:
        for piece in memory_files.dump(memories, format_):
            run.terminal.write(piece)
        return
    path = run.path(output)
    try:
        with path.open("x", encoding="utf-8", newline="") as target:
            target.writelines(memory_files.dump(memories, format_))
    except FileExistsError as exc:
        raise InvalidInput(f"{path} already exists: choose another name") from exc
    except OSError as exc:
        raise InvalidInput(f"cannot write {path}: {exc.strerror}") from exc
    count = rendering.count(len(memories), "memory", "memories")
    run.terminal.warn(f"{count} written to {path}\n")


@click.command(
    cls=Command,
    examples=("memory migrate --dry-run", "memory migrate", "memory migrate --domain user"),
)
@click.option("--domain", default="project", show_default=True, help=DOMAIN_HELP)
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and change nothing.")
@invocation
def migrate(run: Invocation, domain: str, dry_run: bool) -> None:
    """Import memories that earlier tools wrote into git notes.

    The notes stay as they are. Afterwards, the word index is rebuilt.
    """
    services = run.services
    location = services[ProjectResolver].resolve(domain, run.caller)
    drafts = services[Transfer].read_legacy(location)
    with (
        run.terminal.progress("Migrating", len(drafts)) as advance,
        _record_import(run) as transfer,
    ):
        result = transfer.import_drafts(
            drafts, lambda _: location, dry_run=dry_run, on_progress=advance
        )
    if not dry_run:
        with run.terminal.progress("Indexing", None) as advance:
            services[Indexes].rebuild_words(advance)
        services[Jobs].wake_indexes()
    _show_result(run, result, (), dry_run)
