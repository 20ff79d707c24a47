"""Build the background jobs."""

import structlog

from agent_memory.bootstrap.build_forgetting import ForgettingFeature
from agent_memory.bootstrap.build_injections import InjectionsFeature
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.bootstrap.build_toc import TocFeature
from agent_memory.bootstrap.build_upstream import UpstreamFeature
from agent_memory.bootstrap.wake_ups import WakeUps
from agent_memory.features.forgetting.model.forgetting import ForgettingReport
from agent_memory.features.jobs.adapters.cron import CronScheduler, ScheduledJob
from agent_memory.features.jobs.adapters.job_store import StoredJobs
from agent_memory.features.jobs.services.jobs import Check, JobTasks
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.kernel.jobs import CRONS, EMBEDDING, OUTBOX, REBUILD, ROLLUP, SEGMENTS, TEAM

logger = structlog.get_logger()


def build_scheduler(
    platform: Platform,
    log: LogFeature,
    toc: TocFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    recall: RecallFeature,
    injections: InjectionsFeature,
    forgetting: ForgettingFeature,
    changes: ChangeFeed,
    upstream: UpstreamFeature,
    wake_ups: WakeUps,
) -> CronScheduler:
    sharing = platform.sharing
    tasks = JobTasks(
        segmenting=toc.segmenting,
        rollup=toc.rollup,
        outbox=log.outbox,
        writer=toc.store,
        indexes=recall.indexes,
        learning=knowledge.learning,
        on_learning_failure=_log_learning_failure,
        notes=memories.notes,
        forgetting=forgetting.forgetting,
        on_forgetting_finished=_log_forgetting,
        toc_lock=toc.lock,
        rebuild=toc.background_rebuild,
        changes=changes,
        injections=injections.injections,
        exchange=upstream.exchange,
        leadership=platform.leadership,
        find_slowest=(lambda: None) if sharing is None else sharing.find_slowest,
        run_due_purge=forgetting.run_due_purge,
    )
    if sharing is not None:
        sharing.report_reached(tasks.count_reached)

    def cut_segments(check: Check) -> None:
        tasks.cut_segments(check)
        wake_ups.on_segments_cut()

    def process_outbox(check: Check) -> None:
        if upstream.exchange.forwarding.is_active():
            wake_ups.on_team_news()
        if tasks.process_outbox(check):
            wake_ups.on_outbox_left()
        if recall.indexes.has_backlog():
            wake_ups.on_backlog_left()
        if toc.background_rebuild.is_due():  # it may have waited for the index
            wake_ups.on_rebuild_due()

    def embed_backlog(check: Check) -> None:
        if recall.indexes.embed_backlog(check):
            wake_ups.on_backlog_left()

    def rebuild_contents(check: Check) -> None:
        if tasks.rebuild_contents(check):
            wake_ups.on_contents_rebuilt()

    work = {
        ROLLUP: tasks.roll_up,
        SEGMENTS: cut_segments,
        OUTBOX: process_outbox,
        REBUILD: rebuild_contents,
        EMBEDDING: embed_backlog,
        TEAM: upstream.exchange.run,
    }
    return CronScheduler(
        [ScheduledJob(name=name, cron=CRONS[name], work=task) for name, task in work.items()],
        StoredJobs(platform.local),
        platform.clock,
        enabled=platform.settings.scheduler.enabled,
        foreground=platform.foreground,
    )


def _log_learning_failure(exc: AgentMemoryError) -> None:
    logger.error("knowledge.not_learned", error=str(exc))


def _log_forgetting(report: ForgettingReport) -> None:
    """Log a forgetting that a stop or a crash had cut off: its caller is gone."""
    level = logger.warning if report.proof.found_in else logger.info
    level("forgetting.finished", events=report.events, found_in=report.proof.found_in)
