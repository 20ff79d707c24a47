"""Backups, the archive of everything, and restores."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agent_memory import __version__
from agent_memory.config import Settings
from agent_memory.features.backups.adapters import restoring
from agent_memory.features.backups.adapters.snapshots import DataSnapshots
from agent_memory.features.backups.model.backups import RestoreResult, Retention
from agent_memory.features.backups.services.archiving import FullExport, Stores
from agent_memory.features.backups.services.backup_record import BackupRecord
from agent_memory.features.backups.services.backups import BackupPlan, Backups
from agent_memory.features.hooks.services.last_contexts import LastContextFolder
from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.ports import Events
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.memories.adapters.memory_store import StoredMemories, StoredUses
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import ConfigError, InvalidInput
from agent_memory.kernel.jobs import BACKUP, JobScheduler, ScheduledJob
from agent_memory.kernel.signals import DaemonSignal
from agent_memory.kernel.status import BackupReport
from agent_memory.launcher import last_context
from agent_memory.platform import durable, schedules
from agent_memory.platform.archive_parts import ArchivePart
from agent_memory.platform.base import Platform
from agent_memory.platform.folders import folder_beside
from agent_memory.platform.opened_store import OpenStore
from agent_memory.platform.ports import OrderedStore

BACKUP_SECONDS = 6 * 3600.0


def build(context: Composition) -> None:
    platform, events = context[Platform], context[Events]
    stores = replace(
        _build_stores(platform.store),
        log=events,
        uses=context[StoredUses],
        knowledge=context[KnowledgeStore],
    )
    archiving = FullExport(
        open_view=lambda: _open_view(platform.opened),
        stores=stores,
        ingest=context[Ingest],
        capture=context[Capture],
        parts=context.contributions(ArchivePart),
        secrets=context[SecretsFilter],
        find_home=context[ProjectResolver].find_home,
        on_change=context.signals.build_sender(DaemonSignal.MEMORY_CHANGED),
        open_whole=durable.open_atomic,
    )
    backups = _build_backups(context)
    report = BackupReport(read=backups.history.load, list_warnings=backups.warnings)
    context.add(backups, archiving, report)


def restore(
    backup: Path,
    *,
    data: Path,
    db_path: Path,
    force: bool,
    on_progress: Callable[[int], None],
) -> RestoreResult:
    """Bring a backup back, into a data folder that the caller has locked."""
    LastContextFolder(data / last_context.FOLDER).clear()  # they belong to the store as it is now
    index = folder_beside(db_path, "index")
    return restoring.restore(
        backup, data=data, db_path=db_path, index=index, force=force, on_progress=on_progress
    )


def _build_backups(context: Composition) -> Backups:
    """Build what takes backups, and the job that takes them by schedule."""

    platform, scheduler = context[Platform], context[JobScheduler]

    def schedule(expression: str) -> None:
        if expression:
            scheduler.put(
                ScheduledJob(
                    name=BACKUP,
                    cron=expression,
                    work=backups.run,
                    timeout_seconds=BACKUP_SECONDS,
                )
            )
        else:
            scheduler.remove(BACKUP)

    settings, data = context[Settings].backup, platform.folders.data
    snapshots = DataSnapshots(
        checkpoint=platform.maintenance.copy_to,
        db_path=platform.folders.db_path,
        data=data,
        version=__version__,
        now=platform.clock.now,
    )
    snapshots.clean()
    plan = BackupPlan(
        folder=str(Path(settings.path).expanduser()) if settings.path else "",
        schedule=settings.schedule if settings.path else "",
        retention=Retention(newest=settings.keep, weekly=settings.keep_weekly),
    )
    backups = Backups(
        snapshots=snapshots,
        notes=context[NoteWriter],
        history=BackupRecord(data),
        clock=platform.clock,
        plan=plan,
        check=schedules.check_schedule,
        schedule=schedule,
        passed=schedules.count_due,
    )
    try:
        if plan.schedule and not Path(plan.folder).is_absolute():
            raise ConfigError(f"backup.path is {plan.folder!r}: give an absolute path")
        backups.follow(plan)
    except InvalidInput as exc:
        raise ConfigError(f"backup.schedule: {exc}") from exc
    return backups


@contextmanager
def _open_view(opened: OpenStore) -> Iterator[Stores]:
    """Open the store as it is now, for an export that may take long."""
    with opened.open_view() as store:
        yield _build_stores(store)


def _build_stores(store: OrderedStore) -> Stores:
    return Stores(
        records=store,
        log=StoredEventLog(store),
        memories=StoredMemories(store),
        uses=StoredUses(store),
        knowledge=StoredKnowledge(store),
        toc=StoredToc(store),
        projects=StoredProjects(store),
    )
