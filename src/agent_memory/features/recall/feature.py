"""Recall: opening results, asking a model, counting memories."""

from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.log.ports import Events
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.ports import Reasoner
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.recall.ports import RecordSource
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.memory_stats import MemoryStatistics
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.recall.services.reasoning import Reasoning
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.toc.ports import TocReader
from agent_memory.features.toc.services.background_rebuild import BackgroundRebuild
from agent_memory.features.toc.services.contents import Contents
from agent_memory.features.toc.services.journal import WorkJournal
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform


def build(context: Composition) -> None:
    recall, reasoner = context[Recall], context.find(Reasoner)
    context.add(
        Opening(
            log=context[Events],
            finder=context[Events],
            toc=context[TocReader],
            contents=context[Contents],
            journal=context[WorkJournal],
            knowledge=context[KnowledgeStore],
            facts=context[Facts],
            editor=context[MemoryEditor],
            sources=context.contributions(RecordSource),
        ),
        Reasoning(recall=recall, reasoner=reasoner, clock=context[Platform].clock),
        MemoryStatistics(
            editor=context[MemoryEditor],
            notes=context[NoteWriter],
            projects=context[StoredProjects],
            resolver=context[ProjectResolver],
            recall=recall,
            indexes=context[Indexes],
            rebuild=context[BackgroundRebuild],
            llm=reasoner is not None,
        ),
    )
