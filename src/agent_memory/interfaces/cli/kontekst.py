"""The `kontekst` command: agents on a local model, with this memory."""

from collections.abc import Sequence
from typing import Any

import click

from agent_memory.features.knowledge.model.run_sessions import RunSession
from agent_memory.features.runs.services.agent_catalog import CatalogEntry
from agent_memory.features.runs.services.runs import RunStatus
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.backend import StartOptions
from agent_memory.interfaces.cli.commands import Group, Invocation, global_options, invocation
from agent_memory.interfaces.cli.completion import completion
from agent_memory.interfaces.cli.prompting import prompt, run_options
from agent_memory.kernel.status import ModelStatus

_ABOUT = frozenset({"-h", "--help", "-V", "--version"})
_PROMPT_CHARS = 60
_OUTCOMES = {"": "cut off"}


class PromptGroup(Group):
    """What is not the name of a command is a prompt."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self._is_prompt(ctx, args):
            args = ["", *args]
        return super().parse_args(ctx, args)

    def _is_prompt(self, ctx: click.Context, args: Sequence[str]) -> bool:
        if not args:  # in a pipe the prompt is what comes over it
            current = ctx.find_object(Invocation)
            return current is not None and not current.terminal.call.input_is_terminal
        if ctx.resilient_parsing:  # words are being completed
            return False
        skip = False
        about = False
        for arg in args:
            if skip:
                skip = False
            elif arg == "--" or arg == "-" or not arg.startswith("-"):
                return arg not in self.commands
            else:
                about = about or arg in _ABOUT
                skip = arg in _WITH_VALUE
        return not about


@click.group(
    cls=PromptGroup,
    subcommand_metavar="PROMPT | COMMAND [ARGS]...",
    examples=(
        'kontekst "what did we decide about retries?"',
        'kontekst "mend the failing test" --agent reviewer --session run-01J...',
        "kontekst /review src/app.py",
        "git diff | kontekst - what is wrong here?",
        "kontekst ps",
    ),
)
@global_options
@run_options
def kontekst() -> None:
    """Run agents on a local model, with this memory.

    `kontekst "PROMPT"` has one work in this folder; it asks before it does anything. A prompt
    of several words that begins with the name of a command must be quoted.

    \b
    Options of a prompt:
      -s, --session ID    Go on with this session.
      -a, --agent NAME    Who works on it.
      --dir PATH          Folder that it works in; without it, this one.
      --auto-approve      Let it use every tool without asking.
      -e, --endpoint URL  Run it on this daemon over gRPC.
    """


@kontekst.command(needs_config=False, examples=("kontekst start",))
@invocation
def start(run: Invocation) -> int:
    """Start the daemon and return when it serves."""
    return run.backend.require_control().start(
        StartOptions(config=run.config_file), run.terminal.write
    )


@kontekst.command(needs_config=False, examples=("kontekst stop",))
@invocation
def stop(run: Invocation) -> int:
    """Stop the daemon: finish what it is doing, then end."""
    return run.backend.require_control().stop(run.terminal.write)


@kontekst.command(examples=("kontekst ps", "kontekst ps --format json"))
@invocation
def ps(run: Invocation) -> None:
    """Show the runs that go on, and the model's server."""
    services = run.backend.require_services()
    going, model = services.runs.list_active(), services.model.status()
    now = services.clock.now()
    run.show(
        {
            "runs": [_run_json(each) for each in going],
            "model": {
                "endpoint": model.endpoint,
                "model_dir": model.model_dir,
                "healthy": model.healthy,
                "running": model.running,
                "pid": model.pid,
                "trouble": model.trouble,
            },
        },
        lambda: "\n".join([*_run_lines(going, now), _model_line(model)]),
        essential="\n".join(each.run_id for each in going),
    )


