"""`memory install`: hooks, MCP server and rules in the configuration of agents."""

import difflib
import re
from collections.abc import Iterator
from typing import Any

import click

from agent_memory.features.hooks.model.installations import (
    Agent,
    AgentState,
    ConfigChange,
    InstallResult,
    InstallScope,
    InstallStatus,
    ScopeState,
)
from agent_memory.features.hooks.services.installing import Installing
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Choice, Command, Invocation, invocation

AGENTS = tuple(agent.value for agent in Agent)
SCOPES = (
    click.option(
        "--scope",
        type=Choice([scope.value for scope in InstallScope]),
        help="user: for all your projects (the default); project: for this repository or folder"
        " only.",
    ),
    # The earlier names of --scope. Elsewhere --project takes the name of a project.
    click.option("--user", is_flag=True, hidden=True),
    click.option("--project", is_flag=True, hidden=True),
    click.option("--dry-run", is_flag=True, help="Show the changes as a diff, and change nothing."),
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_STANDINGS = {
    InstallStatus.ABSENT: "not installed",
    InstallStatus.INSTALLED: "installed",
    InstallStatus.OUTDATED: "incomplete: run `memory install {agent} --scope {scope}`",
    InstallStatus.ELSEWHERE: (
        "calls another installation: run `memory install {agent} --scope {scope}` to use this one"
    ),
}


@click.command(
    cls=Command,
    examples=(
        "memory install",
        "memory install claude-code",
        "memory install codex --dry-run",
        "memory install gemini --scope project",
    ),
)
@click.argument("agent", type=Choice(AGENTS), required=False, metavar="[AGENT]")
@SCOPES[0]
@SCOPES[1]
@SCOPES[2]
@SCOPES[3]
@click.option(
    "--mcp/--no-mcp",
    default=True,
    show_default=True,
    help="Also install the MCP server and rules that name its tools, or only the hooks.",
)
@invocation
def install(
    run: Invocation,
    agent: str | None,
    scope: str | None,
    user: bool,
    project: bool,
    dry_run: bool,
    mcp: bool,
) -> None:
    """Connect an agent to this memory: hooks, MCP and rules.

    AGENT is claude-code, codex, gemini, cursor, opencode, copilot, vscode, windsurf, cline, roo,
    zed or aider. Without AGENT, the command lists the agents on this machine and what is installed
    for each.

    The entries are added to the agent's own configuration; the rest of it stays as it is.
    Installing again changes nothing, or repairs the paths of an installation that has moved.
    """
    service = run.services[Installing]
    if agent is None:
        states = service.state(run.caller, mcp=mcp)
        run.show([_state(state) for state in states], lambda: "\n".join(_states(states)))
        return
    chosen = choose_scope(scope, user=user, project=project)
    done = service.install(Agent(agent), chosen, run.caller, mcp=mcp, dry_run=dry_run)
    show_result(run, done, dry_run=dry_run, advice=done.advice)


def choose_scope(scope: str | None, *, user: bool, project: bool) -> InstallScope:
    named = {scope} if scope else set()
    named |= {InstallScope.USER.value} if user else set()
    named |= {InstallScope.PROJECT.value} if project else set()
    if len(named) > 1:
        raise click.UsageError("user and project cannot be combined: choose one --scope")
    return InstallScope(named.pop()) if named else InstallScope.USER


def show_result(run: Invocation, result: InstallResult, *, dry_run: bool, advice: str) -> None:
    run.show(
        {
            "agent": result.agent.value,
            "scope": result.scope.value,
            "dry_run": dry_run,
            "files": list_files(result),
            "folders": list(result.folders),
            "notes": list(result.notes),
            "next": advice if result.changes else "",
        },
        lambda: "\n".join(_as_text(result, dry_run=dry_run, advice=advice)),
        verbatim=dry_run and bool(result.changes),
    )
    for note in () if run.quiet else result.notes:
        run.terminal.warn(f"note: {rendering.plain(note)}\n")


def list_files(result: InstallResult) -> list[dict[str, str]]:
    """Return the files of a result as JSON, with their changes."""
    changed = {change.path: change for change in result.changes}
    return [
        {"path": path, "action": _action(changed.get(path)), "diff": _diff(changed.get(path))}
        for path in result.files
    ]


def _as_text(result: InstallResult, *, dry_run: bool, advice: str) -> Iterator[str]:
    if not result.changes:
        yield f"Nothing to change for {result.title} in {' and '.join(result.files)}"
    yield from describe_changes(result, dry_run=dry_run)
    if result.changes and not dry_run:
        yield advice


def describe_changes(result: InstallResult, *, dry_run: bool) -> Iterator[str]:
    """Yield a line for each changed file, or its diff."""
    for change in result.changes:
        if dry_run:
            yield from map(_paint_line, _diff(change).splitlines())
        else:
            yield f"\N{CHECK MARK} {_action(change).capitalize()} {rendering.plain(change.path)}"


def _action(change: ConfigChange | None) -> str:
    if change is None:
        return "unchanged"
    if change.after is None:
        return "removed"
    return "created" if change.before is None else "changed"


def _diff(change: ConfigChange | None) -> str:
    if change is None:
        return ""
    before, after = (_LINE.findall(text or "") for text in (change.before, change.after))
    old, new = (
        "/dev/null" if text is None else change.path for text in (change.before, change.after)
    )
    return "".join(_render_line(line) for line in difflib.unified_diff(before, after, old, new))


def _paint_line(line: str) -> str:
    code = {"+": rendering.GOOD, "-": rendering.REMOVED, "@": rendering.TIME}.get(line[:1], "")
    return rendering.paint(line, code) if code else line


def _render_line(line: str) -> str:
    end = "\n" if line.endswith("\n") else "\n\\ No newline at end of file\n"
    return rendering.plain(line.rstrip("\r\n")) + end


def _state(state: AgentState) -> dict[str, Any]:
    return {
        "agent": state.agent.value,
        "title": state.title,
        "folder": state.folder,
        "present": state.present,
        "scopes": [
            {
                "scope": scope.scope.value,
                "standing": scope.standing.value,
                "files": list(scope.files),
                "commands": list(scope.commands),
                "off": scope.off,
                "plugin": scope.plugin.name if scope.plugin else "",
                "problem": scope.problem,
            }
            for scope in state.scopes
        ],
    }


def _states(states: list[AgentState]) -> Iterator[str]:
    width = max(len(state.agent) for state in states)
    for state in states:
        missing = "" if state.present else f"  (not found: no {rendering.plain(state.folder)})"
        yield f"{state.agent:<{width}}  {state.title}{missing}"
        for scope in state.scopes:
            if (
                scope.standing is not InstallStatus.ABSENT
                or scope.problem
                or scope.off
                or scope.plugin
                or (scope.scope is InstallScope.USER and state.present)
            ):
                yield f"{'':<{width}}  {scope.scope}: {_standing(state, scope)}"
    yield ""
    yield "`memory install AGENT` connects an agent; --dry-run shows what would change."


def _standing(state: AgentState, scope: ScopeState) -> str:
    if scope.problem:
        return rendering.plain(scope.problem)
    standing = _STANDINGS[scope.standing].format(agent=state.agent, scope=scope.scope)
    if scope.plugin:
        standing += f"; the plugin {scope.plugin.name} is"
    return f"{standing}; but {scope.off} switches all hooks off" if scope.off else standing
