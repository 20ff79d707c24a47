"""Where the commands of a team are."""

from agent_memory.interfaces.cli.late_commands import FeatureCommand, Place

COMMANDS = (
    FeatureCommand(
        "memory",
        "remote",
        Place(
            f"{__package__}.team_server",
            "remote_group",
            "Exchange records with the server of your team.",
        ),
        section="Share",
        after="sync",
    ),
    FeatureCommand(
        "memory",
        "team",
        Place(
            f"{__package__}.team",
            "team_group",
            "Look after what your team's machines do in your name.",
        ),
        section="Share",
        after="remote",
    ),
)
