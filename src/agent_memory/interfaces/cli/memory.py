"""The `memory` command: memories, agents and settings."""

import click

from agent_memory.interfaces.cli.commands import Group, global_options, verbosity_options
from agent_memory.interfaces.cli.late_commands import Place


@click.group(
    cls=Group,
    sections={
        "Everyday": {
            "recall": Place("recall", "recall", "Find what was said, decided and learned."),
            "capture": Place(
                "capture", "capture", "Save a decision, a learning, a blocker or another memory."
            ),
            "list": Place("capture", "list_memories", "List memories, newest first."),
            "show": Place("show", "show", "Show a memory, event, segment, grip, session or fact."),
            "edit": Place("capture", "edit", "Change a memory."),
            "undo": Place("undo", "undo", "Take back the last change that you made to memories."),
            "resolve": Place(
                "capture", "resolve", "Mark memories as resolved, such as a removed blocker."
            ),
            "review": Place(
                "review",
                "review",
                "Go through the memories and rules that were noted automatically.",
            ),
            "context": Place("recall", "context", "Show the context that an agent gets, as XML."),
            "status": Place("sync", "status", "Count your memories by kind, age and use."),
        },
        "Look back": {
            "today": Place("journal", "today", "Show what was done today, by project and session."),
            "log": Place(
                "journal", "log", "Show the sessions with what came of them, newest first."
            ),
            "sessions": Place("journal", "sessions", "List the sessions, newest first."),
            "injections": Place(
                "injections", "injections", "List what hooks gave to agents, newest first."
            ),
            "why": Place(
                "injections", "why", "Explain where a record comes from and who was given it."
            ),
            "ui": Place("ui", "ui", "Look at what your agents remember, in a browser."),
        },
        "Consent": {
            "on": Place("consent", "on", "Record in this project from now on."),
            "off": Place("consent", "off", "Record nothing in this project from now on."),
            "pause": Place("consent", "pause", "Record nothing on this machine until you resume."),
            "resume": Place("consent", "resume", "Record again after `memory pause`."),
        },
        "Share": {
            "sync": Place(
                "sync", "sync", "Sync memories with git notes, and with a remote to share them."
            ),
            "export": Place("transfer", "export", "Export memories, conversations, or everything."),
            "import": Place(
                "transfer", "import_memories", "Import memories, past conversations, or an archive."
            ),
        },
        "Set up": {
            "install": Place(
                "install", "install", "Connect an agent to this memory: hooks, MCP and rules."
            ),
            "uninstall": Place(
                "uninstall", "uninstall", "Remove our hooks, MCP server and rules from an agent."
            ),
            "doctor": Place(
                "doctor", "doctor", "Check that everything works, and say how to fix what does not."
            ),
            "config": Place("settings", "config_group", "Show and change settings."),
            "completion": Place(
                "completion", "completion", "Complete commands, ids, tags and more in your shell."
            ),
            "help": Place(
                "help_topics", "help_command", "Explain what people do most, one screen each."
            ),
        },
        "Maintain": {
            "consolidate": Place(
                "consolidate",
                "consolidate",
                "Merge memories that say the same, and archive the old ones.",
            ),
            "archive": Place(
                "capture", "archive", "Archive memories: hide them except with --include-archived."
            ),
            "forget": Place("forget", "forget", "Delete memories or events for good."),
            "migrate": Place(
                "transfer", "migrate", "Import memories that earlier tools wrote into git notes."
            ),
        },
        "For agents": {
            "hook": Place("hook", "hook", "Record an agent's hook call, and answer with memories."),
            "serve": Place("serve", "serve", "Serve MCP to a client, or streams on a port."),
        },
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
