"""Build forgetting: of events, of memories, and the proof that nothing is left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_memory.bootstrap.build_hooks import HooksFeature
from agent_memory.bootstrap.build_index import VECTORS_FOLDER
from agent_memory.bootstrap.build_injections import InjectionsFeature
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.bootstrap.build_toc import TocFeature
from agent_memory.features.checkpoints.adapters import graph_layout
from agent_memory.features.forgetting.adapters.forgetting_plan import (
    StoredForgettingPlan,
)
from agent_memory.features.forgetting.adapters.purge_requests import StoredPurges
from agent_memory.features.forgetting.adapters.traces import KeySpan, StoredTraces
from agent_memory.features.forgetting.ports import ErasureQueue, ForgettingListener
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.forgetting.services.purging import Purging
from agent_memory.features.forgetting.services.review import ReviewInbox
from agent_memory.features.memories.model.memories import Memory
from agent_memory.platform.removing import remove_tree
from agent_memory.platform.store import damage, families


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingFeature:
    forgetting: Forgetting
    memory_forgetting: MemoryForgetting
    review: ReviewInbox
    run_due_purge: Callable[[Callable[[], None]], None]  # that another daemon asks for


def build_forgetting(
    platform: Platform,
    log: LogFeature,
    toc: TocFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    recall: RecallFeature,
    injections: InjectionsFeature,
    hooks: HooksFeature,
    listener: ForgettingListener,
    queue: ErasureQueue,
    find_person: Callable[[Memory], str],
) -> ForgettingFeature:
    folders, store, sharing = platform.folders, platform.store, platform.sharing
    purges = None if sharing is None else StoredPurges(sharing.marks, store, platform.local)

    def list_folders() -> Sequence[Path]:
        """List every folder in which bytes of an event could be left."""
        damaged = damage.list_folders(folders.db_path)
        return [
            folders.db_path,
            folders.local,
            folders.index,
            folders.logs,
            folders.spool,
            folders.last_contexts,
            *damaged,
        ]

    purging = Purging(
        indexes=recall.indexes,
        recall=recall.recall,
        store=platform.maintenance,
        traces=StoredTraces(
            store,
            list_folders,
            {families.GRAPH_CHECKPOINTS: [KeySpan(*span) for span in graph_layout.SPANS]},
        ),
        discard_vectors=lambda: remove_tree(folders.index / VECTORS_FOLDER, ignore_errors=True),
        discard_contexts=hooks.last_contexts.clear,
        announce=(lambda: None) if purges is None else purges.announce,
        local_families=() if sharing is None else families.LOCAL,
    )
    memory_forgetting = MemoryForgetting(
        editor=memories.editor,
        uses=memories.uses,
        journal=memories.journal,
        changes=memories.change_log,
        notes=memories.notes,
        injections=injections.injections,
        purging=purging,
        listener=listener,
        queue=queue,
        clock=platform.clock,
        leadership=platform.leadership,
        find_person=find_person,
    )
    return ForgettingFeature(
        forgetting=Forgetting(
            log=log.events,
            remover=log.remover,
            plan=StoredForgettingPlan(store, platform.clock),
            segmenting=toc.segmenting,
            rollup=toc.rollup,
            eraser=toc.store,
            learning=knowledge.learning,
            injections=injections.injections,
            purging=purging,
            listener=listener,
            queue=queue,
            toc_lock=toc.lock,
            leadership=platform.leadership,
        ),
        memory_forgetting=memory_forgetting,
        run_due_purge=(lambda _: None) if purges is None else purges.run_due,
        review=ReviewInbox(
            editor=memories.editor,
            capture=memories.capture,
            log=log.events,
            forgetting=memory_forgetting,
        ),
    )
