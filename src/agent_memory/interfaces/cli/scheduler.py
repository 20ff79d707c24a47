"""`memory-daemon scheduler`: the background jobs."""

from contextlib import AbstractContextManager

import click

from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.backend import JobControl
from agent_memory.interfaces.cli.commands import Group, Invocation, endpoint_option, invocation
from agent_memory.interfaces.wire.operations import job_json
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.jobs import JobOutcome, JobStatus

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


@scheduler.command(examples=("memory-daemon scheduler status --format json",))
@invocation
def status(run: Invocation) -> None:
    """Show all jobs, with their last and next run."""
    with _open_jobs(run) as control:
        running, jobs = control.status()
    run.show(
        {"scheduler_running": running, "jobs": [job_json(job) for job in jobs]},
        lambda: "\n\n".join(
            [f"Scheduler: {'Running' if running else 'Stopped'}", "Jobs:\n" + _job_text(jobs[0])]
            + [_job_text(job) for job in jobs[1:]]
        ),
    )


@scheduler.command(examples=("memory-daemon scheduler pause hourly-rollup",))
@click.argument("job_name")
@invocation
def pause(run: Invocation, job_name: str) -> None:
    """Pause a job until you resume it.

    A paused job runs neither by its schedule nor when new work arrives.
    """
    with _open_jobs(run) as control:
        error = control.pause(job_name)
    _show_outcome(run, job_name, error, "paused")


@scheduler.command(examples=("memory-daemon scheduler resume hourly-rollup",))
@click.argument("job_name")
@invocation
def resume(run: Invocation, job_name: str) -> None:
    """Resume a paused job."""
    with _open_jobs(run) as control:
        error = control.resume(job_name)
    _show_outcome(run, job_name, error, "resumed")


@scheduler.command("run", examples=("memory-daemon scheduler run segment-summarizer",))
@click.argument("job_name")
@invocation
def run_job(run: Invocation, job_name: str) -> int:
    """Run a job now, and wait until it ends."""
    with _open_jobs(run) as control:
        job = control.run(job_name)
    run.show(job_json(job), lambda: _job_text(job))
    return 0 if job.state.last_result is JobOutcome.SUCCESS else 1


def _open_jobs(run: Invocation) -> AbstractContextManager[JobControl]:
    return run.open_service(lambda services: services.jobs)


def _show_outcome(run: Invocation, job_name: str, error: str | None, what: str) -> None:
    if error is not None:
        raise NotFound(error)
    run.show({"success": True}, lambda: f"Job '{job_name}' {what}")


def _job_text(job: JobStatus) -> str:
    state = job.state
    runs, errors = (
        rendering.count(state.run_count, "run"),
        rendering.count(state.error_count, "error"),
    )
    meaning = f" ({_MEANING[job.cron]})" if job.cron in _MEANING else ""
    shown = "RUNNING" if job.running else "Paused" if state.paused else "Active"
    last = "never"
    if state.last_run_ms:
        seconds = state.last_duration_ms / 1000
        good = state.last_result is JobOutcome.SUCCESS
        result = rendering.paint(state.last_result.name, rendering.GOOD if good else rendering.BAD)
        last = f"{rendering.format_zoned(state.last_run_ms)} ({seconds:g}s, {result})"
    lines = [
        f"  {rendering.paint(job.name, rendering.HEAD)}",
        f"    Schedule: {job.cron}{meaning}",
        f"    Status: {shown}",
        f"    Last Run: {last}",
        f"    Next Run: {rendering.format_zoned(job.next_run_ms)}",
        f"    Stats: {runs}, {errors}",
    ]
    if state.last_error:
        lines.append(f"    Last Error: {rendering.excerpt(state.last_error, 200)}")
    return "\n".join(lines)
