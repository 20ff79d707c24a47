"""The `memory` command: what a person or an agent asks of the memory."""

import click

from agent_memory import config
from agent_memory.interfaces.cli.capture import archive, capture, edit, list_memories, resolve, show
from agent_memory.interfaces.cli.commands import Group, Invocation, global_options, invocation
from agent_memory.interfaces.cli.completion import completion
from agent_memory.interfaces.cli.consolidate import consolidate
from agent_memory.interfaces.cli.doctor import doctor
from agent_memory.interfaces.cli.forget import forget
from agent_memory.interfaces.cli.hook import hook
from agent_memory.interfaces.cli.install import install, uninstall
from agent_memory.interfaces.cli.recall import context, recall
from agent_memory.interfaces.cli.serve import serve
from agent_memory.interfaces.cli.sync import status, sync
from agent_memory.interfaces.cli.transfer import export, import_memories, migrate


@click.group(
    cls=Group,
    examples=("memory config list", "memory config set cli.color false"),
)
@global_options
@click.option("-v", "--verbose", count=True, help="With an error, also say what caused it.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing that is not essential.")
@invocation
def memory(run: Invocation, verbose: int, quiet: bool) -> None:
    """Memory for AI agents: what was said, decided and learned, found again."""
    run.verbose = verbose
    run.quiet = quiet


@memory.group(
    "config",
    examples=(
        "memory config list",
        "memory config get grpc.port",
        "memory config set hooks.enabled false",
        "memory config path",
    ),
)
def config_group() -> None:
    """Read and change settings."""


@config_group.command("get", examples=("memory config get grpc.port",))
@click.argument("key")
@invocation
def get_config(run: Invocation, key: str) -> None:
    """Show the value in force for this caller."""
    value = run.loaded.value(key)
    run.show(value, lambda: _as_text(value))


@config_group.command(
    "set",
    examples=(
        "memory config set cli.color false",
        "memory config set toc.max_tokens 8192",
        'memory config set llama.args "--n-gpu-layers,99"',
    ),
    context_settings={"ignore_unknown_options": True},  # a value may begin with a dash
)
@click.argument("key")
@click.argument("value")
@invocation
def set_config(run: Invocation, key: str, value: str) -> None:
    """Write a setting into the user's config file; its comments and order stay."""
    # Late: what edits TOML takes a twentieth of every start to load, and only this needs it.
    from agent_memory.interfaces import config_file  # noqa: PLC0415

    known = config.find_key(key)
    parsed = config.parse(key, value)
    path = run.config_file or config.folders(run.terminal.call.environ).config_file
    config_file.change(path, key, parsed)
    restart = known.applies == "restart"
    run.show(
        {"key": key, "value": parsed, "path": str(path), "restart_needed": restart},
        lambda: (
            f"{key} = {_as_text(parsed)}  ({path})"
            + ("\nIt acts when the daemon is next started." if restart else "")
        ),
    )


@config_group.command("list", examples=("memory config list --format json",))
@invocation
def list_config(run: Invocation) -> None:
    """List every setting: its value, where that comes from, and when a change acts."""
    loaded = run.loaded
    rows = [
        {
            "key": key.name,
            "value": loaded.value(key.name),
            "source": loaded.sources.get(key.name, "default"),
            "applies": key.applies,
        }
        for key in config.KEYS.values()
    ]
    width = max(len(str(row["key"])) for row in rows)
    run.show(
        rows,
        lambda: "\n".join(
            f"{row['key']:<{width}}  {_as_text(row['value'])}  ({row['source']})" for row in rows
        ),
        page=True,
    )


@config_group.command("path", needs_config=False, examples=("$EDITOR $(memory config path)",))
@invocation
def config_path(run: Invocation) -> None:
    """Print where the user's config file is, whether or not it exists."""
    path = run.config_file or config.folders(run.terminal.call.environ).config_file
    run.terminal.write(f"{path}\n")


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    return str(value)


for command in (
    *(capture, recall, show, list_memories, edit, resolve, archive),
    *(status, sync, consolidate, import_memories, export, migrate, forget, hook),
    *(context, serve, install, uninstall, doctor, completion),
):
    memory.add_command(command)
