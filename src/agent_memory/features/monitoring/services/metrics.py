"""Figures for monitoring: what is pending, what is stored, which jobs failed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent_memory.features.hooks.ports import Spool
from agent_memory.features.knowledge.services.learning import Learner
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.ports import NoteQueue
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.kernel.jobs import JobStatus
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.ports import StoreMaintenance

_NOTES = 10_000  # a longer queue is reported as this


@dataclass(frozen=True, slots=True)
class Metrics:
    log: EventLog
    indexes: Indexes
    learning: Learner
    notes: NoteQueue
    spool: Spool
    store: StoreMaintenance
    get_health: Callable[[], StoreHealth]
    list_jobs: Callable[[], Sequence[JobStatus]]
    measure_disk: Callable[[], Mapping[str, int]]  # bytes of what the daemon keeps, by kind

    def count_pending(self) -> Mapping[str, int]:
        """Count what is pending, by consumer; empty while the store cannot be read."""
        if not self.get_health().readable:
            return {}
        status = self.indexes.status()
        return {
            "words": status.words_waiting,
            "vectors": status.vectors_waiting,
            "knowledge": max(0, self.log.watermark() - self.learning.cursor()),
            "notes": sum(
                len(self.notes.list_pending(home, limit=_NOTES)) for home in self.notes.list_homes()
            ),
            "spool": len(self.spool.list_pending()),
        }

    def sizes(self) -> Mapping[str, int]:
        """Return the size of what is stored; empty while the store cannot be read."""
        if not self.get_health().readable:
            return {}
        stats = self.store.stats()
        status = self.indexes.status()
        return {
            "events": stats.entries("events"),
            "database_bytes": stats.size_bytes,
            "words": status.words.documents,
            "vectors": 0 if status.vectors is None else status.vectors.documents,
        }
