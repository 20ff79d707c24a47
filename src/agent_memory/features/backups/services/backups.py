"""Take backups on request, by schedule and before an upgrade, and remove old ones."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from agent_memory.features.backups.model import backups
from agent_memory.features.backups.model.backups import BackupResult, Retention, Snapshot
from agent_memory.features.backups.ports import Snapshots
from agent_memory.features.backups.services.backup_record import BackupRecord
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import Overloaded
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import Clock

MISSED = 2  # scheduled times that may pass without a good backup before a warning
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPlan:
    """Backups by schedule. An empty schedule means none."""

    folder: str
    schedule: str
    retention: Retention


@dataclass(slots=True, kw_only=True)
class Backups:
    """Takes backups. The callables are those of the scheduler: `check` raises InvalidInput for a
    bad cron expression, `schedule` sets the job's expression or removes the job for an empty one,
    `passed` counts the times of an expression between two moments."""

    snapshots: Snapshots
    notes: NoteWriter
    history: BackupRecord
    clock: Clock
    plan: BackupPlan
    check: Callable[[str], None]
    schedule: Callable[[str], None]
    passed: Callable[[str, Millis, Millis], int]
    turn: threading.Lock = field(default_factory=threading.Lock)

    def take(
        self, target: str, retention: Retention | None, on_progress: Callable[[int], None]
    ) -> BackupResult:
        """Back up to a folder of snapshots or to an archive. With a retention, remove what it
        does not keep: only once the new backup is complete, and only our own snapshots."""
        if not self.turn.acquire(blocking=False):
            raise Overloaded("a backup is being taken already; try again when it is done")
        try:
            # pending notes name repositories of this machine, so write them first
            self.notes.flush()
            made = self.snapshots.create(target, on_progress=on_progress)
            self._record(target, made)
            removed = () if retention is None else self._prune(target, made, retention)
        finally:
            self.turn.release()
        return BackupResult(
            path=made.path,
            made_ms=made.manifest.made_ms,
            events=made.manifest.events,
            files=len(made.manifest.files),
            size_bytes=made.manifest.size_bytes,
            new_bytes=made.new_bytes,
            removed=removed,
        )

    def run(self, check: Callable[[], None]) -> None:
        """Take the scheduled backup."""
        self.take(self.plan.folder, self.plan.retention, lambda _: check())

    def follow(self, plan: BackupPlan, keep: Callable[[BackupPlan], None] = lambda _: None) -> None:
        """Take backups by this plan from now on, once `keep` has stored it. Raises InvalidInput
        for a bad schedule, before that."""
        if plan.schedule:
            self.check(plan.schedule)
        keep(plan)
        self.schedule(plan.schedule)
        self.plan = plan

    def warnings(self) -> list[str]:
        """List what is wrong with the scheduled backups."""
        if not self.plan.schedule or not self.plan.folder:
            return []
        last, now = self.history.load(), self.clock.now()
        if PurePath(last.scheduled).parent != PurePath(self.plan.folder):
            return [f"no backup has been taken yet to {self.plan.folder}"]
        if self.passed(self.plan.schedule, last.scheduled_ms, now) < MISSED:
            return []
        days = (now - last.scheduled_ms) // DAY_MS
        return [f"the last good backup is {format_count(days, 'day')} old: {last.scheduled}"]

    def _record(self, target: str, made: Snapshot) -> None:
        """Record the result. A backup to another folder does not count as a scheduled one."""
        at = made.manifest.made_ms
        status = replace(self.history.load(), path=made.path, made_ms=at)
        if PurePath(target) == PurePath(self.plan.folder):
            status = replace(status, scheduled=made.path, scheduled_ms=at)
        self.history.save(status)

    def _prune(self, folder: str, made: Snapshot, retention: Retention) -> tuple[str, ...]:
        found = self.snapshots.list_complete(folder)
        old = backups.select_outdated(found, made, retention)
        for each in old:
            self.snapshots.remove(each)
        return tuple(each.path for each in old)
