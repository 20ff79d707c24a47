"""The `memory-daemon` command: start, query and maintain the daemon."""

import click

from agent_memory.interfaces.cli.commands import Group, global_options, log_level_option
from agent_memory.interfaces.cli.late_commands import Place


@click.group(
    cls=Group,
    name="memory-daemon",
    sections={
        "Run": {
            "start": Place("daemon_control", "start", "Start the daemon in the background."),
            "stop": Place(
                "daemon_control", "stop", "Stop the daemon when its current work is done."
            ),
            "restart": Place(
                "daemon_control",
                "restart",
                "Stop the daemon and start it again, with the same options.",
            ),
            "status": Place(
                "daemon_status",
                "status",
                "Show whether the daemon is running, and what it stores.",
            ),
            "service": Place(
                "service", "service", "Start the daemon at login, through systemd or launchd."
            ),
            "serve-team": Place(
                "daemon_control",
                "serve_team",
                "Serve the memory of a team in PostgreSQL, in the foreground.",
            ),
        },
        "Read": {
            "query": Place("event_query", "query", "Read events and the table of contents."),
        },
        "Maintain": {
            "admin": Place("admin", "admin", "Maintain the database, the indexes and backups."),
            "scheduler": Place("scheduler", "scheduler", "Show and control the background jobs."),
            "audit": Place("tokens", "audit", "Show who did what on a team server, newest first."),
        },
        "Set up": {
            "token": Place("tokens", "token", "Create, list and revoke the keys of programs."),
            "completion": Place(
                "completion", "completion", "Complete commands, ids, tags and more in your shell."
            ),
            "help": Place(
                "help_topics", "help_command", "Explain what people do most, one screen each."
            ),
        },
    },
    examples=(
        "memory-daemon status",
        "memory-daemon query tree",
        "memory-daemon admin backup /mnt/backups/memory",
        "memory-daemon token create dashboard",
    ),
)
@global_options
@log_level_option
def memory_daemon() -> None:
    """Run, query and maintain the memory daemon.

    The daemon records the conversations of your agents and answers all commands. Commands start it
    if it is not running, so you rarely need to.
    """
