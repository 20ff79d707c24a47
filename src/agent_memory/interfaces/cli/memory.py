"""The `memory` command: memories, agents and settings."""

import click

from agent_memory import config
from agent_memory.interfaces.cli.agent_shells import check_person
from agent_memory.interfaces.cli.capture import archive, capture, edit, list_memories, resolve
from agent_memory.interfaces.cli.commands import (
    Group,
    Invocation,
    global_options,
    invocation,
    verbosity_options,
)
from agent_memory.interfaces.cli.completion import completion
from agent_memory.interfaces.cli.consent import off, on, pause, resume
from agent_memory.interfaces.cli.consolidate import consolidate
from agent_memory.interfaces.cli.doctor import doctor
from agent_memory.interfaces.cli.forget import forget
from agent_memory.interfaces.cli.help_topics import help_command
from agent_memory.interfaces.cli.hook import hook
from agent_memory.interfaces.cli.injections import injections, why
from agent_memory.interfaces.cli.install import install, uninstall
from agent_memory.interfaces.cli.journal import log, sessions, today
from agent_memory.interfaces.cli.recall import context, recall
from agent_memory.interfaces.cli.review import review
from agent_memory.interfaces.cli.serve import serve
from agent_memory.interfaces.cli.show import show
from agent_memory.interfaces.cli.sync import status, sync
from agent_memory.interfaces.cli.transfer import export, import_memories, migrate
from agent_memory.interfaces.cli.undo import undo


@click.group(
    cls=Group,
    sections={
        "Everyday": (
            "recall",
            "capture",
            "list",
            "show",
            "edit",
            "undo",
            "resolve",
            "review",
            "context",
            "status",
        ),
        "Look back": ("today", "log", "sessions", "injections", "why"),
        "Consent": ("on", "off", "pause", "resume"),
        "Share": ("sync", "export", "import"),
        "Set up": ("install", "uninstall", "doctor", "config", "completion", "help"),
        "Maintain": ("consolidate", "archive", "forget", "migrate"),
        "For agents": ("hook", "serve"),
    },
    examples=(
        "memory install claude-code",
        'memory recall "which database did we decide on"',
        "memory today",
        'memory capture decisions "Use PostgreSQL for the data layer"',
        "memory sync --remote",
    ),
)
@global_options
@verbosity_options("Print only the result itself, such as ids.")
def memory() -> None:
    """Remember what you and your agents said, decided and learned.

    `memory install AGENT` makes an agent record its sessions and recall from them. Commands start
    the daemon if it is not running. `memory help` shows what to type for what people do most;
    `memory COMMAND --help` explains a command.
    """


@memory.group(
    "config",
    examples=(
        "memory config list",
        "memory config set hooks.enabled false",
        "$EDITOR $(memory config path)",
    ),
)
def config_group() -> None:
    """Show and change settings."""


@config_group.command("get", examples=("memory config get grpc.port",))
@click.argument("key")
@invocation
def get_config(run: Invocation, key: str) -> None:
    """Show the value of a setting that applies in this folder."""
    value = run.loaded.value(key)
    run.show(value, lambda: _as_text(value))


@config_group.command(
    "set",
    examples=(
        "memory config set cli.color false",
        'memory config set llama.args "--n-gpu-layers,99"',
    ),
    context_settings={"ignore_unknown_options": True},  # a value may begin with a dash
)
@click.argument("key")
@click.argument("value")
@invocation
def set_config(run: Invocation, key: str, value: str) -> None:
    """Change a setting in your config file.

    Separate the items of a list with commas. Comments and the order of the file stay as they are.
    """
    # Late: loading the TOML editor takes a twentieth of the start time of every command.
    from agent_memory.interfaces import config_file  # noqa: PLC0415

    applies = config.find_key(key).applies
    if applies == "personal":
        check_person(run, f"change {key}")
    restart = applies == "restart"
    parsed = config.parse(key, value)
    path = run.find_config_file()
    config_file.change(path, key, parsed)
    run.show(
        {"key": key, "value": parsed, "path": str(path), "restart_needed": restart},
        lambda: (
            f"{key} = {_as_text(parsed)}  ({path})"
            + ("\nIt takes effect at the next start of the daemon." if restart else "")
        ),
    )


@config_group.command("list", examples=("memory config list --format json",))
@invocation
def list_config(run: Invocation) -> None:
    """List all settings, with their values and where those come from."""
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
    """Print the path of your config file. The file may not exist yet."""
    run.terminal.write(f"{run.find_config_file()}\n")


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


for command in (
    *(capture, recall, show, list_memories, edit, undo, resolve, archive, review),
    *(today, log, sessions, injections, why),
    *(on, off, pause, resume),
    *(status, sync, consolidate, import_memories, export, migrate, forget, hook),
    *(context, serve, install, uninstall, doctor, completion, help_command),
):
    memory.add_command(command)
