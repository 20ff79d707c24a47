"""`kontekst ps`, `sessions`, `agents` and `skills`: what agents on a local model do and can."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from agent_memory.features.knowledge.model.run_sessions import RunSession
from agent_memory.features.runs.services.agent_catalog import AgentCatalog, CatalogEntry
from agent_memory.features.runs.services.recorder import RunMemory
from agent_memory.features.runs.services.runs import Runs, RunStatus
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.cli.filters import limit_option
from agent_memory.kernel.status import ModelStatus
from agent_memory.platform.ports import Clock, ModelServer

_PROMPT_CHARS = 60


@click.command(cls=Command, examples=("kontekst ps", "kontekst ps --format json"))
@invocation
def ps(run: Invocation) -> None:
    """Show the active runs and the model server."""
    services = run.services
    runs, model = services[Runs].list_active(), services[ModelServer].status()
    now = services[Clock].now()
    run.show(
        {
            "runs": [_run_json(active) for active in runs],
            "model": asdict(model),
        },
        lambda: "\n".join([*_run_lines(runs, now), _model_line(model)]),
        essential="\n".join(active.run_id for active in runs),
    )


@click.command(cls=Command, examples=("kontekst sessions", "kontekst sessions -l 5 --format json"))
@limit_option(20, help="List at most this many.")
@invocation
def sessions(run: Invocation, limit: int) -> None:
    """List the sessions of agents, latest first."""
    listed = run.services[RunMemory].sessions(limit)
    run.show(
        [_session_json(session) for session in listed],
        lambda: _sessions_text(listed),
        page=True,
        essential="\n".join(session.session_id for session in listed),
    )


@click.command(cls=Command, examples=("kontekst agents", "kontekst agents --format json"))
@invocation
def agents(run: Invocation) -> None:
    """List the agents, and any errors in their files."""
    _show_entries(run, run.services[AgentCatalog].list_agents(), "agents")


@click.command(cls=Command, examples=("kontekst skills",))
@invocation
def skills(run: Invocation) -> None:
    """List the skills, and any errors in their files."""
    _show_entries(run, run.services[AgentCatalog].list_skills(), "skills")


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
