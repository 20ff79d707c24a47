"""`memory-daemon query root|node|browse|expand|tree`: the table of contents."""

from collections.abc import Sequence
from datetime import date, datetime

import click
import msgspec
from rich.text import Text
from rich.tree import Tree

from agent_memory.features.log.model.tokens import parse_offset
from agent_memory.features.log.operations import LoggedEvent
from agent_memory.features.toc.model import periods, short_ids
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.operations import (
    ChildrenRequest,
    ContentsNode,
    ExpandedGrip,
    GripRequest,
    LevelName,
    NodeBullet,
    NodeChildren,
    NodeRequest,
    TreeRequest,
    expand_grip,
    list_children,
    list_versions,
    list_years,
    read_node,
    read_tree,
)
from agent_memory.features.toc.services.contents import DEFAULT_CHILDREN, MAX_CHILDREN
from agent_memory.interfaces.cli import bullets, rendering
from agent_memory.interfaces.cli.commands import Choice, Group, Invocation, invocation
from agent_memory.interfaces.cli.filters import (
    check_project,
    limit_option,
    project_option,
    range_options,
    resolve_project,
    resolve_range,
)
from agent_memory.interfaces.cli.rich_console import build_console
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.kernel.ids import Millis

EXCERPT = 200
_BULLET = 1_000
_SUMMARY = 1_000
_UNWRAPPED = 100_000  # columns: in a pipe, each bullet is one line


def register(query: click.Group) -> None:
    for command in (root, node, browse, expand, tree):
        query.add_command(command)


_commands = Group("query")


@_commands.command(examples=("memory-daemon query root",))
@invocation
def root(run: Invocation) -> None:
    """List the years of the table of contents, newest first."""
    years = run.call(list_years)
    run.show(
        msgspec.to_builtins(years),
        lambda: "\n".join(
            [
                "TOC Root Nodes:",
                *(
                    f'  - {year.node_id} "{year.title}" ({_count_children(year)})'
                    for year in years.nodes
                ),
            ]
        ),
    )


@_commands.command(
    examples=(
        "memory-daemon query node toc:year:2026",
        "memory-daemon query node toc:day:2026-01-30 --history",
        "memory-daemon query node toc:day:2026-01-30 --version 3",
    )
)
@click.argument("node_id")
@click.option("--history", is_flag=True, help="List its earlier versions.")
@click.option("--version", type=int, help="Show this version.")
@invocation
def node(run: Invocation, node_id: str, history: bool, version: int | None) -> None:
    """Show one node: its summary, bullets and keywords."""
    request = NodeRequest(node_id=node_id, version=version)
    if history or version is not None:
        _not_remote(run)
    if history:
        _show_history(run, run.call(list_versions, request).nodes)
        return
    shown = run.call(read_node, request)
    run.show(msgspec.to_builtins(shown), lambda: _node_text(shown))


@_commands.command(
    examples=(
        "memory-daemon query browse toc:year:2026 -l 5",
        "memory-daemon query browse toc:day:2026-01-30",
    )
)
@click.argument("parent_id")
@limit_option(20, help="Most children.")
@click.option("-t", "--token", default="0", help="The continuation token of the page before.")
@invocation
def browse(run: Invocation, parent_id: str, limit: int, token: str) -> None:
    """List the children of a node, by time."""
    offset = parse_offset(token)
    parent = run.call(read_node, NodeRequest(node_id=parent_id))
    page = run.call(
        list_children, ChildrenRequest(parent_id=parent_id, limit=limit, continuation_token=token)
    )
    shown = msgspec.to_builtins(page)
    del shown["next_offset"]  # the token says it
    run.show(shown, lambda: _browse_text(parent, page, offset, limit), page=True)


@_commands.command(
    examples=("memory-daemon query expand grip:1738281600000:01JK... --before 5 --after 5",)
)
@click.argument("grip_id")
@click.option("--before", type=int, default=3, show_default=True, help="Events before the excerpt.")
@click.option("--after", type=int, default=3, show_default=True, help="Events after the excerpt.")
@invocation
def expand(run: Invocation, grip_id: str, before: int, after: int) -> None:
    """Show the conversation around a grip of a bullet."""
    request = GripRequest(grip_id=grip_id, events_before=before, events_after=after)
    expansion = run.call(expand_grip, request)
    run.show(msgspec.to_builtins(expansion), lambda: _expansion_text(expansion), page=True)


