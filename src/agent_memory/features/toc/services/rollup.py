"""Rollup: from changed segments up to day, week, month and year, over dirty nodes only."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_memory.features.toc.model import periods, toc
from agent_memory.features.toc.model.periods import Level, NodeId, Period
from agent_memory.features.toc.model.summaries import ChildSummary, Digest
from agent_memory.features.toc.model.toc import NodeWrite, TocChange, TocNode
from agent_memory.features.toc.ports import Summarizer, TocReader, TocWriter
from agent_memory.platform.ports import Clock

BATCH = 100
HOUR_MS = 3_600_000  # of a period's versions the first of each hour is kept
_CHILDREN = 100_000


@dataclass(frozen=True, slots=True)
class Rollup:
    reader: TocReader
    writer: TocWriter
    drafter: Summarizer  # for periods that still run
    summarizer: Summarizer  # for those that are over
    clock: Clock

    def run(self, done: Callable[[int], None]) -> int:
        """Bring every dirty period up to date, bottom-up. How many were looked at."""
        count = 0
        for level in (Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR):
            while dirty := self.writer.list_dirty(level, limit=BATCH):
                self.writer.commit(self._change(dirty))
                count += len(dirty)
                done(count)
        self.writer.remove_stale_grips()
        return count

    def _change(self, dirty: list[NodeId]) -> TocChange:
        found = [(node_id, periods.parse(node_id)) for node_id in dirty]
        wanted = [period for _, period in found if period is not None]
        families = [self._children(period) for period in wanted]
        digests = self._digests(
            wanted, [[toc.to_child(child) for child in family] for family in families]
        )
        present = self.reader.get_nodes([period.node_id for period in wanted])
        nodes: list[NodeWrite] = []
        gone: list[NodeId] = []
        parents: set[NodeId] = set()
        for period, family, digest, old in zip(wanted, families, digests, present, strict=True):
            node = toc.build_period_node(period, family, digest)
            if not family:
                if old is None:
                    continue
                nodes.append(NodeWrite(node=old, kept=True))  # it leaves, its history stays
                gone.append(period.node_id)
            elif node.same_content(old):
                continue
            else:
                nodes.append(self._next(node, old))
            if period.parent is not None:
                parents.add(period.parent.node_id)
        return TocChange(
            nodes=tuple(nodes),
            gone=tuple(gone),
            dirty=frozenset(parents),
            clean=frozenset(dirty),
        )

    def _digests(self, wanted: list[Period], families: list[list[ChildSummary]]) -> list[Digest]:
        """All of a kind in one call: a summarizer that is down is then found so but once."""
        now = self.clock.now()
        found: dict[int, Digest] = {}
        for over, summarizer in ((False, self.drafter), (True, self.summarizer)):
            places = [n for n, period in enumerate(wanted) if (period.end_ms < now) is over]
            if places:
                digests = summarizer.digest([families[place] for place in places])
                found.update(zip(places, digests, strict=True))
        return [found[place] for place in range(len(wanted))]

    def _next(self, node: TocNode, old: TocNode | None) -> NodeWrite:
        now = self.clock.now()
        if old is None:
            kept = self.reader.list_versions(
                node.node_id, limit=1
            )  # it may have been gone for a while
            version = kept[0].version + 1 if kept else 1
            return NodeWrite(node=replace(node, version=version, created_ms=now), kept=False)
        new_hour = old.created_ms // HOUR_MS < now // HOUR_MS
        return NodeWrite(node=replace(node, version=old.version + 1, created_ms=now), kept=new_hour)

    def _children(self, period: Period) -> list[TocNode]:
        """The present nodes below a period, by time."""
        if period.level is Level.DAY:
            prefix = f"toc:segment:{period.first.isoformat()}:"
            names = self.reader.list_ids(prefix, after=None, limit=_CHILDREN)
        else:
            names = [child.node_id for child in period.children]
        return [node for node in self.reader.get_nodes(names) if node is not None]
