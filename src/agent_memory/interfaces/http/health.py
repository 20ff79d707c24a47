"""How the daemon is, over REST: hooks by agent, failures, the disk, and the settings."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Response

from agent_memory.features.hooks.model.installations import AgentState, InstallScope
from agent_memory.features.hooks.services.installing import Installing
from agent_memory.features.monitoring.services.failures import RecentFailures
from agent_memory.features.monitoring.services.metrics import Metrics
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import ResponseModel
from agent_memory.interfaces.observing import AgentHookStats
from agent_memory.interfaces.setting_list import SettingsReader
from agent_memory.kernel.callers import Caller


class AgentHooksAnswer(ResponseModel):
    """The hooks of an agent. `installed` is null for calls of an unknown agent. The durations are
    those of the last 1,000 calls, in the daemon."""

    agent: str | None
    title: str
    installed: str | None
    calls: int
    failed: int
    last_ms: int | None
    p50_ms: float | None
    p99_ms: float | None


class HooksAnswer(ResponseModel):
    agents: list[AgentHooksAnswer]


class FailureAnswer(ResponseModel):
    """What the daemon logged as a warning or an error, by name. The log has the details."""

    name: str
    level: str
    count: int
    first_ms: int
    last_ms: int


class ErrorsAnswer(ResponseModel):
    errors: list[FailureAnswer]


class DiskPart(ResponseModel):
    kind: str
    bytes: int


class DiskAnswer(ResponseModel):
    parts: list[DiskPart]


class SettingAnswer(ResponseModel):
    """A setting. `source` is `default`, `flag`, the path of a file or the name of a variable."""

    key: str
    value: Any
    default: Any
    source: str
    applies: str
    description: str
    restart_needed: bool


class SettingsAnswer(ResponseModel):
    settings: list[SettingAnswer]
    ignored: list[str]
    problem: str | None


def build_router(dependencies: HttpDependencies, reader: SettingsReader) -> APIRouter:
    routes = APIRouter(tags=["status"])
    run, services = dependencies.bridge.run, dependencies.services
    # The folder is the user's home: entries of projects do not count here.
    home = Caller(folder=dependencies.environ.get("HOME") or "/", environ=dependencies.environ)

    @routes.get(
        "/hooks/",
        summary="Hook calls since the daemon started, by agent",
        response_model=HooksAnswer,
    )
    async def list_hooks() -> Response:
        def read() -> Response:
            states = services[Installing].state(home, mcp=True)
            counted = {each.agent: each for each in dependencies.observer.list_agents()}
            rows = [
                _hooks_json(state, counted.pop(state.agent.value, None))
                for state in states
                if state.present or state.agent.value in counted
            ]
            rows += [_hooks_json(None, stats) for stats in counted.values()]
            rows.sort(key=lambda row: -row["calls"])
            return answers.render_json({"agents": rows})

        return await run(read)

    @routes.get("/errors/", summary="Recent errors, by name", response_model=ErrorsAnswer)
    async def list_errors() -> Response:
        failures = services[RecentFailures].list_newest()
        return answers.render_json({"errors": [asdict(each) for each in failures]})

    @routes.get("/disk/", summary="What the daemon keeps on disk", response_model=DiskAnswer)
    async def measure_disk() -> Response:
        sizes = await run(services[Metrics].measure_disk)
        parts = [{"kind": kind, "bytes": size} for kind, size in sizes.items()]
        return answers.render_json({"parts": parts})

    @routes.get(
        "/settings/",
        summary="All settings, with their values and where those come from",
        response_model=SettingsAnswer,
    )
    async def list_settings() -> Response:
        """Secrets are removed. `memory config` changes settings."""
        return answers.render_json(await run(reader.read))

    return routes


def _hooks_json(state: AgentState | None, stats: AgentHookStats | None) -> dict[str, Any]:
    return {
        "agent": None if state is None else state.agent.value,
        "title": "Unknown agent" if state is None else state.title,
        "installed": None if state is None else _describe_installation(state),
        "calls": 0 if stats is None else stats.calls,
        "failed": 0 if stats is None else stats.failed,
        "last_ms": None if stats is None else stats.last_ms,
        "p50_ms": None if stats is None else stats.p50_ms,
        "p99_ms": None if stats is None else stats.p99_ms,
    }


def _describe_installation(state: AgentState) -> str:
    user = next(each for each in state.scopes if each.scope is InstallScope.USER)
    return "plugin" if user.plugin is not None else user.standing.value