@_commands.command(
    examples=(
        "memory-daemon query tree",
        "memory-daemon query tree --since 2026-03-01 --until 2026-03-31",
        "memory-daemon query tree --project my-app --depth day",
    )
)
@range_options
@project_option
@click.option(
    "--depth",
    type=Choice([level.name.lower() for level in Level]),
    default=Level.SEGMENT.name.lower(),
    show_default=True,
    help="The lowest level to show.",
)
@click.option("--bullets/--no-bullets", "with_bullets", default=True, help="With the bullets.")
@invocation
def tree(
    run: Invocation,
    since: str | None,
    until: str | None,
    project: str,
    depth: LevelName,
    with_bullets: bool,
) -> None:
    """Print the table of contents as a tree.

    Every line ends with an id that `memory show` opens. Days, weeks, months and years are in UTC.
    The times of segments are those of `cli.timezone`.
    """
    _not_remote(run)
    project = resolve_project(run, project)
    start, end = resolve_range(run, since, until)
    found = run.call(
        read_tree,
        TreeRequest(
            start=find_day(run, start) if since else None,
            end=find_day(run, end) if until else None,
            project=project,
            depth=depth,
        ),
    )
    if not found.nodes:
        check_project(run, project)
    run.show(
        msgspec.to_builtins(found),
        lambda: _tree_text(run.terminal, found.nodes, with_bullets=with_bullets),
        page=True,
    )


def _not_remote(run: Invocation) -> None:
    if run.endpoint is not None:
        raise click.UsageError("this works only with the local daemon: leave --endpoint out")


def _node_text(node: ContentsNode) -> str:
    lines = [
        f"Node: {node.node_id}",
        f"  Title: {rendering.plain(node.title)}",
        f"  Level: {node.level.title()}",
        f"  Summary: {rendering.plain(node.summary)}",
        f"  Keywords: {rendering.plain(', '.join(node.keywords))}",
        f"  Children: {len(node.child_node_ids)}",
        f"  Time Range: {format_range(node.level, node.start_time_ms, node.end_time_ms)}",
        f"  Version: {node.version}",
    ]
    if node.bullets:
        lines.append("  Bullets:")
    for bullet in node.bullets:
        lines.append(
            f"    - {bullets.mark_kind(bullets.parse_kind(bullet.kind), bullet.text)}"
            f"{rendering.plain(bullet.text)}"
        )
        lines += [f"      {grip_id}" for grip_id in bullet.grip_ids]
    return "\n".join(lines)


def _show_history(run: Invocation, versions: Sequence[ContentsNode]) -> None:
    run.show(
        {"versions": msgspec.to_builtins(versions)},
        lambda: "\n".join(
            [
                f"History of {versions[0].node_id}:",
                *(
                    f"  v{old.version}  {rendering.format_zoned(old.created_at_ms or 0)}"
                    f"  {rendering.count(len(old.bullets), 'bullet')}"
                    f"  {rendering.excerpt(old.title, 60)}"
                    for old in versions
                ),
            ]
        ),
        page=True,
    )


