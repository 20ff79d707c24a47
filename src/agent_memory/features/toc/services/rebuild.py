"""Rebuild of the table of contents from the events. Unchanged nodes keep their version."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date

from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services import paging
from agent_memory.features.toc.model.editions import EDITION, EditionRecord
from agent_memory.features.toc.model.periods import Level, NodeId, Period
from agent_memory.features.toc.model.toc import TocChange
from agent_memory.features.toc.ports import TocEditions, TocReader, TocWriter
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.ids import Millis, SessionId
from agent_memory.platform.ports import Leadership

_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """The counts of a rebuild or, in a dry run, of what it would do."""

    sessions: int
    written: int
    removed: int
    rolled_up: int


@dataclass(frozen=True, slots=True)
class Rebuild:
    log: EventLog
    segmenting: Segmenter
    rollup: Rollup
    reader: TocReader
    writer: TocWriter
    editions: TocEditions
    toc_lock: AbstractContextManager[object]
    leadership: Leadership

    def sessions(self, since: date | None) -> list[SessionId]:
        """Return the sessions with events from this day on."""
        return list(dict.fromkeys(self._session_ids(since)))

    def run(
        self,
        sessions: list[SessionId],
        *,
        dry_run: bool,
        on_progress: Callable[[int], None],
        complete: bool = False,
    ) -> RebuildResult:
        """Cut and summarize these sessions again, then roll up the changes.

        If they are all sessions (`complete`), the whole table has the present edition afterwards.
        """
        with self.leadership.take_over():
            return self._run(sessions, dry_run=dry_run, on_progress=on_progress, complete=complete)

    def _run(
        self,
        sessions: list[SessionId],
        *,
        dry_run: bool,
        on_progress: Callable[[int], None],
        complete: bool,
    ) -> RebuildResult:
        written = removed = 0
        for number, session_id in enumerate(sessions, 1):
            with self.toc_lock:
                began = self.segmenting.clock.now()
                change = self.segmenting.plan_rebuild(session_id)
                if not dry_run:
                    self.writer.commit(change)
            written += sum(write.node.created_ms >= began for write in change.nodes)
            removed += len(change.gone)
            on_progress(number)
        rolled_up = 0
        if not dry_run:
            with self.toc_lock:
                if complete and self._is_older():
                    self._mark_periods()
                rolled_up = self.rollup.run(lambda _: on_progress(len(sessions)))
                if complete:
                    self.writer.commit(TocChange(edition=EditionRecord(edition=EDITION)))
        return RebuildResult(
            sessions=len(sessions), written=written, removed=removed, rolled_up=rolled_up
        )

    def _is_older(self) -> bool:
        record = self.editions.get_edition()
        return record is None or record.edition < EDITION

    def _mark_periods(self) -> None:
        """Mark every period dirty: an older edition wrote it, even if its children stay."""
        for level in (Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR):
            prefix = f"toc:{level.name.lower()}:"
            after: NodeId | None = None
            while found := self.reader.list_ids(prefix, after=after, limit=_PAGE):
                self.writer.commit(TocChange(dirty=frozenset(found)))
                after = found[-1]

    def _session_ids(self, since: date | None) -> Iterator[SessionId]:
        start = Millis(0) if since is None else Period(level=Level.DAY, first=since).start_ms
        for page in paging.iter_between(self.log, start):
            yield from (event.session_id for event in page.events)
