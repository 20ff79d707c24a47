"""Build backups, the archive of everything, and restores."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agent_memory import __version__
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_store import OpenStore
from agent_memory.bootstrap.folders import folder_beside
from agent_memory.bootstrap.wake_ups import WakeUps
from agent_memory.features.backups.adapters import restoring
from agent_memory.features.backups.adapters.snapshots import DataSnapshots
from agent_memory.features.backups.model.backups import RestoreResult, Retention
from agent_memory.features.backups.services.archiving import FullExport, Stores
from agent_memory.features.backups.services.backup_record import BackupRecord
from agent_memory.features.backups.services.backups import BackupPlan, Backups
from agent_memory.features.checkpoints.adapters.graph_store import StoredGraphs
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.features.hooks.services.last_contexts import LastContextFolder
from agent_memory.features.jobs.adapters import cron
from agent_memory.features.jobs.adapters.cron import CronScheduler, ScheduledJob
from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.memories.adapters.memory_store import StoredMemories, StoredUses
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.kernel.errors import ConfigError, InvalidInput
from agent_memory.kernel.jobs import BACKUP
from agent_memory.launcher import last_context
from agent_memory.platform import durable
from agent_memory.platform.ports import OrderedStore

BACKUP_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupsFeature:
    backups: Backups
    archiving: FullExport


def build_backups(
    platform: Platform,
    log: LogFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    graphs: Graphs,
    scheduler: CronScheduler,
    wake_ups: WakeUps,
) -> BackupsFeature:
    stores = replace(
        _build_stores(platform.store),
        log=log.events,
        uses=memories.uses,
        knowledge=knowledge.store,
        checkpoints=graphs.checkpoints,
    )
    archiving = FullExport(
        open_view=lambda: _open_view(platform.opened),
        stores=stores,
        ingest=log.ingest,
        capture=memories.capture,
        graphs=graphs,
        secrets=platform.secrets,
        find_home=memories.resolver.find_home,
        on_change=wake_ups.on_memory_changed,
        open_whole=durable.open_atomic,
    )
    return BackupsFeature(backups=_schedule(platform, memories, scheduler), archiving=archiving)


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


def _schedule(platform: Platform, memories: MemoriesFeature, scheduler: CronScheduler) -> Backups:
    """Build what takes backups, and the job that takes them by schedule."""

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

    settings, data = platform.settings.backup, platform.folders.data
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
        notes=memories.notes,
        history=BackupRecord(data),
        clock=platform.clock,
        plan=plan,
        check=cron.check_schedule,
        schedule=schedule,
        passed=cron.count_due,
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
        log=StoredEventLog(store),
        memories=StoredMemories(store),
        uses=StoredUses(store),
        knowledge=StoredKnowledge(store),
        checkpoints=StoredGraphs(store, GraphTally(store)),
        toc=StoredToc(store),
        projects=StoredProjects(store),
    )