def _browse_text(parent: ContentsNode, page: NodeChildren, offset: int, limit: int) -> str:
    lines = [f"Children of {parent.node_id}:"]
    lines += [
        f'  {number}. {child.node_id} "{rendering.plain(child.title)}"'
        for number, child in enumerate(page.children, offset + 1)
    ]
    size = min(limit or DEFAULT_CHILDREN, MAX_CHILDREN)
    pages = max(1, -(-len(parent.child_node_ids) // size))
    more = "false" if not page.has_more else f'true, next_token: "{page.continuation_token}"'
    note = f" (has_more: {more})"
    if rendering.is_on_screen():
        note = "" if not page.has_more else f"; the next one: --token {page.continuation_token}"
    lines += ["", f"Page {offset // size + 1} of {pages}{note}"]
    return "\n".join(lines)


def _expansion_text(expansion: ExpandedGrip) -> str:
    grip = expansion.grip
    lines = [
        f"Grip: {grip.grip_id}",
        f'  Excerpt: "{rendering.excerpt(grip.excerpt, EXCERPT)}"',
        f"  Source: {grip.source}",
        f"  Time: {rendering.format_with_age(grip.timestamp_ms)}",
        "",
        "Context:",
    ]
    for title, events in (
        ("BEFORE", expansion.events_before),
        ("EXCERPT", expansion.excerpt_events),
        ("AFTER", expansion.events_after),
    ):
        lines.append(f"  --- {title} ---")
        lines += [_event_line(event) for event in events]
        lines.append("")
    return "\n".join(lines)


def _event_line(event: LoggedEvent) -> str:
    name = rendering.paint(rendering.plain(event.event_id), rendering.ID)
    words = f"[{event.role.upper()}] {rendering.excerpt(event.text, EXCERPT)}"
    return f"  - {name} {words}" if rendering.is_on_screen() else f"  {words}"


def _tree_text(terminal: Terminal, branches: Sequence[ContentsNode], *, with_bullets: bool) -> str:
    if not branches:
        return "Nothing is recorded in this time."
    console = build_console(terminal)
    if not terminal.call.output_is_terminal:
        console.width = _UNWRAPPED
    with console.capture() as captured:
        for branch in branches:
            top = Tree(_label(branch))
            _grow(top, branch, with_bullets=with_bullets)
            console.print(top)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def _grow(stem: Tree, branch: ContentsNode, *, with_bullets: bool) -> None:
    if with_bullets:
        for bullet in branch.bullets:
            if bullet.text.partition(": ")[2] != branch.title:  # "Asked: " and the title
                stem.add(_render_bullet(bullet))
    for child in branch.children or ():
        _grow(stem.add(_label(child)), child, with_bullets=with_bullets)


def _render_bullet(bullet: NodeBullet) -> Text:
    return Text.assemble(
        (
            bullets.mark_kind(bullets.parse_kind(bullet.kind), bullet.text),
            bullets.get_style(bullets.parse_kind(bullet.kind)),
        ),
        rendering.excerpt(bullet.text, _BULLET),
        "  ",
        (bullets.abbreviate_grip(bullet.grip_ids), bullets.ID_STYLE),
    )


_STYLES = {
    "year": "bold magenta",
    "month": "bold blue",
    "week": "blue",
    "day": "green",
}


def _label(node: ContentsNode) -> Text:
    name = (f"  {short_ids.abbreviate(node.node_id)}", bullets.ID_STYLE)
    if node.level == "segment":
        title = rendering.excerpt(node.title, EXCERPT)
        return Text.assemble((f"{_segment_time(node)} ", "cyan"), title, name)
    summary = f"\n{rendering.excerpt(node.summary, _SUMMARY)}" if node.summary else ""
    return Text.assemble((node.title, _STYLES[node.level]), name, summary)


def _segment_time(node: ContentsNode) -> str:
    """Return when a segment begins, with the date if that differs from the UTC day it is under."""
    at, zone = rendering.moment(node.start_time_ms), rendering.format_zone(node.start_time_ms)
    same = at[:10] == periods.find_day(Millis(node.start_time_ms)).first.isoformat()
    return f"{at[11:16] if same else at[:16]} {zone}"


def format_range(level: str, start_ms: int, end_ms: int) -> str:
    if level == "segment":
        return rendering.format_span(start_ms, end_ms)
    first, last = (periods.find_day(Millis(each)).first for each in (start_ms, end_ms))
    return f"{first}" if first == last and rendering.is_on_screen() else f"{first} to {last}"


def _count_children(node: ContentsNode) -> str:
    return rendering.count(len(node.child_node_ids), "child", "children")


def find_day(run: Invocation, at_ms: int) -> date:
    """Return the day of a moment in the user's zone."""
    return datetime.fromtimestamp(at_ms / 1000, run.zone).date()
