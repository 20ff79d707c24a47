"""Keep both indexes up to date, rebuild them, and report their state."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent_memory.features.index.model.embeddings import Priority
from agent_memory.features.log.ports import OutboxLearner
from agent_memory.features.recall.ports import EmbeddingWork
from agent_memory.features.recall.services.embedding import EmbeddingWriter
from agent_memory.features.recall.services.indexing import STEP, Indexer
from agent_memory.features.recall.services.unindexed import MOST
from agent_memory.kernel.errors import EmbedderFailed, FeatureUnavailable, IndexFailed
from agent_memory.kernel.progress import OnCount
from agent_memory.kernel.status import IndexesStatus, IndexStats

STEPS = 256  # embedding batches per run: a long backlog takes many runs

Check = Callable[[], None]
_NOTHING = IndexStats(documents=0, size_bytes=0)


@dataclass(slots=True)
class _IndexProgress:
    """Progress of running work, for status."""

    doing: str = ""
    done: int = 0
    trouble: str = ""
    ahead: int = 0  # the outbox entry up to which live records are embedded


@dataclass(frozen=True, slots=True)
class Indexes:
    """`learners` are waited for as the word index is: what they learn is found as well. `works` is
    what else is embedded, before the backlog of the index."""

    indexing: Indexer
    embedding: EmbeddingWriter | None
    learners: Sequence[OutboxLearner] = ()
    works: Sequence[EmbeddingWork] = ()
    filling: threading.Lock = field(default_factory=threading.Lock)
    state: _IndexProgress = field(default_factory=_IndexProgress)

    def keep_up(self, check: Check) -> bool:
        """Index changes, and embed live records between two batches. Return whether more is
        waiting."""

        def step() -> bool:
            more = self._take_in(check)
            self._ensure_queued(check)
            return self._embed_some(live=True) or more

        return self._repeat(step, check)

    def embed_backlog(self, check: Check) -> bool:
        """Embed records of the past. Return whether more is waiting."""
        return self._repeat(lambda: self._embed_some(live=False), check)

    def embed_ahead(self) -> None:
        """Embed live records at once while a backlog before them is still being processed. Call it
        often: it costs little if there are none."""
        if self.embedding is None:
            return
        try:
            entries, self.state.ahead = self.indexing.list_ahead(self.state.ahead)
            self.embedding.embed(entries)
        except (EmbedderFailed, IndexFailed) as exc:
            self.state.trouble = str(exc)  # they are embedded in their turn

    def has_backlog(self) -> bool:
        """Tell whether records of the past wait to be embedded."""
        return self.embedding is not None and (
            bool(self.embedding.queue.list_pending(limit=1, live=False))
            or any(work.count() for work in self.works)
        )

    def rebuild_words(self, on_progress: OnCount) -> int:
        """Rebuild the word index. The old one answers meanwhile."""
        with self.filling:
            return self._fill_words(on_progress)

    def rebuild_vectors(self, on_progress: OnCount) -> int:
        """Remove all vectors and queue every record; return their number."""
        embedding = self._embedding()
        embedding.vectors.reset()
        return self._track_progress("queueing what is to be embedded", embedding.fill, on_progress)

    def embed(self, on_progress: OnCount) -> None:
        """Embed everything that is queued. `on_progress` gets the number left."""
        embedding = self._embedding()
        while embedding.step() or self._work(live=False):
            on_progress(embedding.queue.size())

    def cursor(self) -> int:
        """Return the outbox entry up to which both indexes are done."""
        return self.indexing.lexical.cursor() or 0

    def count_waiting(self) -> int:
        """Count the changes that the word index has not taken in."""
        return max(0, self.indexing.log.watermark() - self.cursor())

    def is_current(self) -> bool:
        """Tell whether a record just stored can be found: in the index, or among newer records,
        as all are before a new store is first indexed."""
        return self.count_waiting() <= MOST

    def status(self) -> IndexesStatus:
        embedding, trouble = self.embedding, self.state.trouble
        words, vectors = _NOTHING, None
        try:
            words = self.indexing.lexical.stats()
            vectors = None if embedding is None else embedding.vectors.stats()
        except (IndexFailed, OSError) as exc:
            trouble = trouble or str(exc)
        # Words first: a record is queued for its vectors before the word index is done with it.
        words_waiting = max(self.count_waiting(), self._count_unlearned())
        queued = {} if embedding is None else embedding.queue.count()
        waiting = {
            kind.name.lower(): queued[kind] for kind in reversed(Priority) if queued.get(kind)
        }
        if embedding is not None:
            waiting |= {work.kind: count for work in self.works if (count := work.count())}
        return IndexesStatus(
            words=words,
            words_waiting=words_waiting,
            model="" if embedding is None else embedding.embedder.model,
            vectors=vectors,
            vectors_waiting=sum(waiting.values()),
            waiting_by_kind=waiting,
            doing=f"{self.state.doing}: {self.state.done:,}" if self.state.doing else "",
            trouble=trouble,
        )

    def _take_in(self, check: Check) -> bool:
        """Index the next changes. Return whether more are waiting."""
        if not self.filling.acquire(blocking=False):
            return False  # `fill` takes everything in, and this job is woken afterwards
        try:
            cursor = self.indexing.lexical.cursor()
            # An index ahead of the store was made from a later state of it.
            if cursor is None or cursor > self.indexing.log.watermark():
                self._fill_words(lambda _: check())
            # Search covers what arrives meanwhile, and the next run indexes it: a commit for each
            # would keep a core busy.
            count = self.indexing.step(check)
            if count is None:
                if self.embedding is not None:  # some of its records may be gone
                    self.embedding.vectors.reset()
                self._fill_words(lambda _: check())
            return count == STEP
        finally:
            self.filling.release()

    def _repeat(self, step: Callable[[], bool], check: Check) -> bool:
        """Repeat a step while there is work. Return whether more is waiting after many."""
        try:
            for _ in range(STEPS):
                check()
                if not step():
                    return False
        except (EmbedderFailed, IndexFailed) as exc:
            self.state.trouble = str(exc)
            return False  # the next change, or the next minute, tries again
        return True

    def _ensure_queued(self, check: Check) -> None:
        """Queue every record if the vectors are new."""
        if self.embedding is not None and not self.embedding.vectors.is_complete:
            self._track_progress(
                "queueing what is to be embedded", self.embedding.fill, lambda _: check()
            )

    def _embed_some(self, *, live: bool) -> bool:
        if self.embedding is None:
            return False
        worked = self._work(live=live)  # first: it is little, and hooks need it
        if not self.embedding.step(live=live) and not worked:
            return False
        self.state.trouble = ""
        return True

    def _work(self, *, live: bool) -> bool:
        return any(work.step(live=live) for work in self.works)

    def _count_unlearned(self) -> int:
        cursors = [learner.cursor() for learner in self.learners]
        return max(0, self.indexing.log.watermark() - min(cursors)) if cursors else 0

    def _embedding(self) -> EmbeddingWriter:
        if self.embedding is None:
            raise FeatureUnavailable("nothing is embedded: embedder.provider is none")
        return self.embedding

    def _fill_words(self, on_progress: OnCount) -> int:
        return self._track_progress("filling the index of words", self.indexing.fill, on_progress)

    def _track_progress(
        self, doing: str, work: Callable[[OnCount], int], on_progress: OnCount
    ) -> int:
        self.state.doing, self.state.done = doing, 0

        def tell(count: int) -> None:
            self.state.done = count
            on_progress(count)

        try:
            return work(tell)
        finally:
            self.state.doing = ""
