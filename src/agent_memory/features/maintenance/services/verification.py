"""Verify everything that is stored, and rebuild derived data that is damaged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.memory_stats import MemoryStatistics
from agent_memory.features.toc.services.rebuild import Rebuild
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.progress import OnCount
from agent_memory.kernel.status import Damage, StoreCheck

WORDS = "index of words"
VECTORS = "vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was read, and what is wrong with it."""

    rows: int
    memories: int
    notes: int
    damages: tuple[Damage, ...]  # to the store
    lost: tuple[Damage, ...]  # from the store, for good; reported until you dismiss it
    indexes: Mapping[str, str]  # damaged indexes, and how
    unindexed: int  # memories missing in the word index
    problems: tuple[str, ...]  # memories not indexed or not in their notes

    @property
    def sound(self) -> bool:
        return not (self.damages or self.lost or self.indexes or self.problems)


@dataclass(frozen=True, slots=True)
class Verification:
    check_store: Callable[[OnCount], StoreCheck]
    index_checks: Mapping[str, Callable[[], list[str]]]  # lists the damaged files of each index
    memory_stats: MemoryStatistics
    indexes: Indexes
    rebuild: Rebuild

    def verify(self, on_progress: OnCount) -> Verdict:
        """Read every row of the store, every file of the indexes and every note."""
        store = self.check_store(on_progress)
        memories = self.memory_stats.verify(None, lambda _: None)
        damaged = {name: ", ".join(check()) for name, check in self.index_checks.items()}
        return Verdict(
            rows=store.rows,
            memories=memories.memories,
            notes=memories.notes,
            damages=store.damages,
            lost=store.lost,
            indexes={name: files for name, files in damaged.items() if files},
            unindexed=memories.unindexed,
            problems=memories.problems,
        )

    def repair(self, verdict: Verdict, on_progress: OnCount) -> tuple[Verdict, tuple[str, ...]]:
        """Rebuild derived data that is wrong. Return the state afterwards and what was done, in
        words. Damaged tables of the store itself are repaired while no daemon runs."""
        if verdict.damages:  # derived data is rebuilt once the store is repaired
            return verdict, ()
        made: list[str] = []
        if verdict.indexes.get(WORDS) or verdict.unindexed:
            made.append(
                f"{WORDS}: {format_count(self.indexes.rebuild_words(on_progress), 'record')}"
            )
        if verdict.indexes.get(VECTORS):
            queued = self.indexes.rebuild_vectors(on_progress)
            made.append(f"{VECTORS}: {format_count(queued, 'record')} queued")
        if restored := self.memory_stats.restore_notes():
            made.append(f"notes: {format_count(restored, 'memory', 'memories')}")
        done_toc = self.rebuild.run(
            self.rebuild.sessions(None), dry_run=False, on_progress=on_progress, complete=True
        )
        if done_toc.written or done_toc.removed:
            made.append(
                f"table of contents: {format_count(done_toc.written, 'segment')} written,"
                f" {done_toc.removed:,} removed"
            )
        return self.verify(on_progress), tuple(made)
