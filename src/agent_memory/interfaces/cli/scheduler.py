"""`memory-daemon scheduler`: the background jobs."""

import click

from agent_memory.features.jobs.operations import (
    Job,
    JobList,
    list_jobs,
    pause_job,
    resume_job,
    run_job,
)
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Group, endpoint_option
from agent_memory.interfaces.cli.derived import add_command

_MEANING = {
    "0 0 * * * *": "hourly",
    "0 */15 * * * *": "every 15 min",
    "0 * * * * *": "every minute",
}


@click.group(
    cls=Group,
    examples=("memory-daemon scheduler status", "memory-daemon scheduler pause hourly-rollup"),
)
@endpoint_option
def scheduler() -> None:
    """Show and control the background jobs."""


def _format_jobs(answer: JobList) -> str:
    state = "Running" if answer.scheduler_running else "Stopped"
    jobs = "\n\n".join(map(_format_job, answer.jobs))
    return f"Scheduler: {state}\n\nJobs:\n{jobs}"


def _format_job(job: Job) -> str:
    runs, errors = rendering.count(job.run_count, "run"), rendering.count(job.error_count, "error")
    meaning = f" ({_MEANING[job.cron_expr]})" if job.cron_expr in _MEANING else ""
    shown = "RUNNING" if job.is_running else "Paused" if job.is_paused else "Active"
    last = "never"
    if job.last_run_ms:
        color = rendering.GOOD if _has_succeeded(job) else rendering.BAD
        result = rendering.paint(job.last_result.upper(), color)
        seconds = job.last_duration_ms / 1000
        last = f"{rendering.format_zoned(job.last_run_ms)} ({seconds:g}s, {result})"
    lines = [
        f"  {rendering.paint(job.job_name, rendering.HEAD)}",
        f"    Schedule: {job.cron_expr}{meaning}",
        f"    Status: {shown}",
        f"    Last Run: {last}",
        f"    Next Run: {rendering.format_zoned(job.next_run_ms)}",
        f"    Stats: {runs}, {errors}",
    ]
    if job.last_error:
        lines.append(f"    Last Error: {rendering.excerpt(job.last_error, 200)}")
    return "\n".join(lines)


def _has_succeeded(job: Job) -> bool:
    return job.last_result == "success"


add_command(
    scheduler,
    list_jobs,
    lambda jobs, _: _format_jobs(jobs),
    name="status",
    examples=("memory-daemon scheduler status --format json",),
)
add_command(
    scheduler,
    pause_job,
    lambda _, request: f"Job '{request.job_name}' paused",
    show=lambda _: {"success": True},
    examples=("memory-daemon scheduler pause hourly-rollup",),
)
add_command(
    scheduler,
    resume_job,
    lambda _, request: f"Job '{request.job_name}' resumed",
    show=lambda _: {"success": True},
    examples=("memory-daemon scheduler resume hourly-rollup",),
)
add_command(
    scheduler,
    run_job,
    lambda job, _: _format_job(job),
    examples=("memory-daemon scheduler run segment-summarizer",),
    exit_code=lambda job: 0 if _has_succeeded(job) else 1,
)
