"""`memory uninstall`: remove our entries from agents, or everything from this machine."""

from collections.abc import Iterator
from typing import Any

import click

from agent_memory.features.hooks.model.installations import Agent, InstallResult, Removal
from agent_memory.interfaces.cli import completion_scripts, rendering, service_unit
from agent_memory.interfaces.cli.agent_shells import check_person
from agent_memory.interfaces.cli.commands import Choice, Command, Invocation, invocation
from agent_memory.interfaces.cli.install import (
    AGENTS,
    SCOPES,
    choose_scope,
    describe_changes,
    list_files,
    show_result,
)
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import FeatureUnavailable

DELETE = "delete"  # what a user types to confirm
_NOTHING = "Nothing was removed.\n"
_LAST_WORDS = (
    "Memories also stay in the git notes of your projects. Remove the program itself with the tool"
    " that installed it, such as `pipx uninstall agent-memory`."
)


@click.command(
    cls=Command,
    needs_config=False,
    examples=(
        "memory uninstall claude-code",
        "memory uninstall cursor --scope project --dry-run",
        "memory uninstall --all",
        "memory uninstall --all --purge",
        "memory uninstall --all --purge --yes --delete-data",
    ),
)
@click.argument("agent", type=Choice(AGENTS), required=False, metavar="[AGENT]")
@SCOPES[0]
@SCOPES[1]
@SCOPES[2]
@SCOPES[3]
@click.option(
    "--all", "everywhere", is_flag=True, help="From all agents, also in projects you installed to."
)
@click.option(
    "--purge",
    is_flag=True,
    help="With --all: also stop the daemon, remove its service and the completions, and ask twice"
    " whether to delete the data.",
)
@click.option("--yes", is_flag=True, help="With --purge: do not ask, and keep the data.")
@click.option(
    "--delete-data",
    is_flag=True,
    help="With --purge --yes: also delete all recorded data and settings, without asking.",
)
@invocation
def uninstall(
    run: Invocation,
    agent: str | None,
    scope: str | None,
    user: bool,
    project: bool,
    dry_run: bool,
    everywhere: bool,
    purge: bool,
    yes: bool,
    delete_data: bool,
) -> int:
    """Remove our hooks, MCP server and rules from an agent.

    `memory install` lists the agents. The rest of the configuration stays as it is, and so do all
    memories. Folders that the installation made are removed if they are empty.

    `--all --purge` removes everything but the program. Without a terminal it needs `--yes`, and it
    deletes data only with `--yes --delete-data`.
    """
    _check_options(agent, bool(scope or user or project), everywhere=everywhere, purge=purge)
    if (yes or delete_data) and not purge:
        raise click.UsageError("--yes and --delete-data belong to --purge")
    if delete_data and not yes and not run.terminal.call.input_is_terminal:
        raise click.UsageError("--delete-data needs --yes without a terminal")
    service = run.installing
    if agent is not None:
        chosen = choose_scope(scope, user=user, project=project)
        call = run.terminal.call  # `run.caller` has a zone, which needs valid settings
        caller = Caller(folder=str(call.cwd), environ=call.environ)
        done = service.uninstall(Agent(agent), chosen, caller, dry_run=dry_run)
        show_result(run, done, dry_run=dry_run, advice=_advise(done))
        return 0
    if purge:
        check_person(run, "remove everything")
    deletes = purge and not dry_run and _ask(run, yes=yes, delete_data=delete_data)
    removal = service.uninstall_all(run.caller, dry_run=dry_run)
    rest = _purge(run, delete=deletes, dry_run=dry_run) if purge else {}
    run.show(
        {
            "dry_run": dry_run,
            "agents": [_result_json(result) for result in removal.results],
            "problems": list(removal.problems),
            **rest,
        },
        lambda: "\n".join(_as_text(removal, rest, dry_run=dry_run)),
    )
    for note in dict.fromkeys(note for result in removal.results for note in result.notes):
        run.terminal.warn(f"note: {rendering.plain(note)}\n")
    for problem in removal.problems:
        run.terminal.warn(f"error: {rendering.plain(problem)}\n")
    return 1 if removal.problems else 0


def _check_options(agent: str | None, scoped: bool, *, everywhere: bool, purge: bool) -> None:
    if agent is None and not everywhere:
        raise click.UsageError("Missing argument 'AGENT': name an agent, or use --all")
    if agent is not None and everywhere:
        raise click.UsageError("--all and AGENT cannot be combined")
    if everywhere and scoped:
        raise click.UsageError("--all includes every --scope")
    if purge and not everywhere:
        raise click.UsageError("--purge removes everything: it needs --all")


