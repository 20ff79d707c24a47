"""Build the metrics and the list of recent failures."""

from dataclasses import dataclass

from agent_memory.bootstrap.build_hooks import HooksFeature
from agent_memory.bootstrap.build_index import LEXICAL, VECTORS_FOLDER
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.bootstrap.folders import DaemonFolders
from agent_memory.features.jobs.ports import Scheduler
from agent_memory.features.memories.services.project_resolver import OWN_REPOSITORIES
from agent_memory.features.monitoring.services.failures import RecentFailures
from agent_memory.features.monitoring.services.metrics import Metrics
from agent_memory.platform.files import measure_size


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringFeature:
    metrics: Metrics
    failures: RecentFailures


def build_monitoring(
    platform: Platform,
    scheduler: Scheduler,
    log: LogFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    recall: RecallFeature,
    hooks: HooksFeature,
) -> MonitoringFeature:
    return MonitoringFeature(
        metrics=Metrics(
            log=log.events,
            indexes=recall.indexes,
            learning=knowledge.learning,
            notes=memories.note_queue,
            spool=hooks.spool,
            store=platform.maintenance,
            get_health=lambda: platform.store.health,
            list_jobs=scheduler.status,
            measure_disk=lambda: _measure_folders(platform.folders),
        ),
        failures=RecentFailures(platform.clock),
    )


def _measure_folders(folders: DaemonFolders) -> dict[str, int]:
    kinds = {
        "store": [folders.db_path, folders.local],
        "word_index": [folders.index / LEXICAL],
        "vector_index": [folders.index / VECTORS_FOLDER],
        "notes": [folders.data / name for name in OWN_REPOSITORIES],
        "logs": [folders.logs],
        "spool": [folders.spool],
        "last_contexts": [folders.last_contexts],
        "summarizer": [folders.summarizer],
    }
    return {kind: sum(map(measure_size, paths)) for kind, paths in kinds.items()}
