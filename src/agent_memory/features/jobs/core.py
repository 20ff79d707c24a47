"""The scheduler of background jobs. Features add their jobs to it."""

from agent_memory.config import Settings
from agent_memory.features.jobs.adapters.cron import CronScheduler
from agent_memory.features.jobs.adapters.job_store import StoredJobs
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.jobs import JobScheduler
from agent_memory.platform.base import Platform


def build_core(context: Composition) -> None:
    platform = context[Platform]
    scheduler = CronScheduler(
        [],
        StoredJobs(platform.local),
        platform.clock,
        enabled=context[Settings].scheduler.enabled,
        foreground=platform.foreground,
    )
    context.add(scheduler)
    context.provide(JobScheduler, scheduler)
