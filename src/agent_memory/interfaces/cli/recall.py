"""`memory recall`, `memory-daemon query search` and `memory context`."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar, get_args

import click
import msgspec
from msgspec.structs import replace

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_OFFSET,
    NO_EMBEDDER,
    Query,
    SearchMode,
    is_listing,
)
from agent_memory.features.log.model.tokens import format_offset
from agent_memory.features.memories.model.memories import NAMESPACES, MemoryStatus
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.model.contexts import DEFAULT_TOKENS, MAX_TOKENS
from agent_memory.features.recall.model.search_filters import MEMORIES, ROLES, split_domains
from agent_memory.features.recall.search_operations import (
    Detail,
    HitAnswer,
    SearchMessage,
    SearchPage,
    search_records,
)
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
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.ids import ALL, USER, Millis

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
) -> SearchMessage:
    """Build a request from the options. Options that are not set keep their defaults. Times are
    those of the caller's zone, so they are sent as milliseconds."""
    chosen = {name: value for name, value in filters.items() if value is not None}
    chosen["project"] = resolve_project(run, filters["project"])
    for name, moment in (("since", 0), ("until", 1)):
        if name in chosen:
            chosen[name] = resolve_time(run, chosen[name])[moment]
    chosen["kinds"] = tuple(sorted(chosen.get("kinds", ())))
    return SearchMessage(query=" ".join(query), tags=join_lists(tags), **chosen)


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
    names = [_resolve_domain(run, name) for name in split_domains(request.domain)]
    request = replace(request, domain=",".join(names) or ALL)
    if reason is None:
        _search(run, request, detail)
        return
    conclusion = services[Reasoning].conclude(_build_query(run, request))
    found = SearchPage.from_result(conclusion.found)
    sources = list(map(HitAnswer.from_hit, conclusion.sources))
    _warn(run, found)
    run.show(
        {
            "answer": conclusion.answer,
            "dates": list(conclusion.dates),
            "sources": [msgspec.to_builtins(hit.show(detail)) for hit in sources],
            **msgspec.to_builtins(found.show(detail)),
        },
        lambda: "\n".join(_render_conclusion(conclusion, sources)),
        essential=rendering.plain(conclusion.answer),
        page=True,
    )


def _resolve_domain(run: Invocation, name: str) -> str:
    return name if name == USER else run.services[ProjectResolver].resolve_domain(name, run.caller)


def _build_query(run: Invocation, request: SearchMessage) -> Query:
    return request.to_query(
        partial(resolve_time, run),
        # Another daemon resolves names itself.
        resolve_session=str if run.endpoint else run.services[Opening].resolve_session,
        zone=run.zone,
    )


def _search(run: Invocation, request: SearchMessage, detail: str) -> None:
    query = _build_query(run, request)
    page = run_search(partial(run.call, search_records), request)
    hint = "" if page.results or run.endpoint else _explain_nothing(run, query)
    show_answer(run, page, query.scope.kinds, detail, hint)


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


def _render_conclusion(conclusion: Conclusion, sources: list[HitAnswer]) -> Iterator[str]:
    yield rendering.plain(conclusion.answer)
    if conclusion.dates:
        yield ""
        yield from (f"({rendering.plain(date)})" for date in conclusion.dates)
    if sources:
        yield ""
        yield "Sources:"
    for number, hit in enumerate(sources, 1):
        day = rendering.moment(Millis(hit.timestamp_ms))[:10]
        yield f"[{number}] {day}  {rendering.plain(hit.format_summary())}"
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
    _search(run, build_request(run, **filters), detail)


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
        {
            "context": built.text,
            "tokens": built.tokens,
            "resources": [
                msgspec.to_builtins(HitAnswer.from_hit(hit).show("minimal")) for hit in built.hits
            ],
        },
        lambda: rendering.plain(built.text),
        essential=built.text,
        verbatim=True,
        framed=built.text,
    )


def run_search(search: Callable[[SearchMessage], SearchPage], request: SearchMessage) -> SearchPage:
    """Search in as many pages as the limit takes."""
    if is_listing(request.query):
        return _list_all(search, request)
    most = request.limit or DEFAULT_LIMIT
    hits: list[HitAnswer] = []
    token = format_offset(request.offset) or ""
    while True:
        left = min(MAX_LIMIT, most - len(hits))
        page = search(replace(request, limit=left, continuation_token=token))
        hits += page.results
        if page.continuation_token is None or len(hits) >= most:
            return replace(page, results=hits)
        token = page.continuation_token


def _list_all(search: Callable[[SearchMessage], SearchPage], request: SearchMessage) -> SearchPage:
    """List everything in scope.

    Each page starts at the time of the last hit, so that the daemon need not skip all earlier hits.
    """
    skipped = request.offset
    most = min(skipped + (request.limit or MOST_LISTED), MOST_LISTED)
    first = page = search(replace(request, limit=min(MAX_LIMIT, most), offset=0))
    hits = list(page.results)
    while page.continuation_token is not None and page.results and len(hits) < most:
        last = hits[-1].timestamp_ms
        same = sum(hit.timestamp_ms == last for hit in hits)
        page = search(
            replace(
                request,
                limit=min(MAX_LIMIT, most - len(hits)),
                offset=0,
                continuation_token=str(same),
                until=last,
            )
        )
        hits += page.results
    warning = first.warning
    if page.continuation_token is not None and not request.limit:
        warning = f"the newest {len(hits):,} are shown: narrow the time range to go further back"
    return replace(first, results=hits[skipped:], warning=warning)


def _warn(run: Invocation, answer: SearchPage) -> None:
    """Show a warning, but not that there is no embedder: that is what the settings ask for."""
    if answer.warning and answer.warning != NO_EMBEDDER:
        run.terminal.warn(f"warning: {answer.warning}\n")


def show_answer(
    run: Invocation,
    answer: SearchPage,
    kinds: frozenset[DocumentKind],
    detail: str,
    hint: str = "",
) -> None:
    """Show what a search found. `hint` follows if it found nothing."""
    _warn(run, answer)
    run.show(
        msgspec.to_builtins(answer.show(detail, whole=True)),
        lambda: _as_text(run, answer, kinds, detail, hint),
        markdown=lambda: "\n".join(
            format_markdown(hit, run.loaded.settings.upstream.name) for hit in answer.results
        ),
        essential="\n".join(
            hit.uri if hit.kind == DocumentKind.MEMORY else hit.id for hit in answer.results
        ),
        page=True,
    )


def _as_text(
    run: Invocation,
    answer: SearchPage,
    kinds: frozenset[DocumentKind],
    detail: str,
    hint: str,
) -> str:
    what = "memories" if kinds == MEMORIES else "results"
    if not answer.results:
        return f"Found no {what}. {rendering.plain(hint)}".rstrip()
    count = len(answer.results)
    one = {"memories": "memory", "results": "result"}[what]
    of = f"{count:,} of " if answer.total > count else ""
    found = f"Found {of}{rendering.count(max(answer.total, count), one, what)}:"
    head = found if answer.certain else "Nothing certain; closest:"
    team = run.loaded.settings.upstream.name
    return "\n".join((head, *format_hits(answer.results, detail, run.terminal, team)))
