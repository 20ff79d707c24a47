"""The three console commands by name."""

from agent_memory.interfaces.cli.late_commands import LateCommands, Place

PROGRAMS = LateCommands(
    {
        "memory": Place("memory", "memory"),
        "memory-daemon": Place("memory_daemon", "memory_daemon"),
        "kontekst": Place("kontekst", "kontekst"),
    }
)
