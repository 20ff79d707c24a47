"""Forgetting: of events, of memories, and the proof that nothing is left."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from agent_memory.features.forgetting.adapters.forgetting_plan import StoredForgettingPlan
from agent_memory.features.forgetting.adapters.purge_requests import StoredPurges
from agent_memory.features.forgetting.adapters.traces import StoredTraces
from agent_memory.features.forgetting.ports import ErasureQueue, ForgettingListener, PersonFinder
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.forgetting.services.purging import Purging
from agent_memory.features.forgetting.services.review import ReviewInbox
from agent_memory.features.hooks.services.last_contexts import LastContextFolder
from agent_memory.features.index.core import VECTORS_FOLDER
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.lessons.services.library import LessonLibrary
from agent_memory.features.lessons.services.verdicts import LessonVerdicts
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import EventRemover, Events, OutboxLearner
from agent_memory.features.memories.adapters.journal import StoredChangeLog, StoredJournal
from agent_memory.features.memories.adapters.memory_store import StoredUses
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.ids import MemoryKey, Position
from agent_memory.kernel.turns import TurnLock
from agent_memory.platform.base import Platform
from agent_memory.platform.ports import KeySpan
from agent_memory.platform.removing import remove_tree
from agent_memory.platform.store import damage, families


class _OwnMemory:
    """A memory that no other machine shares: nothing waits, and no one else has to know."""

    def note_events(self, _events: Sequence[Event], /) -> None: ...

    def note_memories(self, _keys: Sequence[MemoryKey], /) -> None: ...

    def hold_events(self, _places: Sequence[Position], /) -> None: ...

    def hold_memories(self, _memories: Sequence[Memory], /) -> None: ...

    def __call__(self, _memory: Memory, /) -> str:
        return ""


def build(context: Composition) -> None:
    platform, own = context[Platform], _OwnMemory()
    folders, store, sharing = platform.folders, platform.store, platform.sharing
    purges = None if sharing is None else StoredPurges(sharing.marks, store, platform.local)
    if purges is not None:
        context.add(purges)
    listener = context.find(ForgettingListener) or own
    queue = context.find(ErasureQueue) or own
    injections, events = context[Injections], context[Events]
    spans = defaultdict(list)
    for span in context.contributions(KeySpan):
        spans[span.family].append(span)

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
        indexes=context[Indexes],
        recall=context[Recall],
        store=platform.maintenance,
        traces=StoredTraces(
            store,
            list_folders,
            spans,
        ),
        discard_vectors=lambda: remove_tree(folders.index / VECTORS_FOLDER, ignore_errors=True),
        discard_contexts=context[LastContextFolder].clear,
        announce=(lambda: None) if purges is None else purges.announce,
        local_families=() if sharing is None else families.LOCAL,
    )
    memory_forgetting = MemoryForgetting(
        editor=context[MemoryEditor],
        uses=context[StoredUses],
        journal=context[StoredJournal],
        changes=context[StoredChangeLog],
        notes=context[NoteWriter],
        injections=injections,
        purging=purging,
        listener=listener,
        queue=queue,
        clock=platform.clock,
        leadership=platform.leadership,
        find_person=context.find(PersonFinder) or own,
    )
    context.add(
        memory_forgetting,
        Forgetting(
            log=events,
            remover=context[EventRemover],
            plan=StoredForgettingPlan(store, platform.clock),
            segmenting=context[Segmenter],
            rollup=context[Rollup],
            eraser=context[StoredToc],
            learners=context.contributions(OutboxLearner),
            injections=injections,
            purging=purging,
            listener=listener,
            queue=queue,
            toc_lock=context[TurnLock],
            leadership=platform.leadership,
        ),
        ReviewInbox(
            editor=context[MemoryEditor],
            capture=context[Capture],
            log=events,
            forgetting=memory_forgetting,
            library=context[LessonLibrary],
            verdicts=context[LessonVerdicts],
        ),
    )
