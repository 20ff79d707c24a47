"""`memory recall`, `memory-daemon query search` and `memory context`."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, get_args

import click

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_OFFSET,
    NO_EMBEDDER,
    Hit,
    Query,
    RecallResult,
    Search,
    SearchMode,
)
from agent_memory.features.memories.model.memories import NAMESPACES, MemoryStatus
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.model.contexts import DEFAULT_TOKENS, MAX_TOKENS
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.recall.services.reasoning import Conclusion, Reasoning
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.capture import join_lists
from agent_memory.interfaces.cli.commands import Choice, CommaList, Command, Invocation, invocation
from agent_memory.interfaces.cli.filters import (
    check_project,
    describe_unknown_session,
    kinds_option,
    limit_option,
    project_option,
    range_options,
    resolve_project,
    resolve_time,
    session_option,
)
from agent_memory.interfaces.cli.hits import format_hits, format_markdown
from agent_memory.interfaces.search_request import MEMORIES, ROLES, SearchRequest
from agent_memory.interfaces.wire.search import (
    Detail,
    answer_json,
    context_json,
    format_summary,
    reasoning_json,
)
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.ids import ALL, USER

F = TypeVar("F", bound=Callable[..., Any])

MOST_LISTED = 10_000
DEFAULT = "Default: all but grips; without a query, memories."


def search_options(function: F) -> F:
    """Add the options of both commands, each named like its field of SearchRequest."""
    options = [
        click.argument("query", metavar="[QUERY]...", nargs=-1),
        click.option(
            "--mode",
            type=Choice([mode.value for mode in SearchMode]),
            default=SearchMode.HYBRID.value,
            show_default=True,
            help="By words and meaning, by meaning alone, or by words alone.",
        ),
        limit_option(help=f"Most results; default {DEFAULT_LIMIT}, and all without a query."),
        click.option(
            "--offset", type=click.IntRange(0, MAX_OFFSET), help="Skip this many results."
        ),
        range_options,
        project_option,
        session_option,
        click.option("--agent", help="Only of this agent."),
        click.option("--role", type=Choice(ROLES), help="Only what this role said."),
        click.option("--namespace", type=Choice(NAMESPACES), help="Only this namespace."),
        click.option(
            "--domain",
            default=ALL,
            show_default=True,
            help="project, user, org, or one by its name: project:my-app; several with commas. For"
            " `memory recall` the project is that of this folder.",
        ),
        click.option(
            "--tags", type=CommaList(), multiple=True, help="Only with all of these tags."
        ),
        click.option("--spec", help="Only of this spec."),
        click.option(
            "--status",
            "statuses",
            type=Choice([status.value for status in MemoryStatus]),
            multiple=True,
            help="Only memories with this status; repeat it for several.",
        ),
        click.option("--include-archived", is_flag=True, help="Also archived memories."),
        click.option(
            "--min-similarity", type=click.FloatRange(0, 1), help="Only with at least this score."
        ),
        click.option(
            "--detail",
            type=Choice(get_args(Detail)),
            default="summary",
            show_default=True,
            help="How much to show of each result; full includes the parts of its score.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def build_request(
    run: Invocation, *, query: tuple[str, ...], tags: tuple[tuple[str, ...], ...], **filters: Any
) -> SearchRequest:
    """Build a request from the options. Options that are not set keep their defaults."""
    chosen = {name: value for name, value in filters.items() if value is not None}
    chosen["project"] = resolve_project(run, filters["project"])
    return SearchRequest(query=" ".join(query), tags=join_lists(tags), **chosen)


@click.command(
    cls=Command,
    examples=(
        'memory recall "database architecture decisions"',
        'memory recall "auth" --namespace decisions --domain project',
        'memory recall "why did the release fail" --in events --since "last month"',
        "memory recall --namespace decisions --format json | jq -r '.results[].uri'",
    ),
)
@search_options
@kinds_option(DEFAULT)
@click.option("--reason", metavar="QUESTION", help="Let an LLM answer from the results.")
@invocation
def recall(run: Invocation, /, reason: str | None, detail: str, **filters: Any) -> None:
    """Find what was said, decided and learned.

    Without a query, or with "all", it lists the memories that pass the filters, newest first.
    """
    services, request = run.services, build_request(run, **filters)
    if reason is not None:
        request = replace(request, query=f"{reason} {request.query}".strip())

    def resolve_domain(name: str) -> str:
        if name == USER:
            return name
        return services[ProjectResolver].resolve_domain(name, run.caller)

    query = request.to_query(
        partial(resolve_time, run),
        resolve_domain,
        resolve_session=services[Opening].resolve_session,
        zone=run.zone,
    )
    if reason is None:
        answer = run_search(services[Search], query)
        hint = "" if answer.hits else _explain_nothing(run, query)
        show_answer(run, answer, query.scope.kinds, detail, hint)
        return
    conclusion = services[Reasoning].conclude(query)
    _warn(run, conclusion.found)
    run.show(
        reasoning_json(conclusion, detail),
        lambda: "\n".join(_render_conclusion(conclusion)),
        essential=rendering.plain(conclusion.answer),
        page=True,
    )


def _explain_nothing(run: Invocation, query: Query) -> str:
    """Return why a query may find nothing; empty if no reason is known.

    Raises NotFound for a project or a session that does not exist.
    """
    scope = query.scope
    check_project(run, scope.project)
    if scope.session and run.services[Opening].find_session(scope.session) is None:
        raise NotFound(describe_unknown_session(scope.session))
    if scope.namespace and DocumentKind.MEMORY not in scope.kinds:
        return "Only memories have a namespace: search them with --in memories."
    if query.is_listing and scope.kinds == MEMORIES and (scope.role or scope.agent):
        return "Only memories are listed without a query: add --in events."
    return ""


def _render_conclusion(conclusion: Conclusion) -> Iterator[str]:
    yield rendering.plain(conclusion.answer)
    if conclusion.dates:
        yield ""
        yield from (f"({rendering.plain(date)})" for date in conclusion.dates)
    if conclusion.sources:
        yield ""
        yield "Sources:"
    for number, hit in enumerate(conclusion.sources, 1):
        day = rendering.moment(hit.document.at_ms)[:10]
        yield f"[{number}] {day}  {rendering.plain(format_summary(hit.document))}"
        yield f"    {rendering.plain(hit.uri)}"


@click.command(
    cls=Command,
    examples=(
        'memory-daemon query search "why did the release fail"',
        'memory-daemon query search "retry budget" --in events --mode bm25 --detail full',
        'memory-daemon query -e http://127.0.0.1:50051 search "retry budget"',
    ),
)
@search_options
@kinds_option(DEFAULT)
@invocation
def search(run: Invocation, /, detail: str, **filters: Any) -> None:
    """Search everything that was recorded."""
    with run.open_service(lambda services: services[Search]) as backend:
        local = run.endpoint is None
        query = build_request(run, **filters).to_query(
            partial(resolve_time, run),
            # Another daemon resolves names itself.
            resolve_session=run.services[Opening].resolve_session if local else str,
            zone=run.zone,
        )
        answer = run_search(backend if callable(backend) else backend.search, query)
    hint = _explain_nothing(run, query) if local and not answer.hits else ""
    show_answer(run, answer, query.scope.kinds, detail, hint)


@click.command(
    cls=Command,
    examples=(
        "memory context --project my-app --branch feature/auth",
        'memory context "how do we retry failed jobs" --project my-app --tokens 1000',
        "memory context --file src/jobs/retry.py --project my-app --format json",
    ),
)
@click.argument("prompt", nargs=-1)
@project_option
@click.option("--branch", default="", help="The branch you work on.")
@click.option("--file", default="", metavar="PATH", help="The file you work on.")
@click.option(
    "--tokens",
    type=click.IntRange(1, MAX_TOKENS),
    default=DEFAULT_TOKENS,
    show_default=True,
    help="Most tokens of the context.",
)
@invocation
def context(
    run: Invocation, prompt: tuple[str, ...], project: str, branch: str, file: str, tokens: int
) -> None:
    """Show the context that an agent gets, as XML."""
    project = resolve_project(run, project)
    request = contexts.ContextRequest(
        project=project, branch=branch, prompt=" ".join(prompt), file=file, tokens=tokens
    )
    built = run.services[ContextBuilder].build(request)
    if not built.text:
        check_project(run, project)
        run.terminal.warn("note: nothing to show.\n")
    run.show(
        context_json(built),
        lambda: rendering.plain(built.text),
        essential=built.text,
        verbatim=True,
        framed=built.text,
    )


def run_search(search: Search, query: Query) -> RecallResult:
    """Search in as many pages as the limit takes."""
    if query.is_listing:
        return _list_all(search, query)
    most = query.limit or DEFAULT_LIMIT
    hits: list[Hit] = []
    offset = query.offset
    while True:
        left = min(MAX_LIMIT, most - len(hits))
        answer = search(replace(query, limit=left, offset=offset))
        hits += answer.hits
        if answer.next is None or len(hits) >= most:
            return replace(answer, hits=tuple(hits))
        offset = answer.next


def _list_all(search: Search, query: Query) -> RecallResult:
    """List everything in scope.

    Each page starts at the time of the last hit, so that the daemon need not skip all earlier hits.
    """
    skipped = query.offset
    most = min(skipped + (query.limit or MOST_LISTED), MOST_LISTED)
    first = answer = search(replace(query, limit=min(MAX_LIMIT, most), offset=0))
    hits = list(answer.hits)
    while answer.next is not None and answer.hits and len(hits) < most:
        last = hits[-1].document.at_ms
        page = replace(
            query,
            limit=min(MAX_LIMIT, most - len(hits)),
            offset=sum(hit.document.at_ms == last for hit in hits),
            scope=replace(query.scope, until=last),
        )
        answer = search(page)
        hits += answer.hits
    warning = first.warning
    if answer.next is not None and not query.limit:
        warning = f"the newest {len(hits):,} are shown: narrow the time range to go further back"
    return replace(first, hits=tuple(hits[skipped:]), warning=warning)


def _warn(run: Invocation, answer: RecallResult) -> None:
    """Show a warning, but not that there is no embedder: that is what the settings ask for."""
    if answer.warning and answer.warning != NO_EMBEDDER:
        run.terminal.warn(f"warning: {answer.warning}\n")


def show_answer(
    run: Invocation,
    answer: RecallResult,
    kinds: frozenset[DocumentKind],
    detail: str,
    hint: str = "",
) -> None:
    """Show what a search found. `hint` follows if it found nothing."""
    _warn(run, answer)
    run.show(
        answer_json(answer, detail, whole=True),
        lambda: _as_text(run, answer, kinds, detail, hint),
        markdown=lambda: "\n".join(
            format_markdown(hit, run.loaded.settings.upstream.name) for hit in answer.hits
        ),
        essential="\n".join(hit.document.id for hit in answer.hits),
        page=True,
    )


def _as_text(
    run: Invocation,
    answer: RecallResult,
    kinds: frozenset[DocumentKind],
    detail: str,
    hint: str,
) -> str:
    what = "memories" if kinds == MEMORIES else "results"
    if not answer.hits:
        return f"Found no {what}. {rendering.plain(hint)}".rstrip()
    count = len(answer.hits)
    one = {"memories": "memory", "results": "result"}[what]
    of = f"{count:,} of " if answer.total > count else ""
    found = f"Found {of}{rendering.count(max(answer.total, count), one, what)}:"
    head = found if answer.certain else "Nothing certain; closest:"
    team = run.loaded.settings.upstream.name
    return "\n".join((head, *format_hits(answer.hits, detail, run.terminal, team)))
