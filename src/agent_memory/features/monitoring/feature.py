"""The metrics, and the list of recent failures."""

from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.index.core import LEXICAL, VECTORS_FOLDER
from agent_memory.features.knowledge.services.learning import Learner
from agent_memory.features.log.ports import Events
from agent_memory.features.memories.adapters.memory_store import StoredNoteQueue
from agent_memory.features.memories.services.project_resolver import OWN_REPOSITORIES
from agent_memory.features.monitoring.services.failures import RecentFailures
from agent_memory.features.monitoring.services.metrics import Metrics
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.jobs import JobScheduler
from agent_memory.platform.base import Platform
from agent_memory.platform.files import measure_size
from agent_memory.platform.folders import DaemonFolders


def build(context: Composition) -> None:
    platform = context[Platform]
    context.add(
        Metrics(
            log=context[Events],
            indexes=context[Indexes],
            learning=context[Learner],
            notes=context[StoredNoteQueue],
            spool=context[SpoolFolder],
            store=platform.maintenance,
            get_health=lambda: platform.store.health,
            list_jobs=context[JobScheduler].status,
            measure_disk=lambda: _measure_folders(platform.folders),
        ),
        RecentFailures(platform.clock),
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
