"""The background jobs: their names, their times, and their status."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from agent_memory.kernel.ids import Millis
from agent_memory.kernel.signals import DaemonSignal

NEVER = Millis(0)

SEGMENTS = "segment-summarizer"
ROLLUP = "hourly-rollup"
OUTBOX = "outbox-processor"
REBUILD = "contents-rebuild"
EMBEDDING = "backlog-embedder"
BACKUP = "backup"
TEAM = "team-sync"

Check = Callable[[], None]
"""What a job calls after every few milliseconds of work: it waits while someone waits for an
answer, and raises JobStopped to end the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """A job: its work, its times as cron with seconds, and the signals that wake it."""

    name: str
    cron: str
    work: Callable[[Check], None]
    woken_by: tuple[DaemonSignal, ...] = ()
    timeout_seconds: float = 3600.0


class JobOutcome(IntEnum):
    """The result of a run. The numbers are stored and sent on the wire: never change them."""

    NEVER_RUN = 0
    SUCCESS = 1
    FAILED = 2
    SKIPPED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The part of a job's status that survives a restart."""

    last_run_ms: Millis = NEVER
    last_duration_ms: int = 0
    last_result: JobOutcome = JobOutcome.NEVER_RUN
    last_error: str | None = None
    run_count: int = 0
    error_count: int = 0
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The present status of a job."""

    name: str
    cron: str
    state: JobState
    next_run_ms: Millis
    running: bool


class JobScheduler(Protocol):
    """Runs the background jobs."""

    @property
    def running(self) -> bool: ...

    def status(self) -> list[JobStatus]: ...

    def put(self, job: ScheduledJob, /) -> None:
        """Add a job, or replace the one of its name."""
        ...

    def remove(self, name: str, /) -> None: ...

    def pause(self, name: str, /) -> None: ...

    def resume(self, name: str, /) -> None: ...

    def wake(self, name: str, /) -> None: ...

    def run(self, name: str, /) -> JobStatus: ...
