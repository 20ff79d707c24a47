"""`memory-daemon scheduler`: the background jobs."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.backend import JobControl
from agent_memory.interfaces.cli.commands import Group, Invocation, invocation
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
@click.option(
    "-e",
    "--endpoint",
    help="Ask this daemon over gRPC, e.g. http://[::1]:50051. MEMORY_KEY may hold a bearer key.",
)
@click.pass_context
def scheduler(ctx: click.Context, endpoint: str | None) -> None:
    """Look at and steer the background jobs."""
    ctx.meta["endpoint"] = endpoint


@scheduler.command(examples=("memory-daemon scheduler status --format json",))
@invocation
@click.pass_context
def status(ctx: click.Context, run: Invocation) -> None:
    """Show every job: when it ran, how that went, when it runs next."""
    with _open_jobs(ctx, run) as steering:
        running, jobs = steering.status()
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
@click.pass_context
def pause(ctx: click.Context, run: Invocation, job_name: str) -> None:
    """Pause a job: it does not run, by cron or for new work, until it is resumed."""
    with _open_jobs(ctx, run) as steering:
        error = steering.pause(job_name)
    _show_outcome(run, job_name, error, "paused")


@scheduler.command(examples=("memory-daemon scheduler resume hourly-rollup",))
@click.argument("job_name")
@invocation
@click.pass_context
def resume(ctx: click.Context, run: Invocation, job_name: str) -> None:
    """Resume a paused job."""
    with _open_jobs(ctx, run) as steering:
        error = steering.resume(job_name)
    _show_outcome(run, job_name, error, "resumed")


@scheduler.command("run", examples=("memory-daemon scheduler run segment-summarizer",))
@click.argument("job_name")
@invocation
@click.pass_context
def run_job(ctx: click.Context, run: Invocation, job_name: str) -> int:
    """Run a job now and wait for it."""
    with _open_jobs(ctx, run) as steering:
        job = steering.run(job_name)
    run.show(job_json(job), lambda: _job_text(job))
    return 0 if job.state.last_result is JobOutcome.SUCCESS else 1


@contextmanager
def _open_jobs(ctx: click.Context, run: Invocation) -> Iterator[JobControl]:
    endpoint = ctx.meta["endpoint"]
    if endpoint is None:
        yield run.backend.require_services().jobs
    else:
        with run.backend.connect_remote(
            endpoint, run.terminal.call.environ.get("MEMORY_KEY")
        ) as remote:
            yield remote


def _show_outcome(run: Invocation, job_name: str, error: str | None, what: str) -> None:
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
