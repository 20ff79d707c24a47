"""Rollup: updates days, weeks, months and years above changed segments, and no others."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.toc.model import periods, toc
from agent_memory.features.toc.model.periods import Level, NodeId, Period
from agent_memory.features.toc.model.summaries import Digest, PeriodSummary
from agent_memory.features.toc.model.toc import NodeWrite, TocChange, TocNode
from agent_memory.features.toc.ports import Summarizer, TocReader, TocWriter
from agent_memory.platform.ports import Clock

BATCH = 100
_FIRST_EDITION = re.compile(r" Also: [^.]*\.$")  # how extraction ended a summary in edition 1
HOUR_MS = 3_600_000  # the first version of a period in each hour is kept
_CHILDREN = 100_000


@dataclass(frozen=True, slots=True)
class Rollup:
    reader: TocReader
    writer: TocWriter
    drafter: Summarizer  # for the present periods
    summarizer: Summarizer  # for past ones
    clock: Clock

    def run(self, on_progress: Callable[[int], None]) -> int:
        """Update every dirty period, bottom-up, and return their number."""
        count = 0
        while updated := self.step():
            count += updated
            on_progress(count)
        return count

    def step(self) -> int:
        """Update some dirty periods of the lowest level that has any, and return their number."""
        for level in (Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR):
            if dirty := self.writer.list_dirty(level, limit=BATCH):
                self.writer.commit(self._change(dirty))
                return len(dirty)
        self.writer.remove_stale_grips()
        return 0

    def plan_redraft(self, node_ids: Sequence[NodeId]) -> TocChange:
        """Return the change from writing periods again, without asking a model.

        If there is one, past periods keep their text, which it may have written.
        """
        changed = [period for node_id in node_ids if (period := periods.parse(node_id)) is not None]
        families = [self._children(period) for period in changed]
        digests = self.drafter.digest(
            [
                PeriodSummary(level=period.level, children=tuple(map(toc.to_child, family)))
                for period, family in zip(changed, families, strict=True)
            ]
        )
        present = self.reader.get_nodes([period.node_id for period in changed])
        nodes: list[NodeWrite] = []
        for period, family, digest, old in zip(changed, families, digests, present, strict=True):
            if old is None or not family:
                continue  # it is dirty: the next rollup adds or removes it
            node = toc.build_period_node(period, family, digest)
            is_past = period.end_ms < self.clock.now()
            if (
                self.summarizer.name != self.drafter.name
                and is_past
                and not _FIRST_EDITION.search(old.summary)
            ):
                node = replace(node, summary=old.summary)
            if not node.same_content(old):
                nodes.append(self._next(node, old))
        return TocChange(nodes=tuple(nodes))

    def _change(self, dirty: list[NodeId]) -> TocChange:
        changed = [period for node_id in dirty if (period := periods.parse(node_id)) is not None]
        families = [self._children(period) for period in changed]
        digests = self._digests(
            changed,
            [
                PeriodSummary(level=period.level, children=tuple(map(toc.to_child, family)))
                for period, family in zip(changed, families, strict=True)
            ],
        )
        present = self.reader.get_nodes([period.node_id for period in changed])
        nodes: list[NodeWrite] = []
        gone: list[NodeId] = []
        parents: set[NodeId] = set()
        for period, family, digest, old in zip(changed, families, digests, present, strict=True):
            node = toc.build_period_node(period, family, digest)
            if not family:
                if old is None:
                    continue
                nodes.append(NodeWrite(node=old, kept=True))  # its history stays
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

    def _digests(self, changed: list[Period], families: list[PeriodSummary]) -> list[Digest]:
        """Summarize in one call per summarizer, so that one that is down is tried only once."""
        now = self.clock.now()
        digests: dict[int, Digest] = {}
        for over, summarizer in ((False, self.drafter), (True, self.summarizer)):
            indexes = [n for n, period in enumerate(changed) if (period.end_ms < now) is over]
            if indexes:
                results = summarizer.digest([families[index] for index in indexes])
                digests.update(zip(indexes, results, strict=True))
        return [digests[index] for index in range(len(changed))]

    def _next(self, node: TocNode, old: TocNode | None) -> NodeWrite:
        now = self.clock.now()
        if old is None:
            kept = self.reader.list_versions(node.node_id, limit=1)  # a node may come back
            version = kept[0].version + 1 if kept else 1
            return NodeWrite(node=replace(node, version=version, created_ms=now), kept=False)
        new_hour = old.created_ms // HOUR_MS < now // HOUR_MS
        return NodeWrite(node=replace(node, version=old.version + 1, created_ms=now), kept=new_hour)

    def _children(self, period: Period) -> list[TocNode]:
        """Return the present child nodes of a period, by time."""
        if period.level is Level.DAY:
            prefix = f"toc:segment:{period.first.isoformat()}:"
            names = self.reader.list_ids(prefix, after=None, limit=_CHILDREN)
        else:
            names = [child.node_id for child in period.children]
        return [node for node in self.reader.get_nodes(names) if node is not None]
