"""The `kontekst` command: run agents on a local model, with this memory."""

from collections.abc import Sequence
from functools import cached_property

import click
from click.shell_completion import CompletionItem

from agent_memory.interfaces.cli.backend import StartOptions
from agent_memory.interfaces.cli.commands import (
    QUIET_PROMPT,
    Command,
    Group,
    Invocation,
    global_options,
    invocation,
    report_control,
    verbosity_options,
)
from agent_memory.interfaces.cli.late_commands import Place
from agent_memory.kernel.spelling import suggest_nearest

PROMPT = ""  # the name of the command that takes a prompt
_ABOUT = frozenset({"-h", "--help", "-V", "--version"})
_NEARLY = 0.8
_RUNS = f"{__package__}.agent_runs"


class PromptGroup(Group):
    """A group that takes everything except the name of a command as a prompt."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {param.name for param in self.params}
        options = [param for param in self._prompt.params if isinstance(param, click.Option)]
        records = [option.get_help_record(ctx) for option in options if option.name not in own]
        with formatter.section("Options of a prompt"):
            formatter.write_dl([record for record in records if record is not None])
        super().format_options(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self._is_prompt(ctx, args):
            args = [PROMPT, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        items = super().shell_complete(ctx, incomplete)
        own = {item.value for item in items}
        for item in self._prompt.shell_complete(ctx, incomplete):  # its options
            if item.value not in own:
                items.append(item)
        return items

    @property
    def _prompt(self) -> click.Command:
        return self.commands[PROMPT]

    @cached_property
    def _of_prompt(self) -> frozenset[str]:
        """The options that a prompt has and the program itself has not."""
        own = {name for option in self.params for name in option.opts}
        return frozenset(
            name
            for option in self._prompt.params
            if isinstance(option, click.Option)
            for name in option.opts
            if name not in own
        )

    @cached_property
    def _with_value(self) -> frozenset[str]:
        """The options that take a value: the next word is not part of the prompt."""
        return frozenset(
            name
            for option in (*self.params, *self._prompt.params)
            if isinstance(option, click.Option) and not option.is_flag and not option.count
            for name in option.opts
        )

    def _is_prompt(self, ctx: click.Context, args: Sequence[str]) -> bool:
        if not args:  # the prompt may come through a pipe
            current = ctx.find_object(Invocation)
            piped = current is not None and not current.terminal.call.input_is_terminal
            return piped and not ctx.resilient_parsing
        skip = False
        about = ctx.resilient_parsing  # the shell completes a word, which may be a command
        for arg in args:
            if skip:
                skip = False
            elif arg == "--" or arg == "-" or not arg.startswith("-"):
                self._check_spelling(args, arg)
                return arg not in self.commands
            elif ctx.resilient_parsing and arg.partition("=")[0] in self._of_prompt:
                return True
            else:
                about = about or arg in _ABOUT
                skip = arg in self._with_value
        return not about

    def _check_spelling(self, args: Sequence[str], word: str) -> None:
        """Raise UsageError for a prompt of one word that is nearly the name of a command."""
        rest = args[args.index(word) + 1 :]
        if word in self.commands or not word.isalpha() or any(r[:1] != "-" for r in rest):
            return
        names = [name for name in self.commands if name]
        if nearest := suggest_nearest(word, names, cutoff=_NEARLY):
            raise click.UsageError(
                f"No such command {word!r}{nearest} As a prompt, write it behind --: -- {word}"
            )


@click.group(
    cls=PromptGroup,
    subcommand_metavar="PROMPT | COMMAND [ARGS]...",
    sections={
        "Look": {
            "ps": Place(_RUNS, "ps", "Show the active runs and the model server."),
            "sessions": Place(_RUNS, "sessions", "List the sessions of agents, latest first."),
            "agents": Place(_RUNS, "agents", "List the agents, and any errors in their files."),
            "skills": Place(_RUNS, "skills", "List the skills, and any errors in their files."),
        },
        "Daemon": {
            "start": Place(__name__, "start", "Start the daemon in the background."),
            "stop": Place(__name__, "stop", "Stop the daemon when its current work is done."),
        },
        "Set up": {
            "completion": Place(
                "completion", "completion", "Complete commands, ids, tags and more in your shell."
            ),
        },
    },
    unlisted={PROMPT: Place(f"{__package__}.prompting", "prompt")},
    examples=(
        'kontekst "what did we decide about retries?"',
        'kontekst "fix the failing test" --agent reviewer',
        "kontekst /review src/app.py",
        "git diff | kontekst - what is wrong here?",
    ),
)
@global_options
@verbosity_options(QUIET_PROMPT)
def kontekst() -> None:
    """Run agents on a local model, with this memory.

    `kontekst "PROMPT"` runs an agent in this folder. It asks before it uses a tool. Quote a prompt
    of several words that begins with the name of a command.
    """


@click.command(cls=Command, needs_config=False, examples=("kontekst start",))
@invocation
def start(run: Invocation) -> int:
    """Start the daemon in the background.

    The command returns when the daemon is ready.
    """
    control = run.backend.require_control()
    return report_control(run, lambda say: control.start(StartOptions(config=run.config_file), say))


@click.command(cls=Command, needs_config=False, examples=("kontekst stop",))
@invocation
def stop(run: Invocation) -> int:
    """Stop the daemon when its current work is done."""
    return report_control(run, run.backend.require_control().stop)
