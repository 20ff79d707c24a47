"""`memory recall` and `memory-daemon query search`, one search by two names; `memory context`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from agent_memory.features.index.model.documents import Document, DocumentKind
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Hit,
    Query,
    RecallResult,
    SearchMode,
    SearchScope,
)
from agent_memory.features.log.model.events import EventRole
from agent_memory.features.memories.model.memories import NAMESPACES
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.model.contexts import DEFAULT_TOKENS, MAX_TOKENS
from agent_memory.features.recall.services.reasoning import Conclusion
from agent_memory.interfaces import wire
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.backend import SearchBackend
from agent_memory.interfaces.cli.capture import CommaList, get_caller, join_lists
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.ids import MAX_MILLIS, USER, Millis

F = TypeVar("F", bound=Callable[..., Any])

PLURALS = {
    "events": DocumentKind.EVENT,
    "segments": DocumentKind.SEGMENT,
    "grips": DocumentKind.GRIP,
    "memories": DocumentKind.MEMORY,
    "facts": DocumentKind.FACT,
}
DETAILS = ("minimal", "summary", "full")
EXCERPT = 300
MOST_LISTED = 10_000


class Kinds(click.ParamType[frozenset[DocumentKind]]):
    name = "kinds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[DocumentKind]:
        if isinstance(value, frozenset):
            return value
        names = [name.strip().lower() for name in str(value).split(",")]
        if names == ["all"]:
            return frozenset()
        unknown = [name for name in names if name not in PLURALS]
        if unknown:
            self.fail(f"{unknown[0]!r} is none of {', '.join(PLURALS)}, all", param, ctx)
        return frozenset(PLURALS[name] for name in names)


def search_options(function: F) -> F:
    """What both commands take."""
    options = [
        click.argument("words", metavar="[QUERY]...", nargs=-1),
        click.option(
            "--mode",
            type=click.Choice([mode.value for mode in SearchMode]),
            default=SearchMode.HYBRID.value,
            show_default=True,
            help="By words and meaning, by meaning alone, or by words alone.",
        ),
        click.option(
            "-l",
            "--limit",
            type=click.IntRange(1),
            help=f"Most results; default {DEFAULT_LIMIT}, and all where no query is given.",
        ),
        click.option(
            "--since", metavar="TIME", help="From: a date, a time, or words: 'last week'."
        ),
        click.option("--until", metavar="TIME", help="To, likewise; the day given is included."),
        click.option("--project", help="Only of this project."),
        click.option("--session", help="Only of this session."),
        click.option("--agent", help="Only of this agent."),
        click.option(
            "--role",
            type=click.Choice([role.name.lower() for role in EventRole]),
            help="Only what this role said.",
        ),
        click.option("--namespace", type=click.Choice(NAMESPACES), help="Only this namespace."),
        click.option(
            "--domain",
            default="all",
            show_default=True,
            help="project, user, org, or one by its name: project:my-app. For `memory recall` the"
            " project is that of this folder.",
        ),
        click.option(
            "--tags", type=CommaList(), multiple=True, help="Only with all of these tags."
        ),
        click.option("--spec", help="Only of this spec."),
        click.option(
            "--min-similarity",
            type=click.FloatRange(0, 1),
            default=0.0,
            help="Only with at least this score.",
        ),
        click.option("--include-archived", is_flag=True, help="Also what was archived."),
        click.option(
            "--detail",
            type=click.Choice(DETAILS),
            default="summary",
            show_default=True,
            help="How much to tell of each; full says what made its score.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """As they came."""

    words: tuple[str, ...]
    mode: str
    limit: int | None
    since: str | None
    until: str | None
    project: str | None
    session: str | None
    agent: str | None
    role: str | None
    namespace: str | None
    domain: str
    tags: tuple[tuple[str, ...], ...]
    spec: str | None
    min_similarity: float
    include_archived: bool
    detail: str

    def build_query(self, kinds: frozenset[DocumentKind], searching: SearchBackend) -> Query:
        return Query(
            text=" ".join(self.words),
            mode=SearchMode(self.mode),
            limit=self.limit or 0,
            min_score=self.min_similarity,
            scope=SearchScope(
                kinds=kinds,
                project=self.project or "",
                session=self.session or "",
                agent=self.agent or "",
                role=self.role or "",
                namespace=self.namespace or "",
                domains=frozenset(() if self.domain == "all" else {self.domain}),
                spec=self.spec or "",
                archived=self.include_archived,
                tags=frozenset(join_lists(self.tags)),
                since=searching.moments(self.since)[0] if self.since else Millis(0),
                until=searching.moments(self.until)[1] if self.until else Millis(MAX_MILLIS),
            ),
        )


@click.command(
    cls=Command,
    examples=(
        'memory recall "database architecture decisions"',
        'memory recall "auth" --namespace decisions --domain project',
        'memory recall "why did the release fail" --in events,segments --since "last month"',
        "memory recall --namespace decisions --format json | jq -r '.results[].uri'",
    ),
)
@search_options
@click.option(
    "--in",
    "kinds",
    type=Kinds(),
    default="memories",
    show_default=True,
    help=f"Where to look: {', '.join(PLURALS)}, several with commas, or all.",
)
@click.option("--reason", metavar="QUESTION", help="Have an LLM answer from what is found.")
@invocation
def recall(
    run: Invocation, /, kinds: frozenset[DocumentKind], reason: str | None, **options: Any
) -> None:
    """Find what was said, decided and learned.

    Without a query, or with "all", everything is listed that the filters allow, newest first.
    """
    services, chosen = run.backend.require_services(), SearchOptions(**options)
    if chosen.domain not in ("all", USER):
        chosen = replace(
            chosen, domain=services.workplaces.resolve_domain(chosen.domain, get_caller(run))
        )
    query = chosen.build_query(kinds, services.recall)
    if reason is None:
        show_answer(run, run_search(services.recall, query), kinds, chosen.detail)
        return
    question = " ".join((reason, *chosen.words))
    concluded = services.reasoning.conclude(replace(query, text=question))
    if concluded.found.warning:
        run.terminal.warn(f"warning: {concluded.found.warning}\n")
    run.show(
        wire.reasoning_json(concluded, chosen.detail),
        lambda: "\n".join(_render_conclusion(concluded)),
        essential=rendering.plain(concluded.answer),
        page=True,
    )


def _render_conclusion(concluded: Conclusion) -> Iterator[str]:
    yield rendering.plain(concluded.answer)
    if concluded.dates:
        yield ""
        yield from (f"({rendering.plain(each)})" for each in concluded.dates)
    if concluded.sources:
        yield ""
        yield "Sources:"
    for number, hit in enumerate(concluded.sources, 1):
        day = rendering.moment(hit.document.at_ms)[:10]
        yield f"[{number}] {day}  {rendering.plain(wire.format_summary(hit.document))}"
        yield f"    {rendering.plain(hit.uri or hit.document.id)}"


@click.command(
    cls=Command,
    examples=(
        'memory-daemon query search "why did the release fail"',
        'memory-daemon query search "retry budget" --kinds events --mode bm25 --detail full',
        'memory-daemon query -e http://127.0.0.1:50051 search "retry budget"',
    ),
)
@search_options
@click.option(
    "--kinds",
    type=Kinds(),
    default="all",
    show_default=True,
    help=f"What to look for: {', '.join(PLURALS)}, several with commas, or all.",
)
@invocation
@click.pass_context
def search(
    ctx: click.Context, run: Invocation, /, kinds: frozenset[DocumentKind], **options: Any
) -> None:
    """Search everything that was recorded."""
    chosen = SearchOptions(**options)
    with _open_search(run, ctx.meta["endpoint"]) as searching:
        answer = run_search(searching, chosen.build_query(kinds, searching))
    show_answer(run, answer, kinds, chosen.detail)


@click.command(
    cls=Command,
    examples=(
        "memory context --project my-app --branch feature/auth",
        'memory context "how do we retry failed jobs" --project my-app --tokens 1000',
        "memory context --file src/jobs/retry.py --project my-app --format json",
    ),
)
@click.argument("prompt", nargs=-1)
@click.option("--project", default="", help="The project that is worked on.")
@click.option("--branch", default="", help="The branch that is worked on.")
@click.option("--file", default="", metavar="PATH", help="The file that is worked on.")
@click.option(
    "--tokens",
    type=click.IntRange(1, MAX_TOKENS),
    default=DEFAULT_TOKENS,
    show_default=True,
    help="The most that the context may take.",
)
@invocation
def context(
    run: Invocation, prompt: tuple[str, ...], project: str, branch: str, file: str, tokens: int
) -> None:
    """Show what an agent would be given of the memory, as XML within a budget of tokens."""
    wanted = contexts.ContextRequest(
        project=project, branch=branch, prompt=" ".join(prompt), file=file, tokens=tokens
    )
    built = run.backend.require_services().context.build(wanted)
    run.show(wire.context_json(built), lambda: rendering.plain(built.text), essential=built.text)


@contextmanager
def _open_search(run: Invocation, endpoint: str | None) -> Iterator[SearchBackend]:
    if endpoint is None:
        yield run.backend.require_services().recall
    else:
        with run.backend.connect_remote(
            endpoint, run.terminal.call.environ.get("MEMORY_KEY")
        ) as remote:
            yield remote


def run_search(searching: SearchBackend, query: Query) -> RecallResult:
    """The answer, page by page where more is wanted than a page holds."""
    if query.is_listing:
        return _list_all(searching, query)
    most = query.limit or DEFAULT_LIMIT
    hits: list[Hit] = []
    offset = 0
    while True:
        left = min(MAX_LIMIT, most - len(hits))
        answer = searching.search(replace(query, limit=left, offset=offset))
        hits += answer.hits
        if answer.next is None or len(hits) >= most:
            return replace(answer, hits=tuple(hits))
        offset = answer.next


def _list_all(searching: SearchBackend, query: Query) -> RecallResult:
    """Everything in scope. A page begins at the moment of the last hit, so that none has to count
    all that were before it."""
    most = min(query.limit or MOST_LISTED, MOST_LISTED)
    first = answer = searching.search(replace(query, limit=min(MAX_LIMIT, most)))
    hits = list(answer.hits)
    while answer.next is not None and answer.hits and len(hits) < most:
        last = hits[-1].document.at_ms
        page = replace(
            query,
            limit=min(MAX_LIMIT, most - len(hits)),
            offset=sum(hit.document.at_ms == last for hit in hits),
            scope=replace(query.scope, until=last),
        )
        answer = searching.search(page)
        hits += answer.hits
    warning = first.warning
    if answer.next is not None and not query.limit:
        warning = f"the newest {len(hits):,} are shown: narrow the time range to go further back"
    return replace(first, hits=tuple(hits), warning=warning)


def show_answer(
    run: Invocation, answer: RecallResult, kinds: frozenset[DocumentKind], detail: str
) -> None:
    if answer.warning:
        run.terminal.warn(f"warning: {answer.warning}\n")
    run.show(
        wire.answer_json(answer, detail, whole=True),
        lambda: _as_text(answer, kinds, detail),
        markdown=lambda: _as_markdown(answer),
        essential="\n".join(hit.uri or hit.document.id for hit in answer.hits),
        page=True,
    )


def _as_text(answer: RecallResult, kinds: frozenset[DocumentKind], detail: str) -> str:
    memories = kinds == frozenset({DocumentKind.MEMORY})
    what = "memories" if memories else "results"
    if not answer.hits:
        hint = " Search what was said with --in events,segments." if memories else ""
        return f"Found no {what}.{hint}"
    count = len(answer.hits)
    of = f" of {answer.total}" if answer.total > count else ""
    one = {"memories": "memory", "results": "result"}[what]
    lines = [f"Found {count}{of} {one if answer.total == 1 else what}:"]
    for number, hit in enumerate(answer.hits, 1):
        lines += ["", *_hit_lines(number, hit, detail)]
    return "\n".join(lines)


def _hit_lines(number: int, hit: Hit, detail: str) -> Iterator[str]:
    document = hit.document
    label = wire.format_document_id(document)
    if document.kind not in (DocumentKind.MEMORY, DocumentKind.GRIP, DocumentKind.SEGMENT):
        label = f"{document.kind} {label}"
    score = f" ({hit.score:.2f} similarity)" if hit.parts else ""
    yield f"[{number}] {rendering.plain(label)}{score}"
    yield f"    {rendering.excerpt(_summarize_document(document), EXCERPT)}"
    if detail == "minimal":
        return
    yield f"    {' | '.join(_about(document))}"
    if document.title and document.kind is DocumentKind.GRIP:
        yield f'    "{rendering.excerpt(document.text, EXCERPT)}"'
    for name, value in (
        ("URI", hit.uri),
        ("Event", "" if document.kind is DocumentKind.EVENT else hit.event_id),
        ("To event", hit.last_event_id if hit.last_event_id != hit.event_id else ""),
        ("Grip", "" if document.kind is DocumentKind.GRIP else hit.grip_id),
        ("Segment", "" if document.kind is DocumentKind.SEGMENT else hit.node_id),
    ):
        if value:
            yield f"    {name}: {rendering.plain(value)}"
    if detail == "full":
        yield f"    Score: {', '.join(f'{name} {part:.3f}' for name, part in hit.parts.items())}"
        yield from (f"    > {rendering.plain(line)}" for line in document.text.splitlines())
        if hit.truncated:
            yield f"    {_cut_note(hit)}"


def _about(document: Document) -> Iterator[str]:
    if document.kind is DocumentKind.MEMORY:
        yield f"Domain: {rendering.plain(document.domain.partition(':')[0])}"
    else:
        yield rendering.moment(document.at_ms)
    for name, value in (
        ("", rendering.plain(document.speaker or document.role)),
        ("Session: ", rendering.plain(document.session)),
        (
            "Project: ",
            "" if document.kind is DocumentKind.MEMORY else rendering.plain(document.project),
        ),
        ("Tool: ", rendering.plain(document.tool)),
        ("Tags: ", ", ".join(sorted(rendering.plain(tag) for tag in document.tags))),
    ):
        if value:
            yield f"{name}{value}"


def _as_markdown(answer: RecallResult) -> str:
    parts = []
    for hit in answer.hits:
        document = hit.document
        head = rendering.plain(wire.format_summary(document))
        score = [f"Score: {hit.score:.2f}"] if hit.parts else []  # none where all are listed
        about = " | ".join([*_about(document), *score])
        where = hit.uri or document.id
        said = rendering.plain(document.text)
        if hit.truncated:
            said += f"\n\n{_cut_note(hit)}"
        parts.append(f"## {head}\n\n{about}\n\n`{rendering.plain(where)}`\n\n{said}\n")
    return "\n".join(parts)


def _cut_note(hit: Hit) -> str:
    """Another daemon has sent only the beginning."""
    command = rendering.plain(wire.build_show_command(hit.document))
    return f"[cut; all of it, where it is kept: {command}]"


def _summarize_document(document: Document) -> str:
    if document.kind is DocumentKind.FACT:  # its name alone says nothing
        return f"{document.title}: {document.text}"
    return document.title or document.text
