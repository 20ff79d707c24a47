"""Consolidation plans and runs. A run records what it changes, so that it can be undone."""

from collections.abc import Iterator
from dataclasses import dataclass

from agent_memory.features.memories.model import differences
from agent_memory.features.memories.model.differences import Comparison
from agent_memory.features.memories.model.duplicates import Cluster
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.projects import NEVER
from agent_memory.features.memories.model.reasoning import MergedMemory
from agent_memory.features.memories.model.tiers import Tier
from agent_memory.kernel.ids import Domain, MemoryKey, Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A cluster that becomes one memory: one of its members, or a text that a model wrote."""

    cluster: Cluster
    written: MergedMemory | None = None

    @property
    def superseded(self) -> tuple[Memory, ...]:
        rewritten = () if self.written is None else (self.cluster.kept,)
        return (*rewritten, *self.cluster.others)

    def compare(self) -> Iterator[tuple[Memory, Comparison]]:
        """Yield the others with what differs from the one that is kept."""
        for old in self.cluster.others:
            yield old, differences.compare(old, self.cluster.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A memory that changes its tier."""

    memory: Memory
    before: Tier
    after: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPlan:
    """The changes that a consolidation would make. `skipped` lists what it cannot do, and why."""

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
    """The state of a memory before a run, and the time at which the run changes it. A stored memory
    with an earlier time was not changed. Earlier versions did not record the tags (None)."""

    key: MemoryKey
    status: MemoryStatus
    superseded_by: str
    changed_ms: Millis
    tags: frozenset[str] | None = None
    before_ms: Millis = NEVER  # the time of the change before


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationRun:
    """A consolidation, recorded before it is applied; it may have been interrupted since. `made`
    are the memories that it writes."""

    at_ms: Millis
    changes: tuple[Undo, ...]
    made: tuple[MemoryKey, ...] = ()
    number: int = 0  # assigned by the journal
    tiers: tuple[tuple[MemoryKey, Tier], ...] = ()  # before the run
    reviewed: tuple[tuple[Domain, Millis], ...] = ()  # when each domain was, before the run

    @property
    def name(self) -> str:
        """The name by which a caller has it undone."""
        return f"merge-{self.number}"
