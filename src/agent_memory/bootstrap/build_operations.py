"""Build what runs the daemon: background jobs, keys, metrics, verification."""

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from agent_memory.bootstrap import build_secrets
from agent_memory.bootstrap.build_answers import AnswersFeature
from agent_memory.bootstrap.build_forgetting import ForgettingFeature
from agent_memory.bootstrap.build_hooks import HooksFeature
from agent_memory.bootstrap.build_index import LEXICAL, VECTORS_FOLDER, IndexFeature
from agent_memory.bootstrap.build_injections import InjectionsFeature
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.bootstrap.build_toc import TocFeature
from agent_memory.bootstrap.build_upstream import UpstreamFeature
from agent_memory.bootstrap.folders import DaemonFolders
from agent_memory.bootstrap.wake_ups import WakeUps
from agent_memory.features.forgetting.model.forgetting import ForgettingReport
from agent_memory.features.memories.services.project_resolver import OWN_REPOSITORIES
from agent_memory.features.operations.adapters import folder_sizes
from agent_memory.features.operations.adapters.audit_store import StoredAudit
from agent_memory.features.operations.adapters.cron import CronScheduler, ScheduledJob
from agent_memory.features.operations.adapters.job_store import StoredJobs
from agent_memory.features.operations.adapters.key_ring import StoredKeyRing
from agent_memory.features.operations.adapters.revoked_keys import FILE as REVOKED_KEYS
from agent_memory.features.operations.adapters.revoked_keys import RevokedKeyFile
from agent_memory.features.operations.model.audit import AuditEntry
from agent_memory.features.operations.services.access import Access
from agent_memory.features.operations.services.admin import Admin
from agent_memory.features.operations.services.audit import AuditLog
from agent_memory.features.operations.services.failures import RecentFailures
from agent_memory.features.operations.services.jobs import Check, Jobs, JobTasks
from agent_memory.features.operations.services.metrics import Metrics
from agent_memory.features.operations.services.projects import ProjectOverview
from agent_memory.features.operations.services.verification import VECTORS, WORDS, Verification
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.kernel.jobs import CRONS, EMBEDDING, OUTBOX, REBUILD, ROLLUP, SEGMENTS, TEAM
from agent_memory.platform.store import families

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsFeature:
    access: Access
    audit: AuditLog | None  # of a team server
    admin: Admin
    jobs: Jobs
    metrics: Metrics
    failures: RecentFailures
    projects: ProjectOverview
    verification: Verification


def build_operations(
    platform: Platform,
    scheduler: CronScheduler,
    log: LogFeature,
    toc: TocFeature,
    index: IndexFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    recall: RecallFeature,
    answers: AnswersFeature,
    hooks: HooksFeature,
) -> OperationsFeature:
    settings, jobs = platform.settings, Jobs(scheduler=scheduler, leadership=platform.leadership)
    audit = _build_audit(platform)
    keys = StoredKeyRing(platform.store, RevokedKeyFile(platform.folders.data / REVOKED_KEYS))
    if platform.sharing is not None:
        platform.sharing.marks.listen(families.ACCESS_KEYS, keys.refresh_soon)
    clean = build_secrets.build_strict_cleaner(settings.security)
    index_checks = {WORDS: index.lexical.list_damaged_files}
    if index.vectors is not None:
        index_checks[VECTORS] = index.vectors.index.list_damaged_files

    return OperationsFeature(
        access=Access(
            keys=keys,
            clock=platform.clock,
            new_secret=_new_secret,
            team=settings.team.enabled,
            on_change=lambda action, name: None if audit is None else audit.note_key(action, name),
        ),
        audit=audit,
        admin=Admin(store=platform.maintenance),
        jobs=jobs,
        metrics=Metrics(
            log=log.events,
            indexes=recall.indexes,
            learning=knowledge.learning,
            notes=memories.note_queue,
            spool=hooks.spool,
            store=platform.maintenance,
            get_health=lambda: platform.store.health,
            jobs=jobs,
            folders=_list_folders(platform.folders),
            measure=folder_sizes.measure,
        ),
        failures=RecentFailures(platform.clock),
        projects=ProjectOverview(
            projects=memories.projects,
            resolver=memories.resolver,
            outlines=memories.editor.outlines,
            notes=memories.note_queue,
            knowledge=knowledge.store,
            log=log.events,
            consent=hooks.consent,
            remote=clean(settings.memories.remote),
            user_remote=clean(settings.memories.user_remote),
            org_remote=clean(settings.memories.org_repository),
        ),
        verification=Verification(
            check_store=platform.opened.check,
            index_checks=index_checks,
            memory_stats=answers.memory_stats,
            indexes=recall.indexes,
            rebuild=toc.rebuild,
        ),
    )


def _build_audit(platform: Platform) -> AuditLog | None:
    if not platform.settings.team.enabled:
        return None
    audit = AuditLog(
        StoredAudit(platform.store),
        platform.clock,
        days=platform.settings.team.audit_days,
        on_failure=_log_audit,
    )
    platform.closing.callback(audit.close)
    return audit


def _log_audit(entries: Sequence[AuditEntry], exc: AgentMemoryError) -> None:
    """Log entries that could not be stored: they must not be lost."""
    for entry in entries:
        logger.warning("audit.not_stored", error=str(exc), **asdict(entry))


def _list_folders(folders: DaemonFolders) -> dict[str, Sequence[Path]]:
    return {
        "store": [folders.db_path, folders.local],
        "word_index": [folders.index / LEXICAL],
        "vector_index": [folders.index / VECTORS_FOLDER],
        "notes": [folders.data / name for name in OWN_REPOSITORIES],
        "logs": [folders.logs],
        "spool": [folders.spool],
        "last_contexts": [folders.last_contexts],
        "summarizer": [folders.summarizer],
    }


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
        readers=platform.sharing,
        purges=forgetting.purges,
    )
    if platform.sharing is not None:
        platform.sharing.report_reached(tasks.count_reached)

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
        if tasks.embed_backlog(check):
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
        TEAM: tasks.sync_team,
    }
    return CronScheduler(
        [ScheduledJob(name=name, cron=CRONS[name], work=task) for name, task in work.items()],
        StoredJobs(platform.local),
        platform.clock,
        enabled=platform.settings.scheduler.enabled,
        foreground=platform.foreground,
    )


def _new_secret() -> str:
    return f"am_{secrets.token_urlsafe(32)}"


def _log_learning_failure(exc: AgentMemoryError) -> None:
    logger.error("knowledge.not_learned", error=str(exc))


def _log_forgetting(report: ForgettingReport) -> None:
    """Log a forgetting that a stop or a crash had cut off: its caller is gone."""
    level = logger.warning if report.proof.found_in else logger.info
    level("forgetting.finished", events=report.events, found_in=report.proof.found_in)
