"""`memory-daemon query`: read events and the table of contents."""

import click
import msgspec
from msgspec.structs import replace

from agent_memory.features.log.operations import EventListing, EventRange, list_events
from agent_memory.interfaces.cli import query_toc, rendering
from agent_memory.interfaces.cli.commands import Group, Invocation, endpoint_option, invocation
from agent_memory.interfaces.cli.filters import limit_option, range_options, resolve_range
from agent_memory.interfaces.cli.recall import search
from agent_memory.kernel.ids import MAX_MILLIS

EXCERPT = 200


@click.group(
    cls=Group,
    examples=(
        "memory-daemon query tree --from 2026-03-02 --to 2026-03-08",
        "memory-daemon query events --from 0 --to 9999999999999 -l 10",
        'memory-daemon query -e http://127.0.0.1:50051 search "retry policy"',
    ),
)
@endpoint_option
def query() -> None:
    """Read events and the table of contents."""


@query.command(
    examples=(
        "memory-daemon query events --since yesterday",
        "memory-daemon query events --from '12 Feb' --to yesterday",
        "memory-daemon query events --from 1738278000000 --to 1738281600000",
        "memory-daemon query events --from 0 --to 9999999999999 -l 5 --format json",
    )
)
@range_options
@limit_option(50, help="Show at most this many.")
@click.option("-t", "--token", help="Token of the next page, from the page before.")
@click.option("--full", is_flag=True, help="Show whole texts, not only the beginning.")
@invocation
def events(
    run: Invocation,
    since: str | None,
    until: str | None,
    limit: int,
    token: str | None,
    full: bool,
) -> None:
    """Show the events of a time range, the oldest first."""
    start, end = resolve_range(run, since, until)
    request = EventRange(
        from_timestamp_ms=start, to_timestamp_ms=end, limit=limit, continuation_token=token
    )
    page = run.call(list_events, request)
    while page.has_more and len(page.events) < limit:  # more than one page may have
        left = limit - len(page.events)
        rest = replace(request, limit=left, continuation_token=page.continuation_token)
        more = run.call(list_events, rest)
        page = replace(more, events=[*page.events, *more.events])
    run.show(
        msgspec.to_builtins(page), lambda: _events_text(page, start, end, full=full), page=True
    )


def _events_text(page: EventListing, start: int, end: int, *, full: bool) -> str:
    on_screen = rendering.is_on_screen()
    lines = [_describe_range(start, end) if on_screen else f"Events ({start} - {end}):"]
    for number, event in enumerate(page.events, 1):
        at = rendering.format_zoned(event.timestamp_ms)
        lines.append(f"  {number}. {event.event_id} [{event.role.upper()}] {at}")
        if full:
            lines += [f"     {rendering.plain(line)}" for line in event.text.splitlines()]
        elif event.text:
            lines.append(f'     "{rendering.excerpt(event.text, EXCERPT)}"')
    more = "" if on_screen else f" (has_more: {'true' if page.has_more else 'false'})"
    lines += ["", f"Total: {rendering.count(len(page.events), 'event')}{more}"]
    if page.continuation_token:
        lines.append(f"Next page: --token {page.continuation_token}")
    return "\n".join(lines)


def _describe_range(start: int, end: int) -> str:
    """Return the heading of events for people: a side without a limit is not a date."""
    if end >= MAX_MILLIS:
        return f"Events since {rendering.format_zoned(start)}:" if start else "All events:"
    if not start:
        return f"Events until {rendering.format_zoned(end)}:"
    return f"Events from {rendering.format_span(start, end)}:"


query_toc.register(query)
query.add_command(search)
