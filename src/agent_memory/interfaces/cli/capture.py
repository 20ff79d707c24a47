"""`memory capture`, `list`, `edit`, `resolve` and `archive`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

import click
import msgspec
from msgspec import UNSET

from agent_memory.features.memories.model.memories import (
    MAX_CONTENT_BYTES,
    NAMESPACES,
    Memory,
    MemoryStatus,
    check_reviewed,
    get_family,
)
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.model.tiers import Tier
from agent_memory.features.memories.operations import (
    PAGE,
    BatchChange,
    ChangedMemoryAnswer,
    MemoryDetailsAnswer,
    MemoryPatch,
    StatusName,
    change_memories,
    change_memory,
)
from agent_memory.features.memories.services.bulk_editing import BulkEditor
from agent_memory.features.memories.services.editing import MemoryDetails, MemoryEditor
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.recall.operations import CaptureAnswer, MemoryCreate, capture_memory
from agent_memory.interfaces.cli import editing, filters, listing, rendering
from agent_memory.interfaces.cli.commands import Choice, CommaList, Command, Invocation, invocation
from agent_memory.interfaces.editor_documents import EditorDocument
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import PROJECT, Domain
from agent_memory.kernel.tracing import Interface

DOMAIN_HELP = "project (of this folder), user, org, or a project by name, such as project:my-app."
_INTERFACES = {
    Interface.CLI.value: "on the command line",
    Interface.HOOK.value: "by a hook",
    Interface.HTTP.value: "over HTTP",
    Interface.MCP.value: "over MCP",
    PAGE: "in the page",
}
# A memory cools with its age, and is warmed by its use: each recall counts.
TIERS = {
    Tier.HOT: "new, or recalled often",
    Tier.WARM: "recalled now and then",
    Tier.COLD: "seldom recalled",
    Tier.ARCHIVED: "hardly ever recalled, or put away",
}
_STATUSES = {
    None: (MemoryStatus.PENDING, MemoryStatus.ACTIVE, MemoryStatus.RESOLVED),
    "pending": (MemoryStatus.PENDING,),
    "active": (MemoryStatus.ACTIVE,),
    "resolved": (MemoryStatus.RESOLVED,),
    "archived": (MemoryStatus.ARCHIVED,),
    "all": tuple(status for status in MemoryStatus if status is not MemoryStatus.TOMBSTONE),
}


def resolve_location(run: Invocation) -> MemoryLocation:
    return run.services[ProjectResolver].resolve_folder(run.caller)


def resolve_domains(run: Invocation, name: str) -> list[Domain] | None:
    """Return the domains of a `--domain` filter, or None for all."""
    if name == "all":
        return None
    return [run.services[ProjectResolver].resolve_domain(name, run.caller)]


def join_lists(lists: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for words in lists for word in words))


def read_content(run: Invocation, content: str | None, from_stdin: bool) -> str | None:
    if not from_stdin:
        return content
    if content is not None:
        raise click.UsageError("--stdin and --content cannot be combined")
    data = run.terminal.read(limit=MAX_CONTENT_BYTES)
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"standard input is not valid UTF-8 (byte {exc.start})") from exc


@click.command(
    cls=Command,
    examples=(
        'memory capture decisions "Use PostgreSQL for the data layer"',
        'git log --oneline -10 | memory capture progress "Recent commits" --stdin',
        'memory capture patterns "Return errors as values" --domain user',
        'memory capture decisions "Version the API by path" --spec feature-api --tags api',
        "memory capture learnings    # opens your editor",
    ),
)
@click.argument("namespace", type=Choice(NAMESPACES), metavar="NAMESPACE")
@click.argument("summary", required=False)
@click.option("--content", help="Details, in Markdown.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the details from standard input.")
@click.option("--domain", default="project", show_default=True, help=DOMAIN_HELP)
@click.option("--spec", default="", help="Specification that the memory belongs to.")
@click.option("--tags", type=CommaList(), multiple=True, help="Tags, separated by commas.")
@click.option("--relates-to", type=CommaList(), multiple=True, help="Ids of related memories.")
@click.option("--event", default="", help="Id of the event that the memory comes from.")
@invocation
def capture(
    run: Invocation,
    namespace: str,
    summary: str | None,
    content: str | None,
    from_stdin: bool,
    domain: str,
    spec: str,
    tags: tuple[tuple[str, ...], ...],
    relates_to: tuple[tuple[str, ...], ...],
    event: str,
) -> None:
    """Save a decision, a learning, a blocker or another memory.

    NAMESPACE is its kind: decisions, learnings, blockers, progress, reviews, patterns,
    retrospective, inception, elicitation or research. SUMMARY is one line of at most 100
    characters; without it, your editor ($VISUAL or $EDITOR) opens. Capturing the same memory again
    changes nothing.
    """
    if summary is None:
        example = f'memory capture {namespace} "One line to remember"'
        editing.require_editor(run, f"give a SUMMARY, as in `{example}`")
    location = run.services[ProjectResolver].resolve(domain, run.caller)
    document = EditorDocument(
        summary=(summary or "").strip(),
        content=read_content(run, content, from_stdin) or "",
        spec=spec.strip(),
        tags=frozenset(join_lists(tags)),
        relates_to=join_lists(relates_to),
    )

    def save(written: EditorDocument) -> CaptureAnswer:
        fields = asdict(written) | {"tags": tuple(written.tags)}
        request = MemoryCreate(**fields, namespace=namespace, domain=domain, event_id=event)
        return run.call(capture_memory, request)

    if summary is None:
        edited = editing.edit_document(run, document, save)
        if edited is None:
            run.terminal.write("Nothing was captured.\n")
            return
        captured = edited
    else:
        captured = save(document)
    _warn(run, captured.warning)
    verb = "Captured memory" if captured.created else "Already captured"
    name = captured.memory_id
    run.show(
        msgspec.to_builtins(captured),
        lambda: _describe_new(verb, captured, name),
        essential=name,
    )
    if domain == PROJECT and not location.branch and not location.commit:
        run.terminal.warn(
            "note: this folder is not in a git repository: the memory is kept on this machine, in"
            f" {location.home}, and leaves it only if you share this folder with a team\n"
        )


def _describe_new(verb: str, captured: CaptureAnswer | ChangedMemoryAnswer, name: str) -> str:
    return (
        f"\N{CHECK MARK} {verb}: {name}\n  Domain: {get_family(Domain(captured.domain))}\n"
        f"  URI: {captured.uri}"
    )


def _warn(run: Invocation, warning: str | None) -> None:
    if warning:
        run.terminal.warn(f"warning: {warning}\n")


def describe_tier(tier: Tier) -> str:
    return f"{tier.value} ({TIERS[tier]})"


def show_memory(run: Invocation, shown: MemoryDetails) -> None:
    run.show(
        msgspec.to_builtins(MemoryDetailsAnswer.from_details(shown)),
        lambda: "\n".join(_as_text(shown)),
        markdown=lambda: (
            f"# {rendering.plain(shown.memory.summary)}\n\n{rendering.plain(shown.memory.content)}"
        ),
        essential=rendering.plain(shown.memory.content or shown.memory.summary),
        page=True,
    )


def describe_author(memory: Memory) -> str:
    """Say who captured a memory and how; empty for what earlier versions captured."""
    words = [
        memory.author,
        f"with {memory.agent}" if memory.agent else "",
        _INTERFACES.get(memory.interface, memory.interface),
    ]
    return ", ".join(filter(None, words))


def _as_text(shown: MemoryDetails) -> Iterator[str]:
    memory, use = shown.memory, shown.use
    yield memory.id
    yield rendering.paint(rendering.plain(memory.summary), rendering.HEAD)
    yield ""
    times = "once" if use.count == 1 else f"{use.count} times"
    for name, value in (
        ("Domain", memory.domain),
        (
            "Status",
            memory.status.value + (f" {rendering.TO_REVIEW}" if memory.is_pending else ""),
        ),
        ("Tier", describe_tier(shown.tier)),
        ("Captured", rendering.format_with_age(memory.created_ms)),
        ("Captured by", describe_author(memory)),
        ("Changed", rendering.format_with_age(memory.updated_ms)),
        (
            "Recalled",
            f"{times}, last {rendering.format_with_age(use.last_ms)}" if use.count else "never",
        ),
        ("Tags", ", ".join(sorted(memory.tags))),
        ("Spec", memory.spec),
        ("Relates to", ", ".join(memory.relates_to)),
        ("Superseded by", memory.superseded_by),
        ("Commit", memory.commit),
        ("Event", memory.event_id),
        ("Session", memory.session_id),
        ("URI", memory.urn),
    ):
        if value:
            yield f"{name}: {rendering.plain(value)}"
    if memory.content:
        yield ""
        yield rendering.plain(memory.content)


@click.command(
    "list",
    cls=Command,
    examples=(
        "memory list",
        "memory list --namespace blockers --status active",
        "memory list --domain user --tags database --format json",
        "memory list --project my-app --since 'last week'",
    ),
)
@click.option("--namespace", type=Choice(NAMESPACES), help="Only this namespace.")
@click.option("--domain", default="all", show_default=True, help=f"all, {DOMAIN_HELP}")
@click.option(
    "--status",
    type=Choice(["pending", "active", "resolved", "archived", "all"]),
    help="Only in this status. Default: all except archived.",
)
@click.option(
    "--tags",
    type=CommaList(),
    multiple=True,
    help="Only with all of these tags, separated by commas.",
)
@click.option("--spec", help="Only of this specification.")
@filters.limit_option(help="List at most this many.")
@filters.project_option
@filters.range_options
@invocation
def list_memories(
    run: Invocation,
    namespace: str | None,
    domain: str,
    status: str | None,
    tags: tuple[tuple[str, ...], ...],
    spec: str | None,
    limit: int | None,
    project: str,
    since: str | None,
    until: str | None,
) -> None:
    """List memories, newest first.

    --project NAME is short for --domain project:NAME. A time is that of the capture.
    """
    editor, location = run.services[MemoryEditor], resolve_location(run)
    project = filters.resolve_project(run, project)
    if project and domain != "all":
        raise click.UsageError("--project and --domain cannot be combined")
    domains = resolve_domains(run, f"{PROJECT}:{project}" if project else domain)
    required_tags, statuses = frozenset(join_lists(tags)), _STATUSES[status]
    start, end = filters.resolve_range(run, since, until)
    if limit is not None and spec is None and not (required_tags or since or until):
        matching, total = editor.list_newest(domains, statuses, namespace=namespace, limit=limit)
    else:
        matching = [
            memory
            for memory in editor.list_all(domains)
            if memory.status in statuses
            and (namespace is None or memory.namespace == namespace)
            and (spec is None or memory.spec == spec)
            and required_tags <= memory.tags
            and start <= memory.created_ms <= end
        ]
        total = len(matching)
        matching.sort(key=lambda memory: (-memory.created_ms, memory.key))
    if not matching:
        filters.check_project(run, project)
    details = editor.load_details(matching[:limit])
    run.show(
        {
            "memories": [
                msgspec.to_builtins(MemoryDetailsAnswer.from_details(each, content=UNSET))
                for each in details
            ],
            "total": total,
        },
        lambda: _render_list(run, [each.memory for each in details], total, location),
        essential="\n".join(each.memory.id for each in details),
        page=True,
    )


def _render_list(
    run: Invocation, shown: Sequence[Memory], total: int, location: MemoryLocation
) -> str:
    if not shown:
        return "No memories."
    lines = format_memories(run, shown, lambda memory: memory.domain != location.domain)
    if total > len(shown) and rendering.is_on_screen():
        lines += f"\n... and {total - len(shown):,} more: --limit {total} lists them"
    return lines


def format_memories(
    run: Invocation, shown: Sequence[Memory], names_domain: Callable[[Memory], bool]
) -> str:
    """Format one line for each memory; on a terminal with a short id, an age, and as many lines as
    its summary needs."""

    def describe(memory: Memory) -> str:
        mark = "" if memory.status is MemoryStatus.ACTIVE else f"[{memory.status.value}]"
        mark = rendering.TO_REVIEW if memory.is_pending else mark
        where = f"({memory.domain})" if names_domain(memory) else ""
        return " ".join(filter(None, (rendering.plain(memory.summary), mark, where)))

    if not rendering.is_on_screen():
        return "\n".join(
            f"{memory.id:<30} {rendering.format_day(memory.created_ms)}  {describe(memory)}"
            for memory in shown
        )
    names = run.services[MemoryEditor].abbreviate(shown, resolve_location(run))
    return listing.render_rows(
        [
            listing.ListRow(name, rendering.format_day(memory.created_ms), describe(memory))
            for name, memory in zip(names, shown, strict=True)
        ]
    )


@click.command(
    cls=Command,
    examples=(
        'memory edit abc123 --summary "Use PostgreSQL 17"',
        "memory edit abc123    # opens your editor",
        "memory edit decisions:abc123def456:0 --tags database,architecture",
        "memory edit abc123 --remove-tag draft --remove-relation blockers:98e3d5759073:0",
        "cat notes.md | memory edit abc123 --stdin",
    ),
)
@click.argument("memory_id")
@click.option("--summary", help="New summary.")
@click.option("--content", help="New details.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the details from standard input.")
@click.option("--spec", help="New specification; empty for none.")
@click.option("--tags", type=CommaList(), multiple=True, help="Tags to add, separated by commas.")
@click.option(
    "--relates-to", help="New ids of related memories, separated by commas; empty for none."
)
@click.option(
    "--remove-tag",
    "remove_tags",
    type=CommaList(),
    multiple=True,
    metavar="TAG",
    help="Tag to remove; repeat it for more.",
)
@click.option(
    "--remove-relation",
    "remove_relations",
    type=CommaList(),
    multiple=True,
    metavar="ID",
    help="Related memory to remove; repeat it for more.",
)
@invocation
def edit(
    run: Invocation,
    memory_id: str,
    summary: str | None,
    content: str | None,
    from_stdin: bool,
    spec: str | None,
    tags: tuple[tuple[str, ...], ...],
    relates_to: str | None,
    remove_tags: tuple[tuple[str, ...], ...],
    remove_relations: tuple[tuple[str, ...], ...],
) -> None:
    """Change a memory.

    Without options, your editor ($VISUAL or $EDITOR) opens, with all that you can change. A new
    summary or new details make a new memory, which supersedes the old one. Removed tags and
    relations stay removed when you sync with other clones.
    """
    memory = run.services[MemoryEditor].find(memory_id, resolve_location(run))
    asked = MemoryPatch.of(
        memory,
        summary=None if summary is None else summary.strip(),
        content=read_content(run, content, from_stdin),
        spec=None if spec is None else spec.strip(),
        add_tags=join_lists(tags),
        relates_to=None if relates_to is None else CommaList().convert(relates_to, None, None),
        remove_tags=join_lists(remove_tags),
        remove_relations=join_lists(remove_relations),
    )
    if asked.build_edit(run.caller).empty:
        editing.require_editor(run, "nothing to change: give --summary, --tags or another option")
        check_reviewed(memory)
        before = editing.to_document(memory)
        edited = editing.edit_document(
            run,
            before,
            lambda after: run.call(change_memory, editing.add_changes(asked, before, after)),
        )
        if edited is None:
            run.terminal.write("Nothing was changed.\n")
            return
        changed = edited
    else:
        changed = run.call(change_memory, asked)
    _warn(run, changed.warning)
    if changed.uri == memory.urn:
        text = f"\N{CHECK MARK} Changed: {changed.id}"
    else:
        text = _describe_new(f"Superseded {memory.id} by", changed, changed.id)
    run.show(msgspec.to_builtins(changed), lambda: text, essential=changed.id)


@click.command(
    cls=Command,
    examples=("memory resolve blockers:abc123def456:0", "memory resolve abc123 --reopen"),
)
@click.argument("memory_ids", nargs=-1, required=True)
@click.option("--reopen", is_flag=True, help="Make them active again.")
@invocation
def resolve(run: Invocation, memory_ids: tuple[str, ...], reopen: bool) -> None:
    """Mark memories as resolved, such as a removed blocker."""
    if reopen:
        _set_status(run, memory_ids, "active", "Reopened")
    else:
        _set_status(run, memory_ids, "resolved", "Resolved")


@click.command(
    cls=Command,
    examples=("memory archive progress:abc123def456:0", "memory archive abc123 --restore"),
)
@click.argument("memory_ids", nargs=-1, required=True)
@click.option("--restore", is_flag=True, help="Make them active again.")
@invocation
def archive(run: Invocation, memory_ids: tuple[str, ...], restore: bool) -> None:
    """Archive memories: hide them except with --include-archived."""
    if restore:
        _set_status(run, memory_ids, "active", "Restored")
    else:
        _set_status(run, memory_ids, "archived", "Archived")


def _set_status(run: Invocation, names: tuple[str, ...], status: StatusName, verb: str) -> None:
    found, unknown = run.services[BulkEditor].find(names, resolve_location(run))
    if unknown:  # before any change
        raise unknown[0].error
    request = BatchChange(ids=[memory.urn for memory in found], status=status)
    done = run.call(change_memories, request)
    if done.refused:
        raise InvalidInput(done.refused[0].reason)
    run.show(
        {"memories": msgspec.to_builtins(done.changed)},
        lambda: "\n".join(f"\N{CHECK MARK} {verb}: {memory.id}" for memory in done.changed),
        essential="\n".join(memory.id for memory in done.changed),
    )
