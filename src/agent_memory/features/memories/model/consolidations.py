"""Consolidations: what is to change, and what a run has changed, so that it can be undone."""

from dataclasses import dataclass

from agent_memory.features.memories.model.duplicates import Cluster
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.reasoning import MergedMemory
from agent_memory.features.memories.model.tiers import Tier
from agent_memory.kernel.ids import Domain, MemoryKey, Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A cluster, and how it becomes one: by one of its own, or by what a model has written."""

    cluster: Cluster
    written: MergedMemory | None = None

    @property
    def superseded(self) -> tuple[Memory, ...]:
        kept = () if self.written is None else (self.cluster.kept,)
        return (*kept, *self.cluster.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A memory that is in another tier than before."""

    memory: Memory
    before: Tier
    after: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPlan:
    """What a consolidation would do. `skipped` says what it cannot, and why."""

    at_ms: Millis
    domains: tuple[Domain, ...]
    considered: int
    merges: tuple[Merge, ...]
    moves: tuple[Move, ...]
    skipped: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.merges or self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What a memory was before a run, and when the run changed it: it is known beforehand, and one
    that is older was never changed. Tags that it was given stay: copies keep the tags of each
    other."""

    key: MemoryKey
    status: MemoryStatus
    superseded_by: str
    changed_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationRun:
    """A consolidation as it is written down before it is done; it may have been cut off since.
    `made` are the memories that it writes, or takes out of the archive."""

    at_ms: Millis
    changes: tuple[Undo, ...]
    made: tuple[MemoryKey, ...] = ()
    number: int = 0  # given by the journal
