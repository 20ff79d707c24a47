"""Near misses: the command or the option that a mistyped one may mean."""

from collections.abc import Iterator, Mapping

import click

from agent_memory.kernel.spelling import suggest_nearest

# What people type for a command, in any of the programs.
MEANT_COMMANDS = {
    "search": "memory recall",
    "find": "memory recall",
    "ask": "memory recall",
    "ls": "memory list",
    "get": "memory show",
    "open": "memory show",
    "view": "memory show",
    "cat": "memory show",
    "add": "memory capture",
    "save": "memory capture",
    "store": "memory capture",
    "remember": "memory capture",
    "delete": "memory forget",
    "remove": "memory forget",
    "rm": "memory forget",
    "push": "memory sync",
    "pull": "memory sync",
    "fetch": "memory sync",
    "init": "memory install",
    "setup": "memory install",
    "settings": "memory config",
    "history": "memory log",
    "check": "memory doctor",
    "backup": "memory-daemon admin backup",
    "restore": "memory-daemon admin restore",
    "verify": "memory-daemon admin verify",
    "events": "memory-daemon query events",
    "tree": "memory-daemon query tree",
    "jobs": "memory-daemon scheduler status",
    "keys": "memory-daemon token list",
}
# What people type for an option, if the command has the one that is meant.
MEANT_OPTIONS = {
    "--json": "--format json",
    "--yaml": "--format yaml",
    "--after": "--since",
    "--before": "--until",
    "--max": "--limit",
    "--count": "--limit",
    "--top": "--limit",
    "--number": "--limit",
    "--kind": "--in",
    "--type": "--namespace",
    "--force": "--yes",
    "--preview": "--dry-run",
}
_NEAR, _SURE = 0.6, 0.8
_EXTRA = "Got unexpected extra argument"


def suggest_command(
    name: str, context: click.Context, programs: Mapping[str, click.Command]
) -> str:
    """Say which command an unknown one may mean, or where to find the list of them."""
    group = context.command
    own = group.commands if isinstance(group, click.Group) else {}
    known = [each for each, command in own.items() if not command.hidden]
    meant = _find_meant(name, programs)
    if nearest := suggest_nearest(name.lower(), known, cutoff=_SURE if meant else _NEAR):
        return nearest
    path = context.command_path.strip()
    return f"; did you mean `{meant}`?" if meant else f"; `{path} --help` lists the commands"


def suggest_option(name: str, context: click.Context) -> str:
    """Say which option an unknown one may mean, or empty."""
    known = list(_list_options(context.command))
    meant = MEANT_OPTIONS.get(name, "")
    if meant and meant.split()[0] in known:
        return f"; did you mean {meant!r}?"
    if nearest := suggest_nearest(name, known, cutoff=_NEAR):
        return nearest
    if isinstance(context.command, click.Group):
        owners = [
            f"`{context.command_path} {each}`"
            for each, command in context.command.commands.items()
            if each and not command.hidden and name in _list_options(command)
        ]
        if owners:
            return f"; it is an option of {', '.join(owners[:3])}: write it after the command"
    return ""


def advise_on_words(message: str) -> str:
    """Say how to pass a text of several words, if that is what went wrong."""
    return " Quote a text of several words." if message.startswith(_EXTRA) else ""


def _find_meant(name: str, programs: Mapping[str, click.Command]) -> str:
    for program, command in programs.items():
        if name and isinstance(command, click.Group) and name in command.commands:
            return f"{program} {name}"
    return MEANT_COMMANDS.get(name.lower(), "")


def _list_options(command: click.Command) -> Iterator[str]:
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            yield from (*param.opts, *param.secondary_opts)