def _ask(run: Invocation, *, yes: bool, delete_data: bool) -> bool:
    """Ask before a purge. Return whether to delete the data. Raises Abort if the user says no."""
    control = run.backend.require_control()
    if yes:
        if delete_data:
            control.check_deletable()
        return delete_data
    if not run.terminal.call.input_is_terminal:
        raise click.UsageError("--purge needs --yes without a terminal; the data stays then")
    run.terminal.write(
        "This removes our hooks, MCP servers and rules from all agents, stops the daemon, and"
        " removes\nits service and the shell completions. Close your agents first: they would"
        " start it again.\n"
    )
    if not run.terminal.confirm("Go on?"):
        run.terminal.write(_NOTHING)
        raise click.Abort
    folders, size = control.measure_data()
    if not folders:
        return False
    listed = "\n".join(f"  {rendering.plain(str(folder))}" for folder in folders)
    run.terminal.write(f"Your data, settings, agents and skills ({size // 1000:,} kB):\n{listed}\n")
    if server := control.describe_server_memory():
        run.terminal.write(f"The memory in {rendering.plain(server)} stays there.\n")
    if not run.terminal.confirm("Delete these too? They cannot be restored."):
        return False
    control.check_deletable()
    return run.terminal.ask(f"Type {DELETE!r} to delete them: ").strip() == DELETE


def _purge(run: Invocation, *, delete: bool, dry_run: bool) -> dict[str, Any]:
    """Stop the daemon and remove what is left of us. Return what was done, or would be."""
    control = run.backend.require_control()
    unit = service_unit.for_platform(run.terminal.call)
    daemon = control.find_daemon()
    folders, _ = control.measure_data()
    server = control.describe_server_memory()
    if dry_run:
        return {
            "service": str(unit.path) if unit.path.exists() else "",
            "daemon": 0 if daemon is None else daemon.pid,
            "completions": _remove_completions(run, dry_run=True),
            "deleted": [],
            "kept": [str(folder) for folder in folders],
            "server": server,
        }
    service = _remove_service(run, unit)
    if daemon is not None:
        control.stop(lambda _: None)
    completions = _remove_completions(run, dry_run=False)
    run.installing.remove_folders()
    deleted = control.delete_data() if delete else []
    return {
        "service": service,
        "daemon": 0 if daemon is None else daemon.pid,
        "completions": completions,
        "deleted": [str(folder) for folder in deleted],
        "kept": [str(folder) for folder in folders if folder.exists()],
        "server": server,
    }


def _remove_completions(run: Invocation, *, dry_run: bool) -> list[str]:
    environ = run.terminal.call.environ
    places = [completion_scripts.find_place(shell, environ) for shell in completion_scripts.SCRIPTS]
    return [str(path) for place in places for path in place.remove(dry_run=dry_run)]


def _remove_service(run: Invocation, unit: service_unit.Unit) -> str:
    if not unit.path.exists():
        return ""
    try:
        unit.run(unit.deactivate)  # first: systemd must still find the unit to disable it
    except FeatureUnavailable as exc:
        run.terminal.warn(f"note: the unit may still be active: {exc}\n")
    unit.remove()
    return str(unit.path)


def _as_text(removal: Removal, rest: dict[str, Any], *, dry_run: bool) -> Iterator[str]:
    changed = [result for result in removal.results if result.changes]
    if not changed:
        yield "No agent has entries of ours."
    for result in changed:
        yield from describe_changes(result, dry_run=dry_run)
    if not rest:
        if changed and not dry_run:
            yield "Sessions that are already running may still call the hooks."
        return
    done = "Would remove" if dry_run else "\N{CHECK MARK} Removed"
    if rest["service"]:
        yield f"{done} the service {rest['service']}"
    if rest["daemon"]:
        stop = "Would stop" if dry_run else "\N{CHECK MARK} Stopped"
        yield f"{stop} the daemon (PID {rest['daemon']})"
    for path in rest["completions"]:
        yield f"{done} the completion in {path}"
    for path in rest["deleted"]:
        yield f"\N{CHECK MARK} Deleted {path}"
    if rest["kept"]:
        would = "Would ask twice before it deletes" if dry_run else "Kept"
        yield f"{would} {', '.join(rest['kept'])}"
    if rest["server"]:
        yield f"The memory in {rest['server']} stays there"
    yield _LAST_WORDS


def _result_json(result: InstallResult) -> dict[str, Any]:
    return {
        "agent": result.agent.value,
        "scope": result.scope.value,
        "files": list_files(result),
        "folders": list(result.folders),
    }


def _advise(result: InstallResult) -> str:
    return f"Sessions of {result.title} that are already running may still call the hooks."
