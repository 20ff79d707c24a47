"""Build the services that use recall: opening results, explaining where they come from, asking a
model, counting."""

from dataclasses import dataclass

from agent_memory.bootstrap.build_injections import InjectionsFeature
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.bootstrap.build_toc import TocFeature
from agent_memory.features.injections.services.provenance import Provenance
from agent_memory.features.recall.services.memory_stats import MemoryStatistics
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.recall.services.reasoning import Reasoning


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersFeature:
    opening: Opening
    reasoning: Reasoning
    memory_stats: MemoryStatistics
    provenance: Provenance


def build_answers(
    platform: Platform,
    log: LogFeature,
    toc: TocFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    recall: RecallFeature,
    injections: InjectionsFeature,
) -> AnswersFeature:
    opening = Opening(
        log=log.events,
        finder=log.events,
        toc=toc.reader,
        contents=toc.contents,
        journal=toc.journal,
        knowledge=knowledge.store,
        facts=knowledge.facts,
        editor=memories.editor,
    )
    return AnswersFeature(
        opening=opening,
        provenance=Provenance(opening=opening, injections=injections.injections),
        reasoning=Reasoning(recall=recall.recall, reasoner=memories.reasoner, clock=platform.clock),
        memory_stats=MemoryStatistics(
            editor=memories.editor,
            notes=memories.notes,
            projects=memories.projects,
            resolver=memories.resolver,
            recall=recall.recall,
            indexes=recall.indexes,
            rebuild=toc.background_rebuild,
            llm=memories.reasoner is not None,
        ),
    )
