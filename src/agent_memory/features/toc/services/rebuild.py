"""Rebuild of the table of contents from the events. Unchanged nodes keep their version."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date

from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services import paging
from agent_memory.features.toc.model.periods import Level, Period
from agent_memory.features.toc.ports import TocWriter
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.ids import Millis, SessionId


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
    writer: TocWriter
    toc_lock: threading.Lock

    def sessions(self, since: date | None) -> list[SessionId]:
        """Return the sessions with events from this day on."""
        return list(dict.fromkeys(self._session_ids(since)))

    def run(
        self, sessions: list[SessionId], *, dry_run: bool, on_progress: Callable[[int], None]
    ) -> RebuildResult:
        """Cut and summarize these sessions again, then roll up the changes."""
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
                rolled_up = self.rollup.run(lambda _: on_progress(len(sessions)))
        return RebuildResult(
            sessions=len(sessions), written=written, removed=removed, rolled_up=rolled_up
        )

    def _session_ids(self, since: date | None) -> Iterator[SessionId]:
        start = Millis(0) if since is None else Period(level=Level.DAY, first=since).start_ms
        for page in paging.iter_between(self.log, start):
            yield from (event.session_id for event in page.events)