@kontekst.command(examples=("kontekst sessions", "kontekst sessions -l 5 --format json"))
@click.option(
    "-l",
    "--limit",
    type=click.IntRange(1, 500),
    default=20,
    show_default=True,
    help="Most sessions.",
)
@invocation
def sessions(run: Invocation, limit: int) -> None:
    """List the sessions that agents have worked in, the last one first."""
    found = run.backend.require_services().run_memory.sessions(limit)
    run.show(
        [_session_json(each) for each in found],
        lambda: _sessions_text(found),
        page=True,
        essential="\n".join(each.session_id for each in found),
    )


@kontekst.command(examples=("kontekst agents", "kontekst agents --format json"))
@invocation
def agents(run: Invocation) -> None:
    """List the agents that there are, and what is wrong with the files of any."""
    _show_members(run, run.backend.require_services().crew.list_agents(), "agents")


@kontekst.command(examples=("kontekst skills",))
@invocation
def skills(run: Invocation) -> None:
    """List the skills that there are, and what is wrong with the files of any."""
    _show_members(run, run.backend.require_services().crew.list_skills(), "skills")


def _run_json(found: RunStatus) -> dict[str, Any]:
    return {
        "run_id": found.run_id,
        "session_id": found.session_id,
        "agent": found.agent_name,
        "doing": found.doing,
        "started_ms": found.started_ms,
        "working_dir": found.working_dir,
        "prompt": found.prompt,
    }


def _run_lines(going: Sequence[RunStatus], now: int) -> list[str]:
    if not going:
        return ["No run goes on"]
    lines = []
    for each in going:
        age = rendering.duration(max(0, now - each.started_ms) / 1000)
        lines += [
            f"{each.run_id}  {each.agent_name}  {each.doing}, for {age}",
            f"  session {rendering.plain(each.session_id)}",
            f"  {rendering.excerpt(each.prompt, _PROMPT_CHARS)}",
        ]
    return lines


def _model_line(model: ModelStatus) -> str:
    if not model.endpoint:
        return f"Model: not running; {rendering.plain(model.trouble) or 'the next run starts it'}"
    own = f" (PID {model.pid})" if model.running else ""
    return f"Model: {model.endpoint}{own}, {'healthy' if model.healthy else 'does not answer'}"


def _session_json(found: RunSession) -> dict[str, Any]:
    return {
        "session_id": found.session_id,
        "agent": found.agent,
        "runs": found.runs,
        "outcome": found.outcome,
        "first_ms": found.first_ms,
        "last_ms": found.last_ms,
        "summary": found.summary,
    }


def _sessions_text(found: Sequence[RunSession]) -> str:
    if not found:
        return 'No agent has run yet; `kontekst "PROMPT"` has one work'
    lines = []
    for each in found:
        count = f"{each.runs:,} run{'s' if each.runs > 1 else ''}"
        outcome = _OUTCOMES.get(each.outcome, each.outcome)
        about = f"{rendering.plain(each.agent)}, {count}, {outcome}"
        lines += [
            f"{rendering.moment(each.last_ms)}  {rendering.plain(each.session_id)}  ({about})",
            f"  {rendering.excerpt(each.summary, _PROMPT_CHARS)}",
        ]
    return "\n".join(lines)


def _show_members(run: Invocation, found: Sequence[CatalogEntry], kind: str) -> None:
    width = max((len(each.name) for each in found), default=0)
    run.show(
        [
            {
                "name": each.name,
                "description": each.description,
                "built_in": each.built_in,
                "problem": each.problem,
            }
            for each in found
        ],
        lambda: (
            "\n".join(_member_text(each, width) for each in found)
            or f"There are no {kind} yet: docs/howto/agent-files.md tells how to write one"
        ),
        essential="\n".join(each.name for each in found),
    )


def _member_text(found: CatalogEntry, width: int) -> str:
    told = found.description
    if found.problem:
        told = "wrong: " + found.problem.replace("\n", f"\n{' ' * (width + 2)}")
    return f"{rendering.plain(found.name):<{width}}  {rendering.plain(told)}"


for command in (prompt, completion):
    kontekst.add_command(command)

# Options whose next word is their value.
_WITH_VALUE = frozenset(
    name
    for option in (*kontekst.params, *prompt.params)
    if isinstance(option, click.Option) and not option.is_flag and not option.count
    for name in option.opts
)
