"""`memory-daemon scheduler`: the background jobs."""

import click

from agent_memory.domain.errors import NotFound
from agent_memory.domain.jobs import JobStatus, Result
from agent_memory.interfaces import wire
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Group, Invocation, invocation

_MEANING = {
    "0 0 * * * *": "hourly",
    "0 */15 * * * *": "every 15 min",
    "0 * * * * *": "every minute",
}


@click.group(
    cls=Group,
    examples=("memory-daemon scheduler status", "memory-daemon scheduler pause hourly-rollup"),
)
def scheduler() -> None:
    """Look at and steer the background jobs."""


@scheduler.command(examples=("memory-daemon scheduler status --format json",))
@invocation
def status(run: Invocation) -> None:
    """Show every job: when it ran, how that went, when it runs next."""
    running, jobs = run.backend.here().jobs.status()
    run.show(
        {"scheduler_running": running, "jobs": [wire.job_json(job) for job in jobs]},
        lambda: "\n\n".join(
            [f"Scheduler: {'Running' if running else 'Stopped'}", "Jobs:\n" + _job_text(jobs[0])]
            + [_job_text(job) for job in jobs[1:]]
        ),
    )


@scheduler.command(examples=("memory-daemon scheduler pause hourly-rollup",))
@click.argument("job_name")
@invocation
def pause(run: Invocation, job_name: str) -> None:
    """Pause a job: it does not run, by cron or for new work, until it is resumed."""
    _done(run, job_name, run.backend.here().jobs.pause(job_name), "paused")


@scheduler.command(examples=("memory-daemon scheduler resume hourly-rollup",))
@click.argument("job_name")
@invocation
def resume(run: Invocation, job_name: str) -> None:
    """Resume a paused job."""
    _done(run, job_name, run.backend.here().jobs.resume(job_name), "resumed")


@scheduler.command("run", examples=("memory-daemon scheduler run segment-summarizer",))
@click.argument("job_name")
@invocation
def run_job(run: Invocation, job_name: str) -> int:
    """Run a job now and wait for it."""
    job = run.backend.here().jobs.run(job_name)
    run.show(wire.job_json(job), lambda: _job_text(job))
    return 0 if job.state.last_result is Result.SUCCESS else 1


def _done(run: Invocation, job_name: str, error: str | None, what: str) -> None:
    if error is not None:
        raise NotFound(error)
    run.show({"success": True}, lambda: f"Job '{job_name}' {what}")


def _job_text(job: JobStatus) -> str:
    state = job.state
    meaning = f" ({_MEANING[job.cron]})" if job.cron in _MEANING else ""
    shown = "RUNNING" if job.running else "Paused" if state.paused else "Active"
    last = "never"
    if state.last_run_ms:
        seconds = state.last_duration_ms / 1000
        last = f"{rendering.moment(state.last_run_ms)} ({seconds:g}s, {state.last_result.name})"
    lines = [
        f"  {job.name}",
        f"    Schedule: {job.cron}{meaning}",
        f"    Status: {shown}",
        f"    Last Run: {last}",
        f"    Next Run: {rendering.moment(job.next_run_ms)}",
        f"    Stats: {state.run_count:,} runs, {state.error_count:,} errors",
    ]
    if state.last_error:
        lines.append(f"    Last Error: {rendering.excerpt(state.last_error, 200)}")
    return "\n".join(lines)
