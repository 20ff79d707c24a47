"""The `kontekst` command: agents on a local model, with this memory."""

import click

from agent_memory.domain.errors import FeatureUnavailable
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
    if run.backend.control is None:
        raise FeatureUnavailable("a daemon is running already")
    options = StartOptions(
        foreground=False,
        grpc_port=None,
        http_port=None,
        db_path=None,
        log_level=None,
        config=run.config_file,
        ready_fd=None,
        auto=False,
        replace=False,
    )
    return run.backend.control.start(options, run.terminal.write)


@kontekst.command(needs_config=False, examples=("kontekst stop",))
@invocation
def stop(run: Invocation) -> int:
    """Stop the daemon: finish what it is doing, then end."""
    if run.backend.control is None:
        raise FeatureUnavailable("a daemon cannot stop itself by this command")
    return run.backend.control.stop(run.terminal.write)


kontekst.add_command(completion)
