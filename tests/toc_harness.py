"""The services that build a table of contents, over any store, with a clock that a test sets."""

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.ports import Outbox
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import Clock, OrderedStore
from tests.inline_worker import InlineWorker


class SetClock:
    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def now(self) -> Millis:
        return Millis(self.at_ms)


def build_segmenting(
    store: OrderedStore, clock: Clock, rules: SegmentRules, outbox: Outbox | None = None
) -> Segmenter:
    """Build segmenting with the extractive summarizer; `outbox` replaces that of the store."""
    toc, summarizer = StoredToc(store), ExtractiveSummarizer(InlineWorker())
    return Segmenter(
        log=StoredEventLog(store),
        outbox=outbox or StoredOutbox(store),
        reader=toc,
        writer=toc,
        drafter=summarizer,
        summarizer=summarizer,
        clock=clock,
        rules=rules,
    )


def build_rollup(store: OrderedStore, clock: Clock) -> Rollup:
    """Build a rollup with the extractive summarizer."""
    toc, summarizer = StoredToc(store), ExtractiveSummarizer(InlineWorker())
    return Rollup(reader=toc, writer=toc, drafter=summarizer, summarizer=summarizer, clock=clock)
