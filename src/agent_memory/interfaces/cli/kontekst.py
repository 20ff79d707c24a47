"""The `kontekst` command: agents on a local model, with this memory."""

import click

from agent_memory.interfaces.cli.backend import StartOptions
from agent_memory.interfaces.cli.commands import Group, Invocation, global_options, invocation
from agent_memory.interfaces.cli.completion import completion


@click.group(cls=Group, examples=("kontekst start", "kontekst stop"))
@global_options
def kontekst() -> None:
    """Run agents on a local model, with this memory."""


@kontekst.command(needs_config=False, examples=("kontekst start",))
@invocation
def start(run: Invocation) -> int:
    """Start the daemon and return when it serves."""
    return run.backend.outside().start(StartOptions(config=run.config_file), run.terminal.write)


@kontekst.command(needs_config=False, examples=("kontekst stop",))
@invocation
def stop(run: Invocation) -> int:
    """Stop the daemon: finish what it is doing, then end."""
    return run.backend.outside().stop(run.terminal.write)


kontekst.add_command(completion)
