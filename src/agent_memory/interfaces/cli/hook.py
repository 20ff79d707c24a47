"""The help of `memory hook`. The launcher runs the command itself."""

from pathlib import Path

import click

from agent_memory.features.hooks.model.installations import PLUGIN_FLAG, Agent
from agent_memory.interfaces.cli.commands import Choice, Command

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
@click.option("--input", "source", type=click.Path(path_type=Path), help="Read from a file.")
@click.option("--output", type=click.Path(path_type=Path), help="Write to a file.")
@click.option("--agent", type=Choice(AGENTS), help="The agent, if the input does not name it.")
@click.option(
    PLUGIN_FLAG, is_flag=True, help="The call comes from a plugin, and perhaps from `install` too."
)
def hook(
    name: str, source: Path | None, output: Path | None, agent: str | None, plugin: bool
) -> None:
    """Record an agent's hook call, and answer with memories.

    Reads one JSON object, writes one, and always exits with 0. `memory install` makes an agent
    call it.

    NAME is session-start, user-prompt, pre-tool, post-tool, post-tool-failure, pre-compact,
    post-compact, stop, subagent-start, subagent-stop or session-end; or auto, if the input names
    the event.
    """
