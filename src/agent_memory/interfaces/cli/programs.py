"""The console commands by name; those of features are in the group without a name."""

from agent_memory.interfaces.cli.late_commands import LateCommands, Place, list_of_features

PROGRAMS = LateCommands(
    {
        "memory": Place("memory", "memory"),
        "memory-daemon": Place("memory_daemon", "memory_daemon"),
        **{command.name: command.place for command in list_of_features("")},
    }
)
