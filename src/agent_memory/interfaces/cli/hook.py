"""`memory hook`: what agents call. The launcher itself talks to the daemon; here is its help."""

from pathlib import Path

import click

from agent_memory.features.hooks.model.installations import Agent
from agent_memory.interfaces.cli.commands import Command

AGENTS = tuple(agent.value for agent in Agent)


@click.command(
    cls=Command,
    needs_config=False,
    examples=(
        "memory hook auto --agent claude-code < event.json",
        "memory hook session-start --input event.json",
        'echo \'{"hook": "Stop", "session_id": "s"}\' | memory hook stop',
    ),
)
@click.argument("name", metavar="NAME")
@click.option("--input", "given", type=click.Path(path_type=Path), help="Read from a file.")
@click.option("--output", type=click.Path(path_type=Path), help="Write to a file.")
@click.option("--agent", type=click.Choice(AGENTS), help="Who calls, where the input cannot tell.")
def hook(name: str, given: Path | None, output: Path | None, agent: str | None) -> None:
    """Record what an agent does, and answer with what is known.

    Reads one JSON object, writes one, and always exits with 0. `memory install` makes an agent
    call it.

    \b
    NAME: session-start, user-prompt, pre-tool, post-tool, post-tool-failure, pre-compact, stop,
    subagent-start, subagent-stop, session-end; or auto: the input tells which.
    """
