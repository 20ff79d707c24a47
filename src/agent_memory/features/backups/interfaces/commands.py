"""Where the commands of backups are."""

from agent_memory.interfaces.cli.late_commands import FeatureCommand, Place

COMMANDS = tuple(
    FeatureCommand("memory-daemon admin", name, Place(f"{__package__}.backup", name))
    for name in ("backup", "restore")
)
