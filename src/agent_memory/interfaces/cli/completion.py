"""`completion`: shell completion of the three programs."""

import click

from agent_memory.interfaces.cli import completion_scripts
from agent_memory.interfaces.cli.commands import Choice, Command, Invocation, invocation

SHELLS = tuple(completion_scripts.SCRIPTS)


@click.command(
    cls=Command,
    needs_config=False,
    examples=(
        "memory completion bash --install",
        'eval "$(memory completion zsh)"',
        "memory completion fish | source",
    ),
)
@click.argument("shell", type=Choice(SHELLS))
@click.option("--install", is_flag=True, help="Switch it on in every new shell.")
@click.option("--remove", is_flag=True, help="Undo --install.")
@invocation
def completion(run: Invocation, shell: str, install: bool, remove: bool) -> None:
    """Complete commands, ids, tags and more in your shell.

    Prints a script for `memory`, `memory-daemon` and `kontekst`. With --install, it is stored
    beside your settings, and your shell's startup file gets a line that loads it. What the daemon
    knows, such as ids, completes while it runs.
    """
    if install and remove:
        raise click.UsageError("--install and --remove cannot be combined")
    if not install and not remove:
        run.terminal.write(completion_scripts.SCRIPTS[shell])
        return
    place = completion_scripts.find_place(shell, run.terminal.call.environ)
    if install:
        made = place.list_missing()
        changed = place.install()
        run.installing.note(made)
    else:
        changed = place.remove()
        run.installing.remove_folders()
    run.show(
        {"shell": shell, "changed": [str(path) for path in changed]},
        lambda: (
            "\n".join(
                [f"\N{CHECK MARK} Changed {path}" for path in changed] or ["Nothing to change."]
            )
            + ("\nOpen a new shell to use it." if install and changed else "")
        ),
    )
