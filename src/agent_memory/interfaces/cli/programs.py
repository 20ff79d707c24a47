"""The three console commands by name."""

from collections.abc import Mapping

import click

from agent_memory.interfaces.cli import completing
from agent_memory.interfaces.cli.kontekst import kontekst
from agent_memory.interfaces.cli.memory import memory
from agent_memory.interfaces.cli.memory_daemon import memory_daemon

PROGRAMS: Mapping[str, click.Command] = {
    "memory": memory,
    "memory-daemon": memory_daemon,
    "kontekst": kontekst,
}

completing.attach_sources(PROGRAMS)
