"""`memory injections` and `memory why`: what hooks gave to agents, and where it comes from."""

from collections.abc import Iterator, Sequence

import click
import msgspec
from rich.text import Text

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.injections.model.injections import KEPT_DAYS, DayCount
from agent_memory.features.injections.operations import (
    ExplanationAnswer,
    GivenRecord,
    InjectionAnswer,
    LedgerFilter,
    list_injections,
)
from agent_memory.features.injections.services.provenance import (
    Explanation,
    Provenance,
    RecordOrigin,
)
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.toc.model import short_ids
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.capture import describe_author, resolve_location
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.cli.filters import (
    check_project,
    limit_option,
    project_option,
    range_options,
    resolve_project,
    resolve_range,
    resolve_session,
    session_option,
)
from agent_memory.interfaces.cli.paragraphs import Paragraphs
from agent_memory.interfaces.cli.show import format_speaker
from agent_memory.interfaces.cli.team_records import describe_origin, find_team_record
from agent_memory.kernel.errors import FeatureUnavailable, NotFound

NO_RECORDS = "no records: a suggestion, guidance, or all forgotten since"
TITLE_CHARS = 200
WORDS_CHARS = 800  # of each event that a record was made from
NOTHING_YET = (
    "No hook has given anything to an agent yet. `memory install AGENT` lets an agent get context"
    " from memory."
)
_TIME = "cyan"
_ID = "yellow"


@click.command(
    cls=Command,
    examples=(
        "memory injections",
        "memory injections --session 7c1f",
        "memory injections --project my-app --since yesterday",
        "memory injections --format json | jq '[.injections[].tokens] | add'",
    ),
)
@limit_option(20, help="Most injections.")
@session_option
@project_option
@range_options
@invocation
def injections(
    run: Invocation, limit: int, session_id: str, project: str, since: str | None, until: str | None
) -> None:
    """List what hooks gave to agents, newest first.

    Each has the time, the hook, the agent, the project, the tokens and the session, then the
    memories and other records in the text. `memory show` opens their ids, `memory why` explains
    them. What is forgotten since is not listed. What an agent asks for itself, as by MCP, is no
    injection.
    """
    start, end = resolve_range(run, since, until)
    project = resolve_project(run, project)
    asked = LedgerFilter(
        session_id=resolve_session(run, session_id),
        project=project,
        from_timestamp_ms=start,
        to_timestamp_ms=end,
        limit=limit,
    )
    answer = run.call(list_injections, asked)
    given = answer.injections
    if not given:
        check_project(run, project)
    if answer.continuation_token is not None:
        run.terminal.warn(f"note: there are more; -n {2 * limit} shows them\n")
    run.show(
        {"injections": msgspec.to_builtins(given)},
        lambda: _render_entries(run, given) or _explain_nothing(run),
        essential="\n".join(dict.fromkeys(item.uri for each in given for item in each.items)),
        page=True,
    )


@click.command(
    cls=Command,
    examples=(
        "memory why abc123",
        "memory why decisions:abc123def456:0 --format json",
        "memory why 01KH7AFAJ2MPHT    # an id of `memory injections` or `memory today`",
    ),
)
@click.argument("name", metavar="URI|ID")
@limit_option(10, help="Most times to list.")
@invocation
def why(run: Invocation, name: str, limit: int) -> None:
    """Explain where a record comes from and who was given it.

    URI|ID is as in `memory show`: a URI, an id, or at least four characters of the beginning of
    an id. For a memory you see when, by whom, where and how it was captured, from which words, and
    what it supersedes. Then come the sessions that a hook gave it to. A segment or a session counts
    as given if a part of it was.
    """
    try:
        explained = run.services[Provenance].explain(name, resolve_location(run), limit=limit)
    except NotFound:
        found = find_team_record(run, name, 0)
        if found is None:
            raise
        raise FeatureUnavailable(
            f"this is a record of {describe_origin(run, found)}: `memory why` explains only what"
            " is on this machine. `memory show` opens it"
        ) from None
    run.show(
        msgspec.to_builtins(ExplanationAnswer.from_explanation(explained)),
        lambda: "\n".join(_explain(explained)),
        essential="\n".join(dict.fromkeys(entry.session_id for entry in explained.given)),
        page=True,
    )


def describe_days(days: Sequence[DayCount]) -> str:
    """Describe what was injected today, and on all of these days, today first."""
    total = sum(day.injections for day in days)
    if not total:
        return f"nothing in {len(days)} days"
    today = days[0]
    parts = [
        f"today {_describe_count(today)}" if today.injections else "nothing today",
        f"{len(days)} days {total:,} ({rendering.count(sum(day.tokens for day in days), 'token')})",
    ]
    return "; ".join(parts)


def _describe_count(count: DayCount) -> str:
    sessions = rendering.count(count.sessions, "session")
    return f"{count.injections:,} ({rendering.count(count.tokens, 'token')}, {sessions})"


