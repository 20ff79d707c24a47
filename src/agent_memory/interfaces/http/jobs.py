"""Background jobs over REST: read, run, pause and resume them."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Response

from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.wire.operations import job_json
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.jobs import JobStatus

Object = dict[str, Any]


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/jobs", tags=["jobs"])
    jobs, run = dependencies.services.jobs, dependencies.bridge.run

    def find(name: str) -> JobStatus:
        for job in jobs.status()[1]:
            if job.name == name:
                return job
        raise NotFound(f"no job {name!r}")

    @routes.get("/", summary="The background jobs", response_model=Object)
    async def list_jobs() -> Response:
        running, found = await run(jobs.status)
        return answers.render_json(
            {"scheduler_running": running, "jobs": [job_json(job) for job in found]}
        )

    @routes.post(
        "/{name}/run/",
        summary="Run a job now and wait for its end",
        response_model=Object,
        responses=MISSING,
    )
    async def run_job(name: str) -> Response:
        return answers.render_json(job_json(await run(lambda: jobs.run(name))))

    @routes.post("/{name}/pause/", summary="Pause a job", response_model=Object, responses=MISSING)
    async def pause_job(name: str) -> Response:
        return await change(jobs.pause, name)

    @routes.post(
        "/{name}/resume/", summary="Resume a job", response_model=Object, responses=MISSING
    )
    async def resume_job(name: str) -> Response:
        return await change(jobs.resume, name)

    async def change(act: Callable[[str], str | None], name: str) -> Response:
        def apply() -> Response:
            if (error := act(name)) is not None:
                raise NotFound(error)
            return answers.render_json(job_json(find(name)))

        return await run(apply)

    return routes
