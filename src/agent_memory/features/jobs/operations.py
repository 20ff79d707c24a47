"""Operations on the background jobs."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_memory.features.jobs.services.jobs import Jobs
from agent_memory.kernel.access import Role
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.jobs import JobStatus
from agent_memory.kernel.operations import operation


class JobName(Struct, frozen=True, kw_only=True):
    job_name: Annotated[str, Meta(max_length=100, description="The name of a job.")]


class Job(Struct, frozen=True, kw_only=True):
    """A background job. Times are Unix milliseconds; `last_run_ms` is 0 before the first run."""

    job_name: str
    cron_expr: str
    last_run_ms: int
    last_duration_ms: int
    last_result: str
    last_error: str | None
    next_run_ms: int
    run_count: int
    error_count: int
    is_running: bool
    is_paused: bool

    @classmethod
    def from_status(cls, job: JobStatus) -> "Job":
        state = job.state
        return cls(
            job_name=job.name,
            cron_expr=job.cron,
            last_run_ms=state.last_run_ms,
            last_duration_ms=state.last_duration_ms,
            last_result=state.last_result.name.lower() if state.last_result else "unspecified",
            last_error=state.last_error,
            next_run_ms=job.next_run_ms,
            run_count=state.run_count,
            error_count=state.error_count,
            is_running=job.running,
            is_paused=state.paused,
        )


class JobList(Struct, frozen=True, kw_only=True):
    scheduler_running: bool
    jobs: list[Job]


@operation(
    "jobs.list",
    role=Role.ADMIN,
    http="GET /api/v1/jobs/",
    rpc="memory.MemoryService.GetSchedulerStatus",
)
def list_jobs(jobs: Jobs) -> JobList:
    """Show all jobs, with their last and next run."""
    running, found = jobs.status()
    return JobList(scheduler_running=running, jobs=[Job.from_status(job) for job in found])


@operation(
    "jobs.run",
    role=Role.ADMIN,
    http="POST /api/v1/jobs/{job_name}/run/",
    rpc="memory.MemoryService.RunJob",
)
def run_job(jobs: Jobs, request: JobName) -> Job:
    """Run a job now, and wait until it ends."""
    return Job.from_status(jobs.run(request.job_name))


@operation(
    "jobs.pause",
    role=Role.ADMIN,
    http="POST /api/v1/jobs/{job_name}/pause/",
    rpc="memory.MemoryService.PauseJob",
)
def pause_job(jobs: Jobs, request: JobName) -> Job:
    """Pause a job until you resume it.

    A paused job runs neither by its schedule nor when new work arrives.
    """
    jobs.pause(request.job_name)
    return _read_job(jobs, request.job_name)


@operation(
    "jobs.resume",
    role=Role.ADMIN,
    http="POST /api/v1/jobs/{job_name}/resume/",
    rpc="memory.MemoryService.ResumeJob",
)
def resume_job(jobs: Jobs, request: JobName) -> Job:
    """Resume a paused job."""
    jobs.resume(request.job_name)
    return _read_job(jobs, request.job_name)


def _read_job(jobs: Jobs, name: str) -> Job:
    for job in jobs.status()[1]:
        if job.name == name:
            return Job.from_status(job)
    raise NotFound(f"no job {name!r}")
