"""Build recall: what fills the indexes, and what answers from them."""

from dataclasses import dataclass

from agent_memory.bootstrap.build_index import IndexFeature
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_toc import TocFeature
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.features.recall.services.embedding import EmbeddingWriter
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.indexing import Indexer
from agent_memory.features.recall.services.memory_stats import MemoryStatistics
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.recall.services.reasoning import Reasoning
from agent_memory.features.recall.services.recall import Recall, VectorSearch
from agent_memory.features.recall.services.recent_work import RecentWork
from agent_memory.features.recall.services.unindexed import UnindexedDocuments


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallFeature:
    recall: Recall
    opening: Opening
    indexes: Indexes
    context: ContextBuilder
    reasoning: Reasoning
    memory_stats: MemoryStatistics


def build_recall(
    platform: Platform,
    log: LogFeature,
    toc: TocFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    index: IndexFeature,
) -> RecallFeature:
    documents = DocumentReader(
        log=log.events, toc=toc.store, memories=memories.store, knowledge=knowledge.store
    )
    vectors = index.vectors
    indexes = Indexes(
        indexing=Indexer(
            documents=documents,
            log=log.events,
            outbox=log.outbox,
            lexical=index.lexical,
            terms=index.terms,
            queue=None if vectors is None else vectors.queue,
            clock=platform.clock,
        ),
        embedding=None
        if vectors is None
        else EmbeddingWriter(
            documents=documents,
            queue=vectors.queue,
            embedder=vectors.embedder,
            vectors=vectors.index,
        ),
    )
    recall = Recall(
        documents=documents,
        log=log.events,
        lexical=index.lexical,
        terms=index.terms,
        unindexed=UnindexedDocuments(documents, log.events, log.outbox, index.lexical),
        vectors=None
        if vectors is None
        else VectorSearch(index=vectors.index, embedder=vectors.embedder),
        uses=memories.uses,
        on_facts_used=knowledge.facts.mark_used,
        clock=platform.clock,
        zone=platform.zone,
    )
    return RecallFeature(
        recall=recall,
        opening=Opening(
            log=log.events,
            finder=log.events,
            toc=toc.store,
            contents=toc.contents,
            journal=toc.journal,
            knowledge=knowledge.store,
            facts=knowledge.facts,
            editor=memories.editor,
        ),
        indexes=indexes,
        context=ContextBuilder(recall=recall, work=RecentWork(recall=recall, toc=toc.store)),
        reasoning=Reasoning(recall=recall, reasoner=memories.reasoner, clock=platform.clock),
        memory_stats=MemoryStatistics(
            editor=memories.editor,
            notes=memories.notes,
            projects=memories.projects,
            resolver=memories.resolver,
            recall=recall,
            indexes=indexes,
            rebuild=toc.background_rebuild,
            llm=memories.reasoner is not None,
        ),
    )