def _render_entries(run: Invocation, entries: Sequence[InjectionAnswer]) -> str:
    page = Paragraphs(run.terminal)
    for entry in entries:
        page.add_blank()
        page.add(Text(_describe_entry(entry)), head=_format_time(entry))
        page.add(Text(rendering.plain(entry.session_id), _ID), head=Text("session "), indent=2)
        if not entry.items:
            page.add(Text(NO_RECORDS, "dim"), indent=2)
        for item in entry.items:
            title = rendering.excerpt(item.title, TITLE_CHARS)
            page.add(Text(title), head=Text(f"{_abbreviate(item)}  ", _ID), indent=2)
    return page.render()


def _format_time(entry: InjectionAnswer) -> Text:
    shown = rendering.ago if rendering.is_on_screen() else rendering.format_zoned
    return Text(f"{shown(entry.timestamp_ms)}  ", _TIME)


def _describe_entry(entry: InjectionAnswer) -> str:
    tokens = rendering.count(entry.tokens, "token")
    at = rendering.format_zoned(entry.timestamp_ms) if rendering.is_on_screen() else ""
    words = (entry.hook, entry.agent, entry.project, tokens, rendering.join_words(at))
    return rendering.plain("  ".join(filter(None, words)))


def _abbreviate(item: GivenRecord) -> str:
    """Return the shortest name that `memory show` opens for sure."""
    kind, name = documents.parse_document_uri(item.uri)
    if kind is DocumentKind.MEMORY:
        reference = memories.parse_urn(item.uri)
        return f"{reference.namespace}:{reference.hex}:{reference.index}"
    return rendering.plain(short_ids.abbreviate(name))


def _explain_nothing(run: Invocation) -> str:
    newest = run.call(list_injections, LedgerFilter(limit=1)).injections
    if not newest:
        return NOTHING_YET
    at = rendering.format_zoned(newest[0].timestamp_ms)
    return f"No injection passes these filters. The last of all was {at}."


def _explain(explained: Explanation) -> Iterator[str]:
    origin = explained.origin
    yield rendering.plain(origin.uri if origin.memory is None else origin.memory.id)
    yield rendering.excerpt(origin.title, TITLE_CHARS)
    yield ""
    yield from (
        f"{name}: {rendering.plain(value)}" for name, value in _list_fields(origin) if value
    )
    for event in origin.words:
        yield ""
        yield f"> {format_speaker(event)}"
        text = event.text if len(event.text) <= WORDS_CHARS else event.text[:WORDS_CHARS] + " ..."
        yield from (f">   {line}".rstrip() for line in rendering.plain(text).splitlines())
    yield ""
    yield from _describe_given(explained)


def _list_fields(origin: RecordOrigin) -> Iterator[tuple[str, str]]:
    at, memory = rendering.format_with_age(origin.at_ms), origin.memory
    if memory is None:
        yield "Kind", origin.kind
        yield "Time", at
        yield "Project", origin.project
    else:
        yield "Captured", f"{at}, {'automatically' if origin.is_automatic else 'on request'}"
        yield "By", describe_author(memory)
        yield "Domain", memory.domain
        yield "Status", memory.status.value
        yield "Commit", memory.commit
        for each in origin.supersedes:
            yield "Supersedes", _name_memory(each)
        if origin.superseded_by is not None:
            yield "Superseded by", _name_memory(origin.superseded_by)
        if memory.event_id:
            event = documents.format_uri(documents.EVENTS, memory.event_id)
            yield "Event", event if origin.words else f"{event} (forgotten)"
    yield "Session", origin.session_id
    yield "URI", origin.uri


def _advise(origin: RecordOrigin) -> str:
    """Say when hooks would give a record that they have not given."""
    if origin.kind == "session":
        name = rendering.plain(origin.session_id)
        return f"`memory injections --session {name}` lists what was given to it."
    if origin.memory is not None and origin.memory.status is MemoryStatus.ARCHIVED:
        return "It is archived: hooks do not give it, and `memory recall` hides it."
    return (
        "Hooks give a record when a session starts in its project, or when a prompt or a file is"
        " about it. `memory context` shows what a session would get now."
    )


def _name_memory(memory: Memory) -> str:
    return f"{memory.id}  {memory.summary}"


def _describe_given(explained: Explanation) -> Iterator[str]:
    given, count = explained.given, explained.count
    if not count:
        yield f"Given: never in the last {KEPT_DAYS} days."
        yield _advise(explained.origin)
        return
    times = "once" if count == 1 else f"{count:,} times"
    yield f"Given: {times}, last {rendering.format_zoned(given[0].at_ms)}"
    for entry in given:
        words = (entry.hook, entry.agent, entry.project, f"session {entry.session_id}")
        at = rendering.format_zoned(entry.at_ms)
        yield f"  {at}  {rendering.plain('  '.join(filter(None, words)))}"
    if count > len(given):
        yield f"  and {count - len(given):,} more: -n {count} shows them"
