"""The background jobs: their names, their times, and their status."""

from dataclasses import dataclass
from enum import IntEnum

from agent_memory.kernel.ids import Millis

NEVER = Millis(0)

SEGMENTS = "segment-summarizer"
ROLLUP = "hourly-rollup"
OUTBOX = "outbox-processor"
REBUILD = "contents-rebuild"
EMBEDDING = "backlog-embedder"
BACKUP = "backup"
TEAM = "team-sync"

CRONS = {
    ROLLUP: "0 0 * * * *",
    SEGMENTS: "0 */15 * * * *",
    OUTBOX: "0 * * * * *",
    REBUILD: "0 0 * * * *",
    EMBEDDING: "0 * * * * *",
    TEAM: "0 * * * * *",
}


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
