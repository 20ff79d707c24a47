"""Where the program of agents is."""

from agent_memory.interfaces.cli.late_commands import FeatureCommand, Place

COMMANDS = (FeatureCommand("", "kontekst", Place(f"{__package__}.kontekst", "kontekst")),)
