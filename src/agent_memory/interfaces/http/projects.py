"""Projects over REST, and whether hooks record there.

A program may tighten what is recorded. Only a person may loosen it, on the page: an agent that has
a key must not switch its own recording on.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from agent_memory import config
from agent_memory.features.hooks.model.consent import Pause
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.projects.services.projects import ProjectOverview, ProjectSummary
from agent_memory.interfaces import recording_settings
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING
from agent_memory.interfaces.http.callers import check_person
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import (
    Limit,
    Offset,
    RequestModel,
    ResponseModel,
    show_example,
)
from agent_memory.interfaces.recording_settings import decision_json, show_path

MAX_PAUSE_SECONDS = 10 * 366 * 86_400


class Decision(ResponseModel):
    """Whether hooks record in a folder, and why: on, paused, excluded, not-in-projects, ..."""

    recorded: bool
    reason: str
    detail: str
    until_ms: int | None


class ProjectAnswer(ResponseModel):
    """`recording` is null if no folder of the project is known. `shared` tells that its memories
    are in the git notes of a clone; `pending` changes are not in the notes yet."""

    name: str
    domain: str
    folders: list[str]
    recording: Decision | None
    origin: str | None
    shared: bool
    remote: str | None
    last_sync_ms: int | None
    pending: int
    sessions: int
    events: int
    memories: int
    to_review: int
    last_ms: int | None


class ProjectsAnswer(ResponseModel):
    """`others` are the memories of no project: your own, and those of the organization."""

    items: list[ProjectAnswer]
    total: int
    others: list[ProjectAnswer]


class RecordingAnswer(ResponseModel):
    """Where hooks record: `all` folders, or with `opt-in` those that you chose."""

    enabled: bool
    mode: Literal["all", "opt-in"]
    paused: bool
    until_ms: int | None
    problem: str | None


class ProjectRecording(RequestModel):
    recorded: bool

    model_config = show_example({"recorded": False})


class RecordingMode(RequestModel):
    mode: Literal["all", "opt-in"]

    model_config = show_example({"mode": "opt-in"})


class PauseLength(RequestModel):
    seconds: Annotated[
        int | None,
        Field(ge=1, le=MAX_PAUSE_SECONDS, description="null: until someone resumes."),
    ] = None

    model_config = show_example({"seconds": 3600})


def build_routers(dependencies: HttpDependencies) -> tuple[APIRouter, ...]:
    return _projects(dependencies), _recording(dependencies)


def _projects(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/projects", tags=["projects"])
    run, services = dependencies.bridge.run, dependencies.services
    environ = dependencies.environ

    @routes.get("/", summary="Projects, the last active first", response_model=ProjectsAnswer)
    async def list_projects(limit: Limit = 50, offset: Offset = 0) -> Response:
        def read() -> Response:
            page, total = services[ProjectOverview].list_page(environ, limit=limit, offset=offset)
            others = services[ProjectOverview].list_others()
            return answers.render_json(
                {
                    "items": [_project_json(each) for each in page],
                    "total": total,
                    "others": [_project_json(each) for each in others],
                }
            )

        return await run(read)

    @routes.get(
        "/{name:path}/", summary="One project", response_model=ProjectAnswer, responses=MISSING
    )
    async def read_project(name: str) -> Response:
        summary = await run(lambda: services[ProjectOverview].read(name, environ))
        return answers.render_json(_project_json(summary))

    @routes.put(
        "/{name:path}/recording/",
        summary="Switch the recording of a project on or off",
        response_model=ProjectAnswer,
        responses=MISSING,
    )
    async def switch_recording(name: str, change: ProjectRecording, request: Request) -> Response:
        """Hooks record it, or not, from their next call on. What was recorded before stays. Only
        the page may switch it on."""
        if change.recorded:
            check_person(request, "allow recording", "memory on")

        def switch() -> Response:
            folders, file = services[ProjectOverview].find_folders(name), _find_file(dependencies)
            if change.recorded:
                recording_settings.allow_folders(services[HookHandling], file, folders, environ)
            else:
                recording_settings.exclude_folders(services[RecordingConsent], file, folders)
            return answers.render_json(_project_json(services[ProjectOverview].read(name, environ)))

        return await run(switch)

    return routes


def _recording(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/recording", tags=["projects"])
    run, services = dependencies.bridge.run, dependencies.services
    consent = services[RecordingConsent]

    def render() -> Response:
        rules = consent.load_rules("/", dependencies.environ)
        pause = consent.read_pause()
        return answers.render_json(
            {
                "enabled": rules.enabled,
                "mode": "opt-in" if rules.opt_in else "all",
                "paused": pause is not None,
                "until_ms": None if pause is None else pause.until_ms,
                "problem": _find_problem(pause) or rules.unreadable or None,
            }
        )

    @routes.get("/", summary="Where hooks record", response_model=RecordingAnswer)
    async def read_recording() -> Response:
        return await run(render)

    @routes.patch("/", summary="Record everywhere, or opt in", response_model=RecordingAnswer)
    async def change_mode(change: RecordingMode, request: Request) -> Response:
        """With `opt-in`, hooks record only projects that you switch on. Only the page may."""
        check_person(request, "change hooks.mode", "memory config set hooks.mode")

        def apply() -> Response:
            recording_settings.set_mode(_find_file(dependencies), change.mode)
            return render()

        return await run(apply)

    @routes.post("/pause/", summary="Pause all recording", response_model=RecordingAnswer)
    async def pause(length: PauseLength) -> Response:
        def apply() -> Response:
            consent.pause(None if length.seconds is None else length.seconds * 1000)
            return render()

        return await run(apply)

    @routes.post("/resume/", summary="End the pause", response_model=RecordingAnswer)
    async def resume(request: Request) -> Response:
        """Hooks record again. Only the page may end a pause."""
        check_person(request, "end a pause", "memory resume")

        def apply() -> Response:
            recording_settings.resume(services[HookHandling])
            return render()

        return await run(apply)

    return routes


def _find_file(dependencies: HttpDependencies) -> Path:
    return config.folders(dependencies.environ).config_file


def _find_problem(pause: Pause | None) -> str:
    return "" if pause is None else pause.problem


def _project_json(project: ProjectSummary) -> dict[str, Any]:
    return {
        "name": project.name,
        "domain": project.domain,
        "folders": [show_path(folder) for folder in project.folders],
        "recording": None if project.recording is None else decision_json(project.recording),
        "origin": show_path(project.origin) or None,
        "shared": project.is_shared,
        "remote": project.remote or None,
        "last_sync_ms": project.last_sync_ms,
        "pending": project.pending,
        "sessions": project.sessions,
        "events": project.events,
        "memories": project.memories,
        "to_review": project.to_review,
        "last_ms": project.last_ms,
    }
