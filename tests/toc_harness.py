"""The services that build a table of contents, over any store, with a clock that a test sets."""

from collections.abc import Callable
from dataclasses import replace

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.ports import Outbox
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.highlights import NO_WORK
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.model.toc import NodeWrite, TocChange, TocNode
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import Clock, OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Delete
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


def age_contents(store: OrderedStore) -> None:
    """Change a table of contents to one that an older version left: other words, none of the newer
    fields, and no record of an edition."""
    rewrite_nodes(store, lambda node: replace(_remove_fields(node), summary="as it was once"))
    edition = Delete(families.PROGRESS, b"checkpoint:contents-rebuild")
    store.submit([Batch((edition,))]).result()


def rewrite_nodes(store: OrderedStore, change: Callable[[TocNode], TocNode]) -> None:
    """Replace every present node, in its version."""
    toc = StoredToc(store)
    for node in list_nodes(store):
        stored = toc.list_versions(node.node_id, limit=1)
        is_kept = bool(stored) and stored[0].version == node.version
        toc.commit(TocChange(nodes=(NodeWrite(node=change(node), kept=is_kept),)))


def list_nodes(store: OrderedStore) -> list[TocNode]:
    """List the present nodes of all levels."""
    toc = StoredToc(store)
    nodes = toc.get_nodes(toc.list_ids("toc:", after=None, limit=100_000))
    return [node for node in nodes if node is not None]


def _remove_fields(node: TocNode) -> TocNode:
    return replace(node, session="", project="", highlights=(), work=NO_WORK)
