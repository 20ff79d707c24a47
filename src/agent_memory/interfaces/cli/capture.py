"""`memory capture`, `show`, `list`, `edit`, `resolve`, `archive`: memories one by one."""

from collections.abc import Iterator
from typing import Any

import click

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import (
    MAX_CONTENT_BYTES,
    NAMESPACES,
    Draft,
    MemoryStatus,
)
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.capture import CaptureResult
from agent_memory.features.memories.services.editing import MemoryDetails, MemoryEdit
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.wire.memories import capture_json, memory_details_json, memory_json
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Domain

DOMAIN_HELP = "project (that of this folder), user, org, or one by its name: project:my-app."


class CommaList(click.ParamType[tuple[str, ...]]):
    """A list with commas; given several times, it is one list."""

    name = "a,b"

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(filter(None, (word.strip() for word in str(value).split(","))))


def get_caller(run: Invocation) -> Caller:
    call = run.terminal.call
    return Caller(folder=str(call.cwd), environ=call.environ)


def resolve_location(run: Invocation) -> MemoryLocation:
    return run.backend.require_services().workplaces.resolve_folder(get_caller(run))


def resolve_domains(run: Invocation, chosen: str) -> list[Domain] | None:
    """Those that a filter means; None for all."""
    if chosen == "all":
        return None
    return [run.backend.require_services().workplaces.resolve_domain(chosen, get_caller(run))]


def join_lists(given: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for words in given for word in words))


def read_content(run: Invocation, content: str | None, from_stdin: bool) -> str | None:
    if not from_stdin:
        return content
    if content is not None:
        raise click.UsageError("--stdin and --content cannot be given together")
    data = run.terminal.read(limit=MAX_CONTENT_BYTES)
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"standard input is not valid UTF-8 (byte {exc.start})") from exc


@click.command(
    cls=Command,
    examples=(
        'memory capture decisions "Use PostgreSQL for data layer"',
        'git log --oneline -10 | memory capture progress "Recent commits" --stdin',
        'memory capture patterns "Error handling pattern" --domain user',
        'memory capture decisions "API versioning" --spec feature-api --tags api,versioning',
    ),
)
@click.argument("namespace", type=click.Choice(NAMESPACES), metavar="NAMESPACE")
@click.argument("summary")
@click.option("--content", help="The content, in markdown.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the content from standard input.")
@click.option("--domain", default="project", show_default=True, help=DOMAIN_HELP)
@click.option("--spec", default="", help="The specification that it belongs to.")
@click.option("--tags", type=CommaList(), multiple=True, help="With commas, or repeated.")
@click.option(
    "--relates-to", type=CommaList(), multiple=True, help="Ids of memories that it has to do with."
)
@click.option("--event", default="", help="Id of the event in which it was said.")
@invocation
def capture(
    run: Invocation,
    namespace: str,
    summary: str,
    content: str | None,
    from_stdin: bool,
    domain: str,
    spec: str,
    tags: tuple[tuple[str, ...], ...],
    relates_to: tuple[tuple[str, ...], ...],
    event: str,
) -> None:
    """Keep a decision, a learning, a blocker: SUMMARY is one line of at most 100 characters.

    NAMESPACE is one of decisions, learnings, blockers, progress, reviews, patterns, retrospective,
    inception, elicitation and research.
    """
    services = run.backend.require_services()
    draft = Draft(
        namespace=namespace,
        summary=summary.strip(),
        content=read_content(run, content, from_stdin) or "",
        spec=spec.strip(),
        tags=frozenset(join_lists(tags)),
        relates_to=join_lists(relates_to),
        event_id=event,
    )
    place = services.workplaces.resolve(domain, get_caller(run))
    captured = services.capture.capture(draft, place)
    show_captured(run, captured, "Captured memory" if captured.created else "Already there")


def show_captured(run: Invocation, captured: CaptureResult, verb: str) -> None:
    if captured.warning:
        run.terminal.warn(f"warning: {captured.warning}\n")
    memory = captured.memory
    run.show(
        capture_json(captured, indexed=run.backend.require_services().indexes.is_current()),
        lambda: "\n".join(
            (
                f"\N{CHECK MARK} {verb}: {memory.id}",
                f"  Domain: {memories.get_family(memory.domain)}",
                f"  URI: {memory.urn}",
            )
        ),
        essential=memory.id,
    )


@click.command(
    cls=Command,
    examples=(
        "memory show decisions:abc123def456:0",
        "memory show abc123",
        "memory show subcog://project:my-app/decisions/abc123def456:0 --format json",
    ),
)
@click.argument("memory_id")
@invocation
def show(run: Invocation, memory_id: str) -> None:
    """Show one memory, whole. A few digits of its id are enough."""
    shown = run.backend.require_services().curation.show(memory_id, resolve_location(run))
    run.show(
        memory_details_json(shown),
        lambda: "\n".join(_as_text(shown)),
        markdown=lambda: (
            f"# {rendering.plain(shown.memory.summary)}\n\n{rendering.plain(shown.memory.content)}"
        ),
        essential=rendering.plain(shown.memory.content or shown.memory.summary),
        page=True,
    )


