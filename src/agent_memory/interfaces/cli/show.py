"""`memory show`: open anything that was remembered, by its URI or id."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

import click

from agent_memory.features.index.model import documents
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.model.tiers import MemoryUse, Tier
from agent_memory.features.memories.services.editing import MemoryDetails
from agent_memory.features.recall.model.records import OpenedRecord
from agent_memory.features.recall.services.opening import (
    MAX_AROUND,
    Opened,
    OpenedEvent,
    OpenedFact,
    OpenedGrip,
    OpenedNode,
    OpenedSession,
    Opening,
)
from agent_memory.features.toc.model import short_ids, work_figures
from agent_memory.features.toc.model.highlights import Highlight, Work
from agent_memory.features.toc.model.toc import Bullet, TocNode
from agent_memory.features.toc.services.contents import DEFAULT_CONTEXT
from agent_memory.interfaces.cli import bullets, rendering
from agent_memory.interfaces.cli.capture import resolve_location, show_memory
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.cli.query_toc import format_range
from agent_memory.interfaces.cli.team_records import describe_origin, find_team_record
from agent_memory.interfaces.wire.opened import render_opened
from agent_memory.kernel.errors import NotFound

TURN_CHARS = 800  # of each turn around the event


@click.command(
    cls=Command,
    examples=(
        "memory show decisions:abc123def456:0",
        "memory show abc123",
        "memory show subcog://project:my-app/decisions/abc123def456:0 --format json",
        "memory show memory://events/01M45MQ070ANGB9FVYXZ545A8Y --around 10",
        "memory show 01M45MQ0 --around 0 --format quiet",
        "memory show toc:day:2026-01-30",
    ),
)
@click.argument("name", metavar="URI|ID")
@click.option(
    "--around",
    type=click.IntRange(0, MAX_AROUND),
    default=DEFAULT_CONTEXT,
    show_default=True,
    help="Turns to show before and after an event or a grip.",
)
@click.option("--full", is_flag=True, help="Show long turns whole.")
@invocation
def show(run: Invocation, name: str, around: int, full: bool) -> None:
    """Show a memory, event, segment, grip, session or fact.

    URI|ID is a URI or an id from `memory recall`, or the beginning of an id, at least four
    characters of it. A memory is named by its id, its URI, the end of its URI (abc123def456:0)
    or the beginning of the hash in it.

    An event comes with the turns around it, a session with its segments.
    """
    try:
        opened = run.services[Opening].open(name, resolve_location(run), around=around)
    except NotFound:
        team = _open_from_team(run, name, around)
        if team is None:
            raise
        opened = team
    if isinstance(opened, MemoryDetails):
        show_memory(run, opened)
        return
    run.show(
        render_opened(opened),
        lambda: "\n".join(_as_text(_build_page(opened), full)),
        markdown=lambda: "\n".join(_as_markdown(_build_page(opened), full)),
        essential=rendering.plain(_build_page(opened).essential),
        page=True,
    )


def _open_from_team(run: Invocation, name: str, around: int) -> MemoryDetails | Opened | None:
    """Open a record of the team's server; None if there is none."""
    found = find_team_record(run, name, around)
    if found is None:
        return None
    run.terminal.warn(f"note: from the server of your team: {describe_origin(run, found)}\n")
    match found.record:
        case Event():
            return OpenedEvent(event=found.record, before=found.before, after=found.after)
        case Fact():
            return OpenedFact(fact=found.record, history=())
        case Memory():
            return MemoryDetails(memory=found.record, use=MemoryUse(), tier=Tier.WARM)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn to show. `marked` turns are those that were asked for: they are never cut."""

    event: Event
    marked: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """What to show of a record, in any format."""

    title: str
    essential: str
    fields: list[tuple[str, str]]
    text: str = ""
    lists: list[tuple[str, list[str]]] = field(default_factory=list)  # with their headings
    turns: list[_Turn] = field(default_factory=list)


def _build_page(opened: Opened) -> _Page:
    match opened:
        case OpenedEvent():
            return _event_page(opened)
        case OpenedNode():
            return _node_page(opened)
        case OpenedGrip():
            return _grip_page(opened)
        case OpenedSession():
            return _session_page(opened)
        case OpenedFact():
            return _fact_page(opened)
        case OpenedRecord():
            return _record_page(opened)
        case _:
            assert_never(opened)


def _event_page(opened: OpenedEvent) -> _Page:
    event = opened.event
    return _Page(
        title=f"Event {event.event_id}",
        essential=event.text,
        fields=[
            ("Session", event.session_id),
            ("Project", event.metadata.get("project", "")),
            ("Agent", event.metadata.get("agent", "")),
            ("URI", opened.uri),
        ],
        turns=[
            *map(_Turn, opened.before),
            _Turn(event, marked=True),
            *map(_Turn, opened.after),
        ],
    )


def _node_page(opened: OpenedNode) -> _Page:
    node = opened.node
    figures = _describe_work(node.work)
    return _Page(
        title=node.title,
        essential=node.summary or node.title,
        fields=[
            ("Level", node.level.name.title()),
            ("Time", format_range(node.level.name.lower(), node.start_ms, node.end_ms)),
            ("Session", node.session),
            ("Project", node.project),
            ("Work", figures),
            ("Keywords", ", ".join(node.keywords)),
            ("URI", opened.uri),
        ],
        text=node.summary,
        lists=[
            ("Bullets", [_format_bullet(bullet) for bullet in node.bullets]),
            ("Children", [_outline(child) for child in opened.children]),
        ],
    )


def _grip_page(opened: OpenedGrip) -> _Page:
    grip, expansion = opened.grip, opened.expansion
    return _Page(
        title=f"Grip {grip.grip_id}",
        essential=grip.excerpt,
        fields=[
            ("Time", rendering.format_with_age(grip.at_ms)),
            ("Source", grip.source),
            ("Segment", _name(documents.CONTENTS, grip.node_id)),
            ("URI", opened.uri),
        ],
        text=grip.excerpt,
        turns=[
            *map(_Turn, expansion.before),
            *(_Turn(event, marked=True) for event in expansion.excerpt),
            *map(_Turn, expansion.after),
        ],
    )


def _session_page(opened: OpenedSession) -> _Page:
    said = ((opened.prompt, "First prompt"), (opened.answer, "Last answer"))
    entry = opened.entry
    return _Page(
        title=f"Session {opened.session_id}",
        essential=opened.session_id,
        fields=[
            ("Start", rendering.format_with_age(opened.start_ms)),
            ("End", rendering.format_with_age(opened.end_ms)),
            ("Project", opened.project),
            ("Agent", opened.agent),
            ("Events", f"{opened.events:,}"),
            ("Work", "" if entry is None else _describe_work(replace(entry.work, sessions=0))),
            ("URI", opened.uri),
        ],
        text="" if entry is None else entry.title,
        lists=[
            ("Highlights", [] if entry is None else list(map(_format_bullet, entry.highlights))),
            ("Segments", [_outline(node) for node in opened.segments]),
        ],
        turns=[_Turn(event, label=label) for event, label in said if event is not None],
    )


def _fact_page(opened: OpenedFact) -> _Page:
    fact = opened.fact
    return _Page(
        title=f"Fact {fact.id}",
        essential=fact.value,
        fields=[
            ("Key", fact.key),
            ("Type", fact.fact_type),
            ("Confidence", f"{fact.confidence:.2f}"),
            ("Confirmed", rendering.count(fact.times_confirmed, "time")),
            ("Scope", fact.scope),
            ("Agent", fact.agent_id or ""),
            ("User", fact.user_id or ""),
            ("Since", rendering.format_with_age(fact.valued_ms)),
            ("URI", opened.uri),
        ],
        text=fact.value,
        lists=[
            (
                "Earlier values",
                [
                    f"{former.value} ({rendering.moment(former.since_ms)[:10]} to"
                    f" {rendering.moment(former.until_ms)[:10]})"
                    for former in opened.history
                ],
            )
        ],
    )


def _record_page(opened: OpenedRecord) -> _Page:
    details = {
        name: f"{value:,}" if isinstance(value, int) else value
        for name, value in opened.details.items()
    }
    return _Page(
        title=f"{opened.kind.capitalize()} {opened.uri.rpartition('/')[2]}",
        essential=opened.title,
        fields=[
            ("Time", rendering.format_with_age(opened.at_ms)),
            ("Project", opened.project),
            ("Session", opened.session_id),
            *((name.replace("_", " ").capitalize(), value) for name, value in details.items()),
            ("URI", opened.uri),
        ],
        text=opened.title,
        turns=[_Turn(event, marked=True) for event in opened.words],
    )


def _outline(node: TocNode) -> str:
    return f"{node.title}\n{_name(documents.CONTENTS, node.node_id)}"


def _format_bullet(bullet: Bullet | Highlight) -> str:
    names = [_name(documents.GRIPS, grip) for grip in bullet.grip_ids]
    between = " " if rendering.is_on_screen() else "\n"
    text = f"{bullets.mark_kind(bullet.kind, bullet.text)}{bullet.text}"
    return "\n".join(filter(None, (text, between.join(names))))


def _name(area: str, name: str) -> str:
    """Return what opens a record: a short id on a terminal, a URI in a pipe."""
    if rendering.is_on_screen():
        return short_ids.abbreviate(name)
    return documents.format_uri(area, name)


def _describe_work(work: Work) -> str:
    prompts = rendering.count(work.prompts, "prompt") if work.prompts else ""
    return ", ".join(filter(None, (prompts, work_figures.describe(work))))


def _as_text(page: _Page, full: bool) -> Iterator[str]:
    yield rendering.paint(rendering.plain(page.title), rendering.HEAD)
    yield from (f"{name}: {rendering.plain(value)}" for name, value in page.fields if value)
    if page.text:
        yield ""
        yield rendering.plain(page.text)
    for heading, items in page.lists:
        if items:
            yield ""
            yield rendering.paint(f"{heading}:", rendering.HEAD)
        for item in items:
            lines = rendering.plain(item).splitlines()
            yield "  - " + "\n    ".join(lines)
    for turn in page.turns:
        mark = ">" if turn.marked else " "
        yield ""
        yield f"{mark} {_turn_head(turn)}"
        lines = rendering.plain(_turn_text(turn, full)).splitlines()
        yield from (f"{mark}   {line}".rstrip() for line in lines)


def _as_markdown(page: _Page, full: bool) -> Iterator[str]:
    yield f"# {rendering.plain(page.title)}"
    yield ""
    yield from (f"- {name}: {rendering.plain(value)}" for name, value in page.fields if value)
    if page.text:
        yield ""
        yield rendering.plain(page.text)
    for heading, items in page.lists:
        if items:
            yield f"\n## {heading}\n"
        for item in items:
            yield "- " + "\n  ".join(rendering.plain(item).splitlines())
    for turn in page.turns:
        head = _turn_head(turn)
        yield f"\n## {f'**{head}**' if turn.marked else head}\n"
        yield rendering.plain(_turn_text(turn, full))


def format_speaker(event: Event) -> str:
    """Format the time and the speaker of an event, and the tool of a tool's result."""
    who = event.metadata.get("speaker") or event.role.name.lower()
    tool = event.metadata.get("tool_name") if event.type is EventType.TOOL_RESULT else ""
    words = [rendering.format_zoned(event.at_ms), who, *([tool] if tool else [])]
    return rendering.plain(" ".join(" | ".join(words).split()))


def _turn_head(turn: _Turn) -> str:
    head = f"{format_speaker(turn.event)} | {rendering.plain(turn.event.event_id)}"
    return f"{turn.label}: {head}" if turn.label else head


def _turn_text(turn: _Turn, full: bool) -> str:
    text = turn.event.text
    if not text.strip():
        return f"[{turn.event.type.name.lower().replace('_', ' ')}, without text]"
    if full or turn.marked or len(text) <= TURN_CHARS:
        return text
    left = len(text) - TURN_CHARS
    return f"{text[:TURN_CHARS]}\n[{rendering.count(left, 'more character')}: --full shows all]"
