"""Background jobs by cron, in UTC, and at once when there is work.

One thread keeps the time; each run has a thread of its own. A job never overlaps itself: a cron
time that comes while it runs is skipped, and a wake-up makes it run once more afterwards. Wake-ups
are coalesced, so that a busy conversation costs a run a second and not a run per event.

The system clock may be set, forward and back. It is read once a minute, and after it was set back
no job waits longer than until the second of its next times.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from zlib import crc32

import structlog
from cronsim import CronSim

from agent_memory.features.jobs.ports import JobStore
from agent_memory.kernel.errors import AgentMemoryError, NotFound
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.jobs import JobOutcome, JobState, JobStatus, ScheduledJob
from agent_memory.kernel.spelling import suggest_nearest
from agent_memory.platform.foreground import JOB_REST, Foreground, Pacer
from agent_memory.platform.ports import Clock
from agent_memory.platform.schedules import check_schedule

log = structlog.get_logger()

COALESCE_SECONDS = 0.8
STOP_SECONDS = 3.0
MAX_JITTER_MS = 2_000
LOOK_SECONDS = 60.0


class JobStopped(AgentMemoryError):
    """Raised in a job that runs too long, or when the daemon stops."""


@dataclass(slots=True)
class _JobEntry:
    """A job and its state in this process."""

    job: ScheduledJob
    state: JobState
    due: Millis
    woken: bool = False
    not_before: float = 0.0
    thread: threading.Thread | None = field(default=None)


class CronScheduler:
    def __init__(
        self,
        jobs: Sequence[ScheduledJob],
        store: JobStore,
        clock: Clock,
        *,
        enabled: bool,
        foreground: Foreground,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._enabled = enabled
        self._foreground = foreground
        self._look_seconds = look_seconds
        self._seen = clock.now()
        self._changed = threading.Condition()
        self._saving = threading.Lock()
        self._ending = False
        self._closed = threading.Event()
        self._jobs: dict[str, _JobEntry] = {}
        for job in jobs:
            state = store.load(job.name)
            self._jobs[job.name] = _JobEntry(job=job, state=state, due=self._first(job, state))
        self._thread = threading.Thread(target=self._run_loop, name="scheduler", daemon=True)

    def start(self) -> None:
        if self._enabled:
            self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive() and not self._ending

    def status(self) -> list[JobStatus]:
        with self._changed:
            return [
                JobStatus(
                    name=each.job.name,
                    cron=each.job.cron,
                    state=each.state,
                    next_run_ms=each.due,
                    running=each.thread is not None,
                )
                for each in self._jobs.values()
            ]

    def put(self, job: ScheduledJob, /) -> None:
        """Add a job, or change one that is there. Raises InvalidInput for a bad expression."""
        check_schedule(job.cron)
        state = self._store.load(job.name)
        with self._changed:
            found = self._jobs.get(job.name)
            if found is None:
                found = self._jobs[job.name] = _JobEntry(job=job, state=state, due=Millis(0))
            found.job = job
            found.due = self._first(job, found.state)
            self._changed.notify_all()

    def remove(self, name: str, /) -> None:
        """Remove a job. A run that is under way finishes."""
        with self._changed:
            self._jobs.pop(name, None)

    def pause(self, name: str, /) -> None:
        self._set_paused(name, True)

    def resume(self, name: str, /) -> None:
        self._set_paused(name, False)

    def wake(self, name: str, /) -> None:
        """Run a job soon, because there is work. Cheap, and callable on any thread."""
        if self._jobs[name].woken:  # it has not begun, and will see what this caller has stored
            return
        with self._changed:
            found = self._jobs[name]
            if not found.woken:
                found.woken = True
                self._changed.notify_all()

    def run(self, name: str, /) -> JobStatus:
        """Run a job now, paused or not, and wait for it."""
        with self._changed:
            found = self._get_job(name)
            self._changed.wait_for(lambda: found.thread is None)
            thread = self._begin(found, paced=False)  # the caller waits for it
        thread.join()
        return next(each for each in self.status() if each.name == name)

    def close(self) -> None:
        with self._changed:
            self._ending = True
            self._closed.set()  # wakes jobs that rest
            threads = [each.thread for each in self._jobs.values() if each.thread is not None]
            self._changed.notify_all()
        for thread in (*threads, *([self._thread] if self._thread.is_alive() else [])):
            thread.join(STOP_SECONDS)

    def _run_loop(self) -> None:
        with self._changed:
            while not self._ending:
                now = self._clock.now()
                if now < self._seen:
                    self._reschedule(now)
                self._seen = now
                for each in self._jobs.values():
                    self._start_if_due(each, now)
                self._changed.wait(self._pause_seconds(now))

    def _reschedule(self, now: Millis) -> None:
        """Bring jobs forward that a clock set back has delayed. A job that has just run keeps
        its next time, so that no time is run twice."""
        for each in self._jobs.values():
            upcoming = self._next(each.job, now)
            if each.due > self._next(each.job, upcoming):
                each.due = upcoming

    def _start_if_due(self, found: _JobEntry, now: Millis) -> None:
        """Start a job that is due or woken."""
        by_cron = found.due <= now
        if by_cron:
            found.due = self._next(found.job, now)
        if found.state.paused:
            found.woken = False
            return
        if found.thread is not None:
            if by_cron:
                found.state = replace(found.state, last_result=JobOutcome.SKIPPED)
            return
        if by_cron or (found.woken and time.monotonic() >= found.not_before):
            self._begin(found)

    def _begin(self, found: _JobEntry, *, paced: bool = True) -> threading.Thread:
        found.woken = False
        found.not_before = time.monotonic() + COALESCE_SECONDS
        thread = threading.Thread(
            target=self._work, args=(found, paced), name=f"job-{found.job.name}", daemon=True
        )
        found.thread = thread
        thread.start()
        return thread

    def _work(self, found: _JobEntry, paced: bool) -> None:
        began, started = self._clock.now(), time.monotonic()
        deadline = started + found.job.timeout_seconds
        error: str | None = None
        pacer = Pacer(self._foreground, JOB_REST, sleep=self._closed.wait)

        def check() -> None:
            nonlocal deadline
            if paced:
                deadline += pacer.give_way()
            if self._ending or time.monotonic() > deadline:
                raise JobStopped("stopped")

        try:
            found.job.work(check)
        except Exception as exc:
            if self._ending:  # no failure: the next start resumes the work
                log.info("job.stopped", job=found.job.name, error=str(exc))
                self._finish(found)
                return
            error = f"{type(exc).__name__}: {exc}"
            known = isinstance(exc, AgentMemoryError)  # its message says what is wrong
            log.error("job.failed", job=found.job.name, error=error, exc_info=not known)
        seconds = time.monotonic() - started
        log.debug("job.done", job=found.job.name, seconds=round(seconds, 3))
        with self._changed:
            found.state = replace(
                found.state,
                last_run_ms=began,
                last_duration_ms=int(seconds * 1000),
                last_result=JobOutcome.SUCCESS if error is None else JobOutcome.FAILED,
                last_error=error,
                run_count=found.state.run_count + (error is None),
                error_count=found.state.error_count + (error is not None),
            )
        try:
            self._save(found)
        except AgentMemoryError as exc:
            log.warning("job.not_saved", job=found.job.name, error=str(exc))
        self._finish(found)

    def _finish(self, found: _JobEntry) -> None:
        with self._changed:
            found.thread = None
            self._changed.notify_all()

    def _save(self, found: _JobEntry) -> None:
        """Save a state. One at a time, and as it is by then, so that an older state never
        replaces a newer one."""
        with self._saving:
            with self._changed:
                state = found.state
            self._store.save(found.job.name, state)

    def _set_paused(self, name: str, paused: bool) -> None:
        with self._changed:
            found = self._get_job(name)
            found.state = replace(found.state, paused=paused)
            found.woken = found.woken or not paused  # work that came in meanwhile is waiting
            self._changed.notify_all()
        self._save(found)

    def _get_job(self, name: str) -> _JobEntry:
        try:
            return self._jobs[name]
        except KeyError:
            near = suggest_nearest(name, self._jobs, cutoff=0.6)
            raise NotFound(f"Job not found: {name}{near}") from None

    def _first(self, job: ScheduledJob, state: JobState) -> Millis:
        """Return the first time to run: at once where a run was missed while the daemon was
        down. A last run in the future was dated by a clock that has been set back since."""
        now = self._clock.now()
        if not state.last_run_ms or state.last_run_ms > now:
            return self._next(job, now)
        return max(now, self._next(job, state.last_run_ms))

    def _next(self, job: ScheduledJob, after: Millis) -> Millis:
        moment = next(CronSim(job.cron, datetime.fromtimestamp(after / 1000, UTC)))
        # Jobs of the same minute start a little apart, always by the same amount.
        jitter = crc32(job.name.encode()) % MAX_JITTER_MS
        return Millis(int(moment.timestamp() * 1000) + jitter)

    def _pause_seconds(self, now: Millis) -> float:
        waits = [(each.due - now) / 1000 for each in self._jobs.values()]
        waits += [
            each.not_before - time.monotonic()
            for each in self._jobs.values()
            if each.woken and each.thread is None and not each.state.paused
        ]
        return max(0.001, min(*waits, self._look_seconds))
