"""Indexing: from the outbox into the lexical index, and on to what has to be embedded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_memory.features.index.ports import EmbeddingQueue, LexicalIndex
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

BATCH = 2_000
LIVE_MS = 600_000  # what happened this short a time ago is embedded before any backlog


@dataclass(frozen=True, slots=True)
class Indexing:
    library: DocumentReader
    log: EventLog
    outbox: Outbox
    lexical: LexicalIndex
    queue: EmbeddingQueue | None  # None: nothing is embedded
    clock: Clock

    def step(self) -> int:
        """Take in the next entries of the outbox. How many there were."""
        cursor = self.lexical.cursor()
        entries = [] if cursor is None else self.outbox.read(cursor, limit=BATCH)
        if not entries:
            return 0
        changed = list(dict.fromkeys(entry for _, entry in entries))
        self._enqueue(changed)  # first: doing it twice is better than not at all
        self.lexical.replace(self.library.read_owned(changed), cursor=entries[-1][0])
        return len(entries)

    def fill(self, done: Callable[[int], None], *, afresh: bool = False) -> int:
        """Put everything into the lexical index anew. `done` is told how many records are, and
        may raise to stop; what was there is found until it is replaced."""
        newest = self.log.watermark()
        self._enqueue_waiting(newest)
        self.lexical.begin(afresh=afresh)
        count = 0
        waiting: list[OutboxEntry] = []
        for entries in self.library.list_entries():
            waiting += entries
            count += len(entries)
            if len(waiting) >= BATCH:
                self.lexical.replace(self.library.read_owned(waiting))
                waiting = []
                done(count)
        self.lexical.replace(self.library.read_owned(waiting))
        self.lexical.finish(cursor=newest)
        done(count)
        return count

    def _enqueue_waiting(self, newest: int) -> None:
        """What the index of words is about to pass by has yet to be embedded."""
        cursor = self.lexical.cursor()
        after = 0 if cursor is None or cursor > newest else cursor
        while entries := self.outbox.read(after, limit=BATCH):
            self._enqueue(list(dict.fromkeys(entry for _, entry in entries)))
            after = entries[-1][0]

    def _enqueue(self, changed: Sequence[OutboxEntry]) -> None:
        if self.queue is None:
            return
        since = self.clock.now() - LIVE_MS
        live = [each for each in changed if _is_live(each, since)]
        urgent = set(live)
        self.queue.add([entry for entry in changed if entry not in urgent], live=False)
        self.queue.add(live, live=True)


def _is_live(entry: OutboxEntry, since: int) -> bool:
    """Memories and facts always are: they are few, and someone has just written them."""
    match entry:
        case EventChanged(at=at):
            return at.at_ms >= since
        case MemoryChanged() | FactChanged():
            return True
        case SegmentChanged():
            return False