def _as_text(shown: MemoryDetails) -> Iterator[str]:
    memory, use = shown.memory, shown.use
    yield memory.id
    yield rendering.plain(memory.summary)
    yield ""
    times = "once" if use.count == 1 else f"{use.count} times"
    for name, value in (
        ("Domain", memory.domain),
        ("Status", memory.status.value),
        ("Tier", shown.tier.value),
        ("Captured", f"{rendering.moment(memory.created_ms)} UTC"),
        ("Changed", f"{rendering.moment(memory.updated_ms)} UTC"),
        (
            "Recalled",
            f"{times}, last at {rendering.moment(use.last_ms)} UTC" if use.count else "never",
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
    ),
)
@click.option("--namespace", type=click.Choice(NAMESPACES), help="Only this namespace.")
@click.option("--domain", default="all", show_default=True, help=f"all, {DOMAIN_HELP}")
@click.option(
    "--status",
    type=click.Choice(["active", "resolved", "archived", "all"]),
    help="Only in this status; default: all but archived ones.",
)
@click.option("--tags", type=CommaList(), multiple=True, help="Only with all of these tags.")
@click.option("--spec", help="Only of this spec.")
@click.option("-l", "--limit", type=click.IntRange(1), help="Most that are listed.")
@invocation
def list_memories(
    run: Invocation,
    namespace: str | None,
    domain: str,
    status: str | None,
    tags: tuple[tuple[str, ...], ...],
    spec: str | None,
    limit: int | None,
) -> None:
    """List memories, newest first."""
    curation, place = run.backend.require_services().curation, resolve_location(run)
    wanted = frozenset(join_lists(tags))
    found = [
        memory
        for memory in curation.list_all(resolve_domains(run, domain))
        if (namespace is None or memory.namespace == namespace)
        and (spec is None or memory.spec == spec)
        and wanted <= memory.tags
        and (
            memory.status is not MemoryStatus.ARCHIVED
            if status is None
            else status in ("all", memory.status.value)
        )
    ]
    found.sort(key=lambda memory: (-memory.created_ms, memory.urn))
    shown = curation.load_details(found[:limit])
    run.show(
        {
            "memories": [memory_details_json(each, content=False) for each in shown],
            "total": len(found),
        },
        lambda: "\n".join(_line(each, place) for each in shown) or "There are no memories.",
        essential="\n".join(each.memory.id for each in shown),
        page=True,
    )


def _line(shown: MemoryDetails, place: MemoryLocation) -> str:
    memory = shown.memory
    where = "" if memory.domain == place.domain else f" ({memory.domain})"
    day = rendering.moment(memory.created_ms)[:10]
    mark = "" if memory.status is MemoryStatus.ACTIVE else f" [{memory.status.value}]"
    return f"{memory.id:<30} {day}  {rendering.plain(memory.summary)}{mark}{where}"


@click.command(
    cls=Command,
    examples=(
        'memory edit abc123 --summary "Use PostgreSQL 17"',
        "memory edit decisions:abc123def456:0 --tags database,architecture",
        "cat notes.md | memory edit abc123 --stdin",
    ),
)
@click.argument("memory_id")
@click.option("--summary", help="The new summary.")
@click.option("--content", help="The new content.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the content from standard input.")
@click.option("--spec", help="The new spec; empty for none.")
@click.option(
    "--tags", type=CommaList(), multiple=True, help="Tags to add, with commas or repeated."
)
@click.option("--relates-to", help="What it is to relate to, with commas; empty for nothing.")
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
) -> None:
    """Change a memory. Other words are a new memory, which supersedes the old one."""
    curation, place = run.backend.require_services().curation, resolve_location(run)
    memory = curation.find(memory_id, place)
    changed = curation.edit(
        memory,
        MemoryEdit(
            summary=None if summary is None else summary.strip(),
            content=read_content(run, content, from_stdin),
            spec=None if spec is None else spec.strip(),
            tags=frozenset(join_lists(tags)),
            relates_to=None if relates_to is None else CommaList().convert(relates_to, None, None),
        ),
        place,
    )
    if changed.memory.key != memory.key:
        show_captured(run, changed, f"Superseded {memory.id} by")
    else:
        name = changed.memory.id
        run.show(
            memory_json(changed.memory),
            lambda: f"\N{CHECK MARK} Changed: {name}",
            essential=name,
        )


@click.command(
    cls=Command,
    examples=("memory resolve blockers:abc123def456:0", "memory resolve abc123 --reopen"),
)
@click.argument("memory_ids", nargs=-1, required=True)
@click.option("--reopen", is_flag=True, help="Make it active again.")
@invocation
def resolve(run: Invocation, memory_ids: tuple[str, ...], reopen: bool) -> None:
    """Mark memories as resolved: a blocker that is gone, work that is done."""
    if reopen:
        _set_status(run, memory_ids, MemoryStatus.ACTIVE, "Reopened")
    else:
        _set_status(run, memory_ids, MemoryStatus.RESOLVED, "Resolved")


@click.command(
    cls=Command,
    examples=("memory archive progress:abc123def456:0", "memory archive abc123 --restore"),
)
@click.argument("memory_ids", nargs=-1, required=True)
@click.option("--restore", is_flag=True, help="Make it active again.")
@invocation
def archive(run: Invocation, memory_ids: tuple[str, ...], restore: bool) -> None:
    """Put memories away: kept, but found only with --include-archived."""
    if restore:
        _set_status(run, memory_ids, MemoryStatus.ACTIVE, "Restored")
    else:
        _set_status(run, memory_ids, MemoryStatus.ARCHIVED, "Archived")


def _set_status(run: Invocation, names: tuple[str, ...], status: MemoryStatus, verb: str) -> None:
    curation, place = run.backend.require_services().curation, resolve_location(run)
    found = [curation.find(name, place) for name in names]  # all of them, or none
    moved = [curation.set_status(memory, status, place) for memory in found]
    run.show(
        {"memories": [memory_json(each, content=False) for each in moved]},
        lambda: "\n".join(f"\N{CHECK MARK} {verb}: {each.id}" for each in moved),
        essential="\n".join(each.id for each in moved),
    )
