"""`completion`: shell completion of the three programs."""

import click

from agent_memory.interfaces.cli.commands import Choice, Command, Invocation, invocation
from agent_memory.interfaces.cli.runner import completion_script


@click.command(
    cls=Command,
    needs_config=False,
    examples=('eval "$(memory completion bash)"', "memory completion fish | source"),
)
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
@invocation
@click.pass_context
def completion(ctx: click.Context, run: Invocation, shell: str) -> None:
    """Print the script that completes commands in your shell.

    Load it from your shell's startup file.
    """
    root = ctx.find_root()
    run.terminal.write(completion_script(root.command, run.program, shell))
