"""The services of recall over a real store and real indexes, as `bootstrap` builds them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent_memory.features.index.adapters.embedding_queue import StoredEmbeddingQueue
from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.index.adapters.stored_term_vectors import StoredTermVectors
from agent_memory.features.index.adapters.vectors import FlatVectors
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import Query, RecallResult, SearchMode, SearchScope
from agent_memory.features.index.ports import Embedder
from agent_memory.features.knowledge.adapters.guarded_knowledge import GuardedKnowledge
from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.guarded_event_log import GuardedEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.ports import Events
from agent_memory.features.memories.adapters.guarded_memories import GuardedMemories
from agent_memory.features.memories.adapters.memory_store import StoredMemories, StoredUses
from agent_memory.features.memories.ports import Memories
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.features.recall.services.embedding import EmbeddingWriter
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.indexing import Indexer
from agent_memory.features.recall.services.recall import Recall, VectorSearch
from agent_memory.features.recall.services.unindexed import UnindexedDocuments
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.toc.adapters.guarded_toc import GuardedToc
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.ports import TocReader
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.errors import EmbedderFailed
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Batch, Delete
from tests.contract.stores import TIMEOUT, OpenStore, commit, memory
from tests.inline_worker import InlineWorker

MINUTE = 60_000
HOUR = 60 * MINUTE
OVERLAP_MS = 5 * MINUTE
DAY = 24 * HOUR

_TYPES = {
    "user": EventType.USER_MESSAGE,
    "assistant": EventType.ASSISTANT_MESSAGE,
    "tool": EventType.TOOL_RESULT,
    "system": EventType.SESSION_START,
}


def parse_time(when: str) -> Millis:
    """Unix milliseconds of a time in UTC, as `2026-01-30 10:00`."""
    return Millis(int(datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp() * 1000))


NOW = parse_time("2026-06-10 12:00")  # a Wednesday


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A clock that stands."""

    at: Millis = NOW

    def now(self) -> Millis:
        return self.at


