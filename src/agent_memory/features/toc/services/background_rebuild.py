"""The rebuild of nodes that an older edition wrote, in the background, a few at a time, once.

Days are rebuilt newest first, each after its segments, then weeks, months and years. The stored
record names the last node that is done, so a restart goes on behind it. A change of the table
meanwhile does no harm: whatever writes a node writes the present edition.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.editions import (
    EDITION,
    FIRST_EDITION,
    EditionRecord,
    RebuildProgress,
)
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.toc import TocChange
from agent_memory.features.toc.ports import TocEditions, TocReader, TocWriter
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.status import ContentsStatus

BATCH = 8  # nodes per step: the longest time that a live segment waits for
_SEGMENTS = "toc:segment:"
_HIGHER = (Level.WEEK, Level.MONTH, Level.YEAR)

OnRebuild = Callable[[RebuildProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundRebuild:
    reader: TocReader
    writer: TocWriter
    editions: TocEditions
    segmenting: Segmenter
    rollup: Rollup
    toc_lock: AbstractContextManager[object]
    on_begin: OnRebuild
    on_end: OnRebuild

    def mark_new_store(self) -> None:
        """Record the present edition in a store without segments: nothing in it is older."""
        if self.editions.get_edition() is None and not self._has_segments():
            self.writer.commit(TocChange(edition=EditionRecord(edition=EDITION)))

    def is_due(self) -> bool:
        """Tell whether nodes of an older edition are left."""
        record = self.editions.get_edition()
        return self._has_segments() if record is None else record.edition < EDITION

    def status(self) -> ContentsStatus | None:
        """Return how far the rebuild is, or None if there is none."""
        if not self.is_due():
            return None
        record = self.editions.get_edition()
        progress = None if record is None else record.rebuild
        if progress is None or progress.edition != EDITION:
            return ContentsStatus(segments=0, total=self.editions.count_segments())
        # Segments that are added to past days meanwhile are read too.
        return ContentsStatus(segments=progress.done, total=max(progress.total, progress.done))

    def step(self) -> bool:
        """Rebuild the next nodes. Return False if there is nothing to rebuild any more."""
        with self.toc_lock:
            if not self.is_due():
                self.mark_new_store()
                return False
            record = self.editions.get_edition() or EditionRecord(edition=FIRST_EDITION)
            progress = record.rebuild
            if progress is None or progress.edition != EDITION:
                total = self.editions.count_segments()
                progress = RebuildProgress(edition=EDITION, total=total)
                self.on_begin(progress)
            began = self.segmenting.clock.now()
            node_ids = self._list_next(progress.reached)
            if not node_ids:
                self.writer.commit(TocChange(edition=EditionRecord(edition=EDITION)))
                self.on_end(progress)
                return False
            change, done = self._plan(node_ids)
            progress = replace(
                progress,
                reached=node_ids[-1],
                done=progress.done + done,
                written=progress.written + len(change.nodes),
                spent_ms=progress.spent_ms + max(0, self.segmenting.clock.now() - began),
            )
            self.writer.commit(replace(change, edition=replace(record, rebuild=progress)))
            return True

    def _has_segments(self) -> bool:
        return bool(self.reader.list_ids(_SEGMENTS, after=None, limit=1))

    def _plan(self, node_ids: list[NodeId]) -> tuple[TocChange, int]:
        """Return the change of these nodes, which have one level, and the number of segments."""
        if periods.parse_level(node_ids[0]) is not Level.SEGMENT:
            return self.rollup.plan_redraft(node_ids), 0
        nodes = [node for node in self.reader.get_nodes(node_ids) if node is not None]
        return self.segmenting.plan_redraft(nodes), len(node_ids)

    def _list_next(self, reached: NodeId | None) -> list[NodeId]:
        """Return the nodes after this one in the order of the rebuild."""
        level = Level.DAY if reached is None else periods.parse_level(reached)
        if level in (Level.SEGMENT, Level.DAY):
            if found := self._list_next_of_day(reached):
                return found
            level, reached = Level.WEEK, None
        for each in _HIGHER[_HIGHER.index(level) :]:
            prefix = f"toc:{each.name.lower()}:"
            after = reached if each is level else None
            if found := self.reader.list_ids(prefix, after=after, limit=BATCH, reverse=True):
                return found
        return []

    def _list_next_of_day(self, reached: NodeId | None) -> list[NodeId]:
        """Return the next segments of one day or, after the last of them, the day."""
        before: str | None = reached
        if reached is not None and periods.parse_level(reached) is Level.DAY:
            before = f"{_SEGMENTS}{reached.rpartition(':')[2]}:"
        found = self.reader.list_ids(_SEGMENTS, after=before, limit=BATCH, reverse=True)
        if reached is not None and periods.parse_level(reached) is Level.SEGMENT:
            day = periods.parse(reached)
        else:
            day = periods.parse(found[0]) if found else None
        if day is None:
            return []
        return [each for each in found if periods.parse(each) == day] or [day.node_id]
