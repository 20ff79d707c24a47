"""Index changes from the outbox by their words, and queue them for embedding."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent_memory.features.index.model.documents import Document, Owner
from agent_memory.features.index.model.embeddings import prioritize
from agent_memory.features.index.ports import EmbeddingQueue, LexicalIndex, TermVectors
from agent_memory.features.log.model.outbox import (
    EventChanged,
    FactChanged,
    MemoryChanged,
    OutboxEntry,
    SegmentChanged,
)
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.platform.ports import Clock

BATCH = 2_000  # of a filling
STEP = 250  # entries of the outbox: between two steps, live records are embedded
CHUNK = 100  # read at once: a few milliseconds
LIVE_MS = 600_000  # entries younger than this are embedded before any backlog,
MOST_LIVE = 100  # unless more than this come at once: they are a backlog, whatever their time
NEWEST = 20  # live entries that need not wait until the index has caught up


@dataclass(frozen=True, slots=True)
class Indexer:
    documents: DocumentReader
    log: EventLog
    outbox: Outbox
    lexical: LexicalIndex
    terms: TermVectors
    queue: EmbeddingQueue | None  # None: nothing is embedded
    clock: Clock

    def step(self, check: Callable[[], None] = lambda: None) -> int | None:
        """Index the next entries of the outbox and return their number. `check` is called after
        every few milliseconds of work, and may raise to stop.

        Return None if entries are gone that the index has not read: daemons that share an outbox
        do not wait for one that is away for long.
        """
        cursor = self.lexical.cursor()
        if cursor is None:
            return 0
        newest = self.log.watermark()  # before the entries, which must reach it
        entries = self.outbox.read(cursor, limit=STEP)
        if entries[0][0] > cursor + 1 if entries else newest > cursor:
            return None
        if not entries:
            return 0
        changed = list(dict.fromkeys(entry for _, entry in entries))
        owned: dict[Owner, list[Document]] = {}
        for start in range(0, len(changed), CHUNK):
            owned |= self.documents.read_owned(changed[start : start + CHUNK])
            check()
        self._enqueue(changed, owned)  # before the index: twice is better than not at all
        self._replace(owned, cursor=entries[-1][0])
        return len(entries)

    def list_ahead(self, after: int) -> tuple[list[OutboxEntry], int]:
        """Return live entries that would wait for a backlog before them, and the number of the
        newest entry. None before `after`; none in a flood, which is a backlog itself."""
        newest = self.log.watermark()
        start = max(after, newest - MOST_LIVE)
        if start <= (self.lexical.cursor() or 0) + STEP:
            return [], after  # the next step takes them in
        since = self.clock.now() - LIVE_MS
        entries = [entry for _, entry in self.outbox.read(start, limit=MOST_LIVE)]
        live = [entry for entry in dict.fromkeys(entries) if _is_live(entry, since)]
        return (live if len(live) <= NEWEST else []), newest

    def fill(self, on_progress: Callable[[int], None], *, afresh: bool = False) -> int:
        """Rebuild the word index from every record. `on_progress` gets the number of records and
        may raise to stop; old entries are found until they are replaced."""
        newest = self.log.watermark()
        self._take_in_waiting(newest)
        self.lexical.begin(afresh=afresh)
        if afresh:
            self.terms.clear()
        count = 0
        waiting: list[OutboxEntry] = []
        for entries in self.documents.list_entries():
            waiting += entries
            count += len(entries)
            if len(waiting) >= BATCH:
                self._replace(self.documents.read_owned(waiting))
                waiting = []
                on_progress(count)
        self._replace(self.documents.read_owned(waiting))
        self.lexical.finish(cursor=newest)
        on_progress(count)
        return count

    def _replace(
        self, owned: Mapping[Owner, Sequence[Document]], *, cursor: int | None = None
    ) -> None:
        self.terms.replace(owned)  # before the cursor moves, so that a crash repeats it
        self.lexical.replace(owned, cursor=cursor)

    def _take_in_waiting(self, newest: int) -> None:
        """Queue for embedding what the word index is about to skip, and bring its term vectors up
        to date: a record that is gone has no entry in `fill`, and would keep its vector."""
        cursor = self.lexical.cursor()
        after = 0 if cursor is None or cursor > newest else cursor
        while entries := self.outbox.read(after, limit=BATCH):
            changed = list(dict.fromkeys(entry for _, entry in entries))
            owned = self.documents.read_owned(changed)
            self._enqueue(changed, owned)
            self.terms.replace(owned)
            after = entries[-1][0]

    def _enqueue(
        self, changed: Sequence[OutboxEntry], owned: Mapping[Owner, Sequence[Document]]
    ) -> None:
        if self.queue is None:
            return
        since = self.clock.now() - LIVE_MS
        live = {each for each in changed if _is_live(each, since)}
        if len(live) > MOST_LIVE:
            live = {each for each in live if not isinstance(each, EventChanged)}
        priorities = prioritize(changed, owned)
        self.queue.add({e: p for e, p in priorities.items() if e not in live}, live=False)
        self.queue.add({e: p for e, p in priorities.items() if e in live}, live=True)


def _is_live(entry: OutboxEntry, since: int) -> bool:
    """Tell whether an entry is live. Memories and facts always are: they are few, and just
    written."""
    match entry:
        case EventChanged(at=at):
            return at.at_ms >= since
        case MemoryChanged() | FactChanged():
            return True
        case SegmentChanged():
            return False
