"""The `kontekst` command: run agents on a local model, with this memory."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
from click.shell_completion import CompletionItem

from agent_memory.features.knowledge.model.run_sessions import RunSession
from agent_memory.features.runs.services.agent_catalog import CatalogEntry
from agent_memory.features.runs.services.runs import RunStatus
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.backend import StartOptions
from agent_memory.interfaces.cli.commands import (
    Group,
    Invocation,
    global_options,
    invocation,
    report_control,
    verbosity_options,
)
from agent_memory.interfaces.cli.completion import completion
from agent_memory.interfaces.cli.filters import limit_option
from agent_memory.interfaces.cli.prompting import QUIET_HELP, prompt
from agent_memory.kernel.spelling import suggest_nearest
from agent_memory.kernel.status import ModelStatus

_ABOUT = frozenset({"-h", "--help", "-V", "--version"})
_PROMPT_CHARS = 60
_NEARLY = 0.8


class PromptGroup(Group):
    """A group that takes everything except the name of a command as a prompt."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {param.name for param in self.params}
        options = [param for param in prompt.params if isinstance(param, click.Option)]
        records = [option.get_help_record(ctx) for option in options if option.name not in own]
        with formatter.section("Options of a prompt"):
            formatter.write_dl([record for record in records if record is not None])
        super().format_options(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self._is_prompt(ctx, args):
            args = ["", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        items = super().shell_complete(ctx, incomplete)
        own = {item.value for item in items}
        for item in prompt.shell_complete(ctx, incomplete):  # its options
            if item.value not in own:
                items.append(item)
        return items

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
            elif ctx.resilient_parsing and arg.partition("=")[0] in _OF_PROMPT:
                return True
            else:
                about = about or arg in _ABOUT
                skip = arg in _WITH_VALUE
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
        "Look": ("ps", "sessions", "agents", "skills"),
        "Daemon": ("start", "stop"),
        "Set up": ("completion",),
    },
    examples=(
        'kontekst "what did we decide about retries?"',
        'kontekst "fix the failing test" --agent reviewer',
        "kontekst /review src/app.py",
        "git diff | kontekst - what is wrong here?",
    ),
)
@global_options
@verbosity_options(QUIET_HELP)
def kontekst() -> None:
    """Run agents on a local model, with this memory.

    `kontekst "PROMPT"` runs an agent in this folder. It asks before it uses a tool. Quote a prompt
    of several words that begins with the name of a command.
    """


@kontekst.command(needs_config=False, examples=("kontekst start",))
@invocation
def start(run: Invocation) -> int:
    """Start the daemon in the background.

    The command returns when the daemon is ready.
    """
    control = run.backend.require_control()
    return report_control(run, lambda say: control.start(StartOptions(config=run.config_file), say))


@kontekst.command(needs_config=False, examples=("kontekst stop",))
@invocation
def stop(run: Invocation) -> int:
    """Stop the daemon when its current work is done."""
    return report_control(run, run.backend.require_control().stop)


@kontekst.command(examples=("kontekst ps", "kontekst ps --format json"))
@invocation
def ps(run: Invocation) -> None:
    """Show the active runs and the model server."""
    services = run.services
    runs, model = services.runs.list_active(), services.model.status()
    now = services.clock.now()
    run.show(
        {
            "runs": [_run_json(active) for active in runs],
            "model": asdict(model),
        },
        lambda: "\n".join([*_run_lines(runs, now), _model_line(model)]),
        essential="\n".join(active.run_id for active in runs),
    )


@kontekst.command(examples=("kontekst sessions", "kontekst sessions -l 5 --format json"))
@limit_option(20, help="List at most this many.")
@invocation
def sessions(run: Invocation, limit: int) -> None:
    """List the sessions of agents, latest first."""
    listed = run.services.run_memory.sessions(limit)
    run.show(
        [_session_json(session) for session in listed],
        lambda: _sessions_text(listed),
        page=True,
        essential="\n".join(session.session_id for session in listed),
    )


