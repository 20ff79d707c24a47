"""Where the commands of lessons are."""

from agent_memory.interfaces.cli.late_commands import FeatureCommand, Place

COMMANDS = (
    FeatureCommand(
        "memory",
        "lessons",
        Place(
            f"{__package__}.lessons",
            "lessons_group",
            "List what sessions taught, and say what holds.",
        ),
        section="Look back",
        after="sessions",
    ),
)
