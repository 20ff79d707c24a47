"""The `memory` command: memories, agents and settings."""

import click

from agent_memory.interfaces.cli.capture import archive, capture, edit, list_memories, resolve
from agent_memory.interfaces.cli.commands import (
    Group,
    global_options,
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
from agent_memory.interfaces.cli.install import install
from agent_memory.interfaces.cli.journal import log, sessions, today
from agent_memory.interfaces.cli.recall import context, recall
from agent_memory.interfaces.cli.review import review
from agent_memory.interfaces.cli.serve import serve
from agent_memory.interfaces.cli.settings import config_group
from agent_memory.interfaces.cli.show import show
from agent_memory.interfaces.cli.sync import status, sync
from agent_memory.interfaces.cli.team_server import remote_group
from agent_memory.interfaces.cli.transfer import export, import_memories, migrate
from agent_memory.interfaces.cli.ui import ui
from agent_memory.interfaces.cli.undo import undo
from agent_memory.interfaces.cli.uninstall import uninstall


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
        "Look back": ("today", "log", "sessions", "injections", "why", "ui"),
        "Consent": ("on", "off", "pause", "resume"),
        "Share": ("sync", "remote", "export", "import"),
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


for command in (
    *(capture, recall, show, list_memories, edit, undo, resolve, archive, review),
    *(today, log, sessions, injections, why),
    *(on, off, pause, resume),
    *(status, sync, remote_group, consolidate, import_memories, export, migrate, forget, hook),
    *(context, serve, ui, install, uninstall, doctor, config_group, completion, help_command),
):
    memory.add_command(command)