class FlakyEmbedder:
    """Passes everything on to a real embedder, but fails for as long as `reason` is set."""

    def __init__(self, inner: Embedder, reason: str = "") -> None:
        self.model, self.unrelated = inner.model, inner.unrelated
        self.reason = reason
        self.embedded: list[str] = []
        self._inner = inner

    def embed(self, texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:
        if self.reason:
            raise EmbedderFailed(self.reason)
        self.embedded += texts
        return self._inner.embed(texts, live=live)

    def embed_question(self, text: str, /) -> Vector:
        if self.reason:
            raise EmbedderFailed(self.reason)
        return self._inner.embed_question(text)


class TruncatingEmbedder:
    """A real embedder's vectors without their second half: what another model might give."""

    def __init__(self, inner: Embedder) -> None:
        self.model, self.unrelated = inner.model, inner.unrelated
        self._inner = inner

    def embed(self, texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:
        return [Vector(each[: len(each) // 2]) for each in self._inner.embed(texts, live=live)]

    def embed_question(self, text: str, /) -> Vector:
        (vector,) = self.embed([text])
        return vector


def make_event(
    text: str,
    at: int = NOW - HOUR,
    *,
    session: str = "talk",
    name: str = "",
    role: str = "user",
    **about: str,
) -> Event:
    """An event; `about` is its metadata."""
    return Event(
        event_id=EventId(name or f"{session}-{at:013}"),
        session_id=SessionId(session),
        at_ms=Millis(at),
        type=_TYPES[role],
        role=EventRole[role.upper()],
        text=text,
        metadata=about,
    )


def make_dialogue(*lines: str, begin: int = NOW - HOUR, session: str = "talk") -> list[Event]:
    """A line a minute, by turns of user and assistant."""
    return [
        make_event(
            line,
            begin + number * MINUTE,
            session=session,
            role=("user", "assistant")[number % 2],
        )
        for number, line in enumerate(lines)
    ]


@dataclass(frozen=True, slots=True)
class RecallHarness:
    """All of recall over one store. Nothing happens by itself: the jobs are called."""

    store: OrderedStore
    folder: Path
    embedder: Embedder | None
    clock: FixedClock
    log: Events
    toc: StoredToc
    contents: TocReader
    outbox: StoredOutbox
    knowledge: KnowledgeStore
    facts: Facts
    memories: Memories
    library: DocumentReader
    lexical: TantivyIndex
    terms: StoredTermVectors
    vectors: FlatVectors | None
    queue: StoredEmbeddingQueue
    indexing: Indexer
    indexes: Indexes
    tail: UnindexedDocuments
    recall: Recall
    segmenting: Segmenter

    def keep(self, *events: Event) -> None:
        """Store them, durably; no job runs."""
        self.log.append(events).result(TIMEOUT)

    def forget(self, *events: Event) -> None:
        """Remove them as a removal does: record, id and session entry, told to the outbox."""
        for event in events:
            key = keys.event(event.at_ms, event.event_id)
            place = keys.session_event(event.session_id, event.at_ms, event.event_id)
            commit(
                self.store,
                Batch(
                    (
                        Delete(families.EVENTS, key),
                        Delete(families.EVENT_IDS, keys.event_id(event.event_id)),
                        Delete(families.SESSION_EVENTS, place),
                        Append(families.OUTBOX, keys.OUTBOX_PREFIX, codec.encode_key(key)),
                    )
                ),
            )

    def cut(self) -> None:
        """What the job segment-summarizer does."""
        while self.segmenting.step():
            pass
        self.segmenting.seal()

    def keep_up(self, check: Callable[[], None] = lambda: None) -> None:
        """What the job outbox-processor does for the indexes."""
        self.indexes.keep_up(check)
        self.indexes.embed_backlog(check)

    def take_in(self, *events: Event) -> None:
        """Stored, in the table of contents, and in both indexes."""
        self.keep(*events)
        self.cut()
        self.keep_up()

    def ask(
        self,
        text: str,
        scope: SearchScope | None = None,
        *,
        mode: SearchMode = SearchMode.HYBRID,
        limit: int = 10,
        offset: int = 0,
        min_score: float = 0.0,
    ) -> RecallResult:
        return self.recall.search(
            Query(
                text=text,
                scope=scope or SearchScope(),
                mode=mode,
                limit=limit,
                offset=offset,
                min_score=min_score,
            )
        )

    def close(self) -> None:
        """The indexes; the store belongs to whoever opened it."""
        self.lexical.close()

    def reopen(self, embedder: Embedder | None = None) -> "RecallHarness":
        """The same after a restart of the daemon."""
        self.close()
        return build_recall(self.store, self.folder, embedder or self.embedder, self.clock)


def build_recall(
    store: OrderedStore,
    folder: Path,
    embedder: Embedder | None,
    clock: FixedClock | None = None,
    *,
    team: bool = False,
) -> RecallHarness:
    """Recall over a store, its indexes in the folder; for a `team`, as on its server."""
    clock = clock or FixedClock()
    outbox, uses = StoredOutbox(store), StoredUses(store)
    events, toc = StoredEventLog(store), StoredToc(store)
    log = GuardedEventLog(events, events) if team else events
    contents = GuardedToc(toc, log, OVERLAP_MS) if team else toc
    memories = GuardedMemories(StoredMemories(store)) if team else StoredMemories(store)
    knowledge = GuardedKnowledge(StoredKnowledge(store)) if team else StoredKnowledge(store)
    library = DocumentReader(log=log, toc=contents, memories=memories, knowledge=knowledge)
    facts = Facts(knowledge=knowledge, secrets=PassThrough(), clock=clock, on_change=lambda: None)
    lexical = TantivyIndex(folder / "lexical", for_team=team)
    terms = StoredTermVectors(store)
    queue = StoredEmbeddingQueue(store)
    vectors = (
        None if embedder is None else FlatVectors(folder / "vectors", embedder.model, for_team=team)
    )
    embedding = (
        None
        if embedder is None or vectors is None
        else EmbeddingWriter(documents=library, queue=queue, embedder=embedder, vectors=vectors)
    )
    indexing = Indexer(
        documents=library,
        log=log,
        outbox=outbox,
        lexical=lexical,
        terms=terms,
        queue=None if embedding is None else queue,
        clock=clock,
    )
    tail = UnindexedDocuments(library, log, outbox, lexical)
    summarizer = ExtractiveSummarizer(InlineWorker())
    return RecallHarness(
        store=store,
        folder=folder,
        embedder=embedder,
        clock=clock,
        log=log,
        toc=toc,
        contents=contents,
        outbox=outbox,
        knowledge=knowledge,
        facts=facts,
        memories=memories,
        library=library,
        lexical=lexical,
        terms=terms,
        vectors=vectors,
        queue=queue,
        indexing=indexing,
        indexes=Indexes(indexing=indexing, embedding=embedding),
        tail=tail,
        recall=Recall(
            documents=library,
            log=log,
            lexical=lexical,
            terms=terms,
            unindexed=tail,
            vectors=None
            if embedder is None or vectors is None
            else VectorSearch(index=vectors, embedder=embedder),
            uses=uses,
            on_facts_used=facts.mark_used,
            clock=clock,
        ),
        segmenting=Segmenter(
            log=log,
            outbox=outbox,
            reader=toc,
            writer=toc,
            drafter=summarizer,
            summarizer=summarizer,
            clock=clock,
            rules=SegmentRules(),
        ),
    )


@contextmanager
def open_recall(
    folder: Path, embedder: Embedder | None = None, *, store: OpenStore = memory
) -> Iterator[RecallHarness]:
    """Recall over an empty store."""
    stored = store(folder / "db")
    try:
        parts = build_recall(stored, folder / "index", embedder)
        yield parts
        parts.close()
    finally:
        stored.close()


def list_texts(answer: RecallResult) -> list[str]:
    """The texts of an answer, in order."""
    return [hit.document.text for hit in answer.hits]


def list_ids(answer: RecallResult) -> list[str]:
    """What was found, in order."""
    return [hit.document.key for hit in answer.hits]
