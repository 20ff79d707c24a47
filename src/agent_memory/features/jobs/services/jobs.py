"""The work of the background jobs."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from agent_memory.features.forgetting.model.forgetting import ForgettingReport
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.log.ports import EventLog, Outbox, OutboxLearner, OutboxNeed
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.toc.ports import TocWriter
from agent_memory.features.toc.services.background_rebuild import BackgroundRebuild
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.errors import (
    AgentMemoryError,
    InvalidInput,
    Overloaded,
    StorageClosed,
    StorageFailed,
    WorkerClosed,
    WorkerFailed,
)
from agent_memory.kernel.jobs import OUTBOX, Check, JobScheduler, JobStatus
from agent_memory.platform.ports import Leadership

RETRIES = 20  # failed summaries tried again per run
REBUILD_STEPS = 100  # per run: a long rebuild takes many, so that pausing it takes effect soon
OUTBOX_RETENTION = 10_000  # entries that stay for followers that reconnect
REBUILD_BACKLOG = 1_000  # changes that may wait for the word index: search covers 2,000


@dataclass(frozen=True, slots=True)
class JobTasks:
    """The work of each job. Cutting segments and rolling up share a lock: both write the same
    nodes. Of several daemons on one memory, the leader does what concerns the memory, and each
    fills its own indexes."""

    segmenting: Segmenter
    rollup: Rollup
    log: EventLog
    outbox: Outbox
    writer: TocWriter
    indexes: Indexes
    learners: Sequence[OutboxLearner]
    on_learning_failure: Callable[[AgentMemoryError], None]
    notes: NoteWriter
    forgetting: Forgetting
    on_forgetting_finished: Callable[
        [ForgettingReport], None
    ]  # a forgetting that a stop or a crash had cut off
    toc_lock: AbstractContextManager[object]
    rebuild: BackgroundRebuild
    injections: Injections
    needs: Sequence[OutboxNeed]  # of those who read the outbox, beside the indexes
    leadership: Leadership
    find_slowest: Callable[[], int | None]  # how far all other daemons have read the outbox
    run_due_purge: Callable[[Callable[[], None]], None]  # that another daemon asks for

    def cut_segments(self, check: Check) -> None:
        with self.leadership.lead() as leads:
            if not leads:
                return
            while True:
                check()
                with self.toc_lock:
                    if not self.segmenting.step():
                        break
            with self.toc_lock:
                self.segmenting.seal()
            check()
            with self.toc_lock:
                self.segmenting.retry(RETRIES)

    def roll_up(self, check: Check) -> None:
        with self.leadership.lead() as leads:
            if not leads:
                return
            self.injections.trim()
            while True:
                check()  # it may rest: never with the lock, which requests wait for
                with self.toc_lock:
                    if not self.rollup.step():
                        break

    def rebuild_contents(self, check: Check) -> bool:
        """Rebuild nodes of an older edition. Return whether something was rebuilt, and more may be
        left. Wait for a later run while the word index is behind: new events must be found."""
        with self.leadership.lead() as leads:
            for number in range(REBUILD_STEPS if leads else 0):
                check()
                if self.indexes.count_waiting() > REBUILD_BACKLOG:
                    return number > 0
                if not self.rebuild.step():
                    return False
            return leads

    def process_outbox(self, check: Check) -> bool:
        """Bring notes, what is learned and indexes up to date, trim the outbox, and finish a
        forgetting that was cut off. Return whether more is waiting."""
        more_to_learn = False

        def check_live() -> None:
            check()
            self.indexes.embed_ahead()

        def between() -> None:
            nonlocal more_to_learn
            check_live()
            self.notes.flush(check)  # a backlog of the indexes must not hold up the notes
            with self.leadership.lead() as leads:
                more_to_learn = leads and self._learn(check_live)

        try:
            between()
            more = self.indexes.keep_up(between)
        finally:
            with self.leadership.lead() as leads:
                if leads:
                    self._trim()
        with self.leadership.lead() as leads:
            report = self.forgetting.finish(check) if leads else None
            if report is not None:
                self.on_forgetting_finished(report)
        self.run_due_purge(lambda: self._purge(check))
        return more or more_to_learn

    def _learn(self, check: Check) -> bool:
        """Learn from new events, and return whether past ones are left. A learning failure must not
        block indexing."""
        more = False
        for learner in self.learners:
            try:
                more |= learner.keep_up(check)
            except (StorageClosed, WorkerClosed):
                raise
            except (StorageFailed, InvalidInput, Overloaded, WorkerFailed) as exc:
                self.on_learning_failure(exc)
        return more

    def count_reached(self) -> int:
        """Return the entry up to which this daemon no longer needs the outbox for itself."""
        needed = [number for need in self.needs if (number := need()) is not None]
        return min([self.indexes.cursor(), *needed])

    def _purge(self, check: Check) -> None:
        """Remove from the files of the indexes what another daemon has forgotten."""
        retained = [entry for _, entry in self.outbox.read(0, limit=OUTBOX_RETENTION)]
        self.forgetting.purging.purge_own(retained, lambda _phase, _count: check())

    def _trim(self) -> None:
        """Trim the outbox, leaving some entries for followers that reconnect."""
        learned = [learner.cursor() for learner in self.learners]
        done = min(self.writer.cursor(), self.count_reached(), *learned)
        done = min(done, self.log.watermark() - OUTBOX_RETENTION)
        slowest = self.find_slowest()
        if slowest is not None:
            done = min(done, slowest)
        oldest = self.outbox.read(0, limit=1)
        if oldest and oldest[0][0] <= done:
            self.outbox.trim(done)


@dataclass(frozen=True, slots=True)
class Jobs:
    scheduler: JobScheduler
    leadership: Leadership

    def status(self) -> tuple[bool, list[JobStatus]]:
        return self.scheduler.running, self.scheduler.status()

    def wake_indexes(self) -> None:
        """Index and embed soon."""
        self.scheduler.wake(OUTBOX)

    def pause(self, name: str) -> None:
        """Pause a job. Raises NotFound."""
        self.scheduler.pause(name)

    def resume(self, name: str) -> None:
        """Resume a job. Raises NotFound."""
        self.scheduler.resume(name)

    def run(self, name: str) -> JobStatus:
        """Run a job now and wait for it, as the daemon that leads.

        Raises NotFound, and Overloaded while another daemon is busy as the leader.
        """
        with self.leadership.take_over():
            return self.scheduler.run(name)