@kontekst.command(examples=("kontekst agents", "kontekst agents --format json"))
@invocation
def agents(run: Invocation) -> None:
    """List the agents, and any errors in their files."""
    _show_entries(run, run.services.agent_catalog.list_agents(), "agents")


@kontekst.command(examples=("kontekst skills",))
@invocation
def skills(run: Invocation) -> None:
    """List the skills, and any errors in their files."""
    _show_entries(run, run.services.agent_catalog.list_skills(), "skills")


def _run_json(run: RunStatus) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "session_id": run.session_id,
        "agent": run.agent_name,
        "doing": run.doing,
        "started_ms": run.started_ms,
        "working_dir": run.working_dir,
        "prompt": run.prompt,
    }


def _run_lines(runs: Sequence[RunStatus], now: int) -> list[str]:
    if not runs:
        return ["No run is active."]
    lines = []
    for run in runs:
        age = rendering.duration(max(0, now - run.started_ms) / 1000)
        lines += [
            f"{run.run_id}  {run.agent_name}  {run.doing}, for {age}",
            f"  session {rendering.plain(run.session_id)}",
            f"  {rendering.excerpt(run.prompt, _PROMPT_CHARS)}",
        ]
    return lines


def _model_line(model: ModelStatus) -> str:
    if not model.endpoint:
        return f"Model: not running; {rendering.plain(model.trouble) or 'the next run starts it'}"
    own = f" (PID {model.pid})" if model.running else ""
    return f"Model: {model.endpoint}{own}, {'healthy' if model.healthy else 'does not answer'}"


def _session_json(session: RunSession) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "agent": session.agent,
        "runs": session.runs,
        "outcome": session.outcome,
        "first_ms": session.first_ms,
        "last_ms": session.last_ms,
        "summary": session.summary,
    }


def _sessions_text(listed: Sequence[RunSession]) -> str:
    if not listed:
        return 'No sessions yet. `kontekst "PROMPT"` runs an agent.'
    lines = []
    for session in listed:
        runs = rendering.count(session.runs, "run")
        outcome = session.outcome or "interrupted"
        about = f"{rendering.plain(session.agent)}, {runs}, {outcome}"
        session_id = rendering.plain(session.session_id)
        lines += [
            f"{rendering.moment(session.last_ms)}  {session_id}  ({about})",
            f"  {rendering.excerpt(session.summary, _PROMPT_CHARS)}",
        ]
    return "\n".join(lines)


def _show_entries(run: Invocation, entries: Sequence[CatalogEntry], kind: str) -> None:
    width = max((len(entry.name) for entry in entries), default=0)
    run.show(
        [
            {
                "name": entry.name,
                "description": entry.description,
                "built_in": entry.built_in,
                "problem": entry.problem,
            }
            for entry in entries
        ],
        lambda: (
            "\n".join(_entry_text(entry, width) for entry in entries)
            or f"No {kind} yet. docs/howto/agent-files.md explains how to write one."
        ),
        essential="\n".join(entry.name for entry in entries),
    )


def _entry_text(entry: CatalogEntry, width: int) -> str:
    text = entry.description
    if entry.problem:
        text = "error: " + entry.problem.replace("\n", f"\n{' ' * (width + 2)}")
    return f"{rendering.plain(entry.name):<{width}}  {rendering.plain(text)}"


for command in (prompt, completion):
    kontekst.add_command(command)

_OF_PROMPT = frozenset(
    name for option in prompt.params if isinstance(option, click.Option) for name in option.opts
) - {name for option in kontekst.params for name in option.opts}
# Options that take a value: the next word is not part of the prompt.
_WITH_VALUE = frozenset(
    name
    for option in (*kontekst.params, *prompt.params)
    if isinstance(option, click.Option) and not option.is_flag and not option.count
    for name in option.opts
)
