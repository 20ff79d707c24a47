"""Background jobs: what is known of each, and what is kept of it."""

from dataclasses import dataclass
from enum import IntEnum

from agent_memory.kernel.ids import Millis

NEVER = Millis(0)


class JobOutcome(IntEnum):
    """Numbers are those of the wire; they are stored, so they never change."""

    NEVER_RUN = 0
    SUCCESS = 1
    FAILED = 2
    SKIPPED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What survives a restart."""

    last_run_ms: Millis = NEVER
    last_duration_ms: int = 0
    last_result: JobOutcome = JobOutcome.NEVER_RUN
    last_error: str | None = None
    run_count: int = 0
    error_count: int = 0
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job as it is now."""

    name: str
    cron: str
    state: JobState
    next_run_ms: Millis
    running: bool
