"""Build recall: what fills the indexes, and what searches them."""

from dataclasses import dataclass

from agent_memory.bootstrap.build_index import IndexFeature
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.features.index.model.queries import RecallResult
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.features.recall.services.embedding import EmbeddingWriter
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.indexing import Indexer
from agent_memory.features.recall.services.recall import Recall, VectorSearch
from agent_memory.features.recall.services.recent_work import RecentWork
from agent_memory.features.recall.services.unindexed import UnindexedDocuments
from agent_memory.features.toc.ports import TocReader
from agent_memory.features.upstream.adapters.upstream_store import (
    StoredErasures,
    StoredUpstream,
)
from agent_memory.features.upstream.services.hit_authors import HitAuthors
from agent_memory.features.upstream.services.waiting_hits import WaitingHits
from agent_memory.kernel import access


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallFeature:
    recall: Recall
    indexes: Indexes
    context: ContextBuilder


def build_recall(
    platform: Platform,
    log: LogFeature,
    toc: TocReader,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    index: IndexFeature,
    team_state: StoredUpstream,
) -> RecallFeature:
    documents = DocumentReader(
        log=log.events, toc=toc, memories=memories.store, knowledge=knowledge.store
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
            copies=vectors.copies,
        ),
    )

    authors = HitAuthors(team_state)
    waiting = WaitingHits(StoredErasures(platform.store), log.events)

    def attribute(answer: RecallResult) -> RecallResult:
        caller = access.get_caller()
        if caller is not None and caller.person:
            answer = waiting.leave_out(answer)
        # Daemons that share a store do not tell each other what they took.
        may_have_taken = platform.sharing is not None or team_state.has_taken()
        return authors.attribute(answer) if may_have_taken else answer

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
        attribute=attribute,
    )
    return RecallFeature(
        recall=recall,
        indexes=indexes,
        context=ContextBuilder(recall=recall, work=RecentWork(recall=recall, toc=toc)),
    )
