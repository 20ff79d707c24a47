"""The jobs that need several features: contents, the outbox and the indexes."""

import structlog

from agent_memory.features.forgetting.adapters.purge_requests import StoredPurges
from agent_memory.features.forgetting.model.forgetting import ForgettingReport
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.jobs.services.jobs import Jobs, JobTasks
from agent_memory.features.log.ports import Events, Outbox, OutboxLearner, OutboxNeed
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.services.background_rebuild import BackgroundRebuild
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.kernel.jobs import (
    EMBEDDING,
    OUTBOX,
    REBUILD,
    ROLLUP,
    SEGMENTS,
    Check,
    JobScheduler,
    ScheduledJob,
)
from agent_memory.kernel.signals import DaemonSignal
from agent_memory.kernel.turns import TurnLock
from agent_memory.platform.base import Platform

logger = structlog.get_logger()


def build(context: Composition) -> None:
    platform, send = context[Platform], context.signals.send
    sharing, purges = platform.sharing, context.find(StoredPurges)
    indexes, rebuild = context[Indexes], context[BackgroundRebuild]
    tasks = JobTasks(
        segmenting=context[Segmenter],
        rollup=context[Rollup],
        log=context[Events],
        outbox=context[Outbox],
        writer=context[StoredToc],
        indexes=indexes,
        learners=context.contributions(OutboxLearner),
        on_learning_failure=_log_learning_failure,
        notes=context[NoteWriter],
        forgetting=context[Forgetting],
        on_forgetting_finished=_log_forgetting,
        toc_lock=context[TurnLock],
        rebuild=rebuild,
        injections=context[Injections],
        needs=context.contributions(OutboxNeed),
        leadership=platform.leadership,
        find_slowest=(lambda: None) if sharing is None else sharing.find_slowest,
        run_due_purge=(lambda _check: None) if purges is None else purges.run_due,
    )
    if sharing is not None:
        sharing.report_reached(tasks.count_reached)

    def cut_segments(check: Check) -> None:
        tasks.cut_segments(check)
        send(DaemonSignal.SEGMENTS_CUT)

    def process_outbox(check: Check) -> None:
        send(DaemonSignal.OUTBOX_BEGINS)
        if tasks.process_outbox(check):
            send(DaemonSignal.OUTBOX_LEFT)
        if indexes.has_backlog():
            send(DaemonSignal.BACKLOG_LEFT)
        if rebuild.is_due():  # it may have waited for the index
            send(DaemonSignal.REBUILD_DUE)

    def embed_backlog(check: Check) -> None:
        if indexes.embed_backlog(check):
            send(DaemonSignal.BACKLOG_LEFT)

    def rebuild_contents(check: Check) -> None:
        if tasks.rebuild_contents(check):
            send(DaemonSignal.CONTENTS_REBUILT)

    for job in (
        ScheduledJob(
            name=ROLLUP,
            cron="0 0 * * * *",
            work=tasks.roll_up,
            woken_by=(DaemonSignal.SEGMENTS_CUT,),
        ),
        ScheduledJob(
            name=SEGMENTS,
            cron="0 */15 * * * *",
            work=cut_segments,
            woken_by=(DaemonSignal.EVENT_RECORDED, DaemonSignal.FOREIGN_EVENTS),
        ),
        ScheduledJob(
            name=OUTBOX,
            cron="0 * * * * *",
            work=process_outbox,
            woken_by=(
                DaemonSignal.EVENT_RECORDED,
                DaemonSignal.MEMORY_CHANGED,
                DaemonSignal.FACT_CHANGED,
                DaemonSignal.FOREIGN_CHANGE,
                DaemonSignal.SEGMENTS_CUT,
                DaemonSignal.OUTBOX_LEFT,
                DaemonSignal.CONTENTS_REBUILT,
            ),
        ),
        ScheduledJob(
            name=REBUILD,
            cron="0 0 * * * *",
            work=rebuild_contents,
            woken_by=(DaemonSignal.REBUILD_DUE, DaemonSignal.CONTENTS_REBUILT),
        ),
        ScheduledJob(
            name=EMBEDDING,
            cron="0 * * * * *",
            work=embed_backlog,
            woken_by=(DaemonSignal.BACKLOG_LEFT,),
        ),
    ):
        context.schedule(job)
    context.add(Jobs(scheduler=context[JobScheduler], leadership=platform.leadership))


def _log_learning_failure(exc: AgentMemoryError) -> None:
    logger.error("events.not_learned", error=str(exc))


def _log_forgetting(report: ForgettingReport) -> None:
    """Log a forgetting that a stop or a crash had cut off: its caller is gone."""
    level = logger.warning if report.proof.found_in else logger.info
    level("forgetting.finished", events=report.events, found_in=report.proof.found_in)
