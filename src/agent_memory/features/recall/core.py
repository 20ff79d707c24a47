"""Recall: what fills the indexes, and what searches them."""

from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.index.core import VectorParts
from agent_memory.features.index.model.queries import RecallResult, Search
from agent_memory.features.index.ports import TermVectors
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.log.ports import Events, Outbox, OutboxLearner
from agent_memory.features.memories.adapters.memory_store import StoredUses
from agent_memory.features.memories.ports import Memories
from agent_memory.features.recall.ports import AnswerFilter, EmbeddingWork
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.features.recall.services.embedding import EmbeddingWriter
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.indexing import Indexer
from agent_memory.features.recall.services.recall import Recall, VectorSearch
from agent_memory.features.recall.services.recent_work import RecentWork
from agent_memory.features.recall.services.unindexed import UnindexedDocuments
from agent_memory.features.toc.ports import TocReader
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform


def build_core(context: Composition) -> None:
    platform, events, outbox = context[Platform], context[Events], context[Outbox]
    toc, lexical, terms = context[TocReader], context[TantivyIndex], context[TermVectors]
    vectors, filters = context.find(VectorParts), context.contributions(AnswerFilter)
    documents = DocumentReader(
        log=events, toc=toc, memories=context[Memories], knowledge=context[KnowledgeStore]
    )
    indexes = Indexes(
        indexing=Indexer(
            documents=documents,
            log=events,
            outbox=outbox,
            lexical=lexical,
            terms=terms,
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
        learners=context.contributions(OutboxLearner),
        works=context.contributions(EmbeddingWork),
    )

    def attribute(answer: RecallResult) -> RecallResult:
        for change in filters:
            answer = change(answer)
        return answer

    recall = Recall(
        documents=documents,
        log=events,
        lexical=lexical,
        terms=terms,
        unindexed=UnindexedDocuments(documents, events, outbox, lexical),
        vectors=None
        if vectors is None
        else VectorSearch(index=vectors.index, embedder=vectors.embedder),
        uses=context[StoredUses],
        on_facts_used=context[Facts].mark_used,
        clock=platform.clock,
        zone=platform.zone,
        attribute=attribute,
    )
    context.provide(Search, recall.search)
    context.add(
        indexes, recall, ContextBuilder(recall=recall, work=RecentWork(recall=recall, toc=toc))
    )
