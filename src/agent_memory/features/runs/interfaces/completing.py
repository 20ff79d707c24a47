"""The values of `kontekst` that a shell completes."""

from collections.abc import Iterator, Mapping

import click

from agent_memory.features.runs.services.agent_catalog import AgentCatalog
from agent_memory.features.runs.services.recorder import RunMemory
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.completing import (
    HELP_CHARS,
    SESSIONS,
    Offer,
    Source,
    require_services,
)


def list_sessions(ctx: click.Context) -> Iterator[Offer]:
    for session in require_services(ctx)[RunMemory].sessions(SESSIONS):
        yield session.session_id, rendering.excerpt(session.summary, HELP_CHARS)


def list_agents(ctx: click.Context) -> Iterator[Offer]:
    for entry in require_services(ctx)[AgentCatalog].list_agents():
        yield entry.name, rendering.excerpt(entry.description, HELP_CHARS)


BY_COMMAND: Mapping[tuple[str, str], Source] = {
    ("kontekst ", "session"): list_sessions,
    ("kontekst ", "agent"): list_agents,
}
