"""The Scheduler port: cron and wake-ups, pauses, restarts and ends. Time is what the test says.

The scheduler looks at its clock whenever something is asked of it; pausing the idle job is how a
test makes it look.
"""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from agent_memory.features.jobs.adapters.cron import (
    MAX_JITTER_MS,
    CronScheduler,
)
from agent_memory.features.jobs.adapters.job_store import StoredJobs
from agent_memory.features.jobs.ports import JobStore
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.jobs import JobOutcome, JobState, JobStatus, ScheduledJob
from agent_memory.platform.foreground import Foreground
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import TIMEOUT, unexpected
from tests.memory_engine import MemoryEngine

HOUR = 3_600_000
START = 1_769_783_400_000  # 2026-01-30 14:30
HOURLY = "0 0 * * * *"
NAME = "hourly-rollup"
IDLE = "idle"

Check = Callable[[], None]


class SetClock:
    def __init__(self) -> None:
        self.at_ms = START

    def now(self) -> Millis:
        return Millis(self.at_ms)


class Task:
    """Work that says when it begins and waits until it may end."""

    def __init__(self, *, held: bool = False) -> None:
        self.held = held
        self.failure: Exception | None = None
        self.begun = threading.Semaphore(0)
        self.released = threading.Semaphore(0)
        self.runs = 0

    def __call__(self, check: Check) -> None:
        self.runs += 1
        self.begun.release()
        if self.held:
            assert self.released.acquire(timeout=TIMEOUT)
        check()
        if self.failure is not None:
            raise self.failure

    def wait_begun(self) -> None:
        assert self.begun.acquire(timeout=TIMEOUT), "the job did not begin"

    def release(self) -> None:
        self.released.release()


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def jobs() -> Iterator[JobStore]:
    store = CommittedStore(MemoryEngine(), watch=unexpected)
    yield StoredJobs(store)
    store.close()


Start = Callable[..., CronScheduler]


@pytest.fixture
def start(jobs: JobStore, clock: SetClock) -> Iterator[Start]:
    created: list[CronScheduler] = []

    def started(
        task: Task,
        *,
        cron: str = HOURLY,
        enabled: bool = True,
        timeout_seconds: float = TIMEOUT,
        others: tuple[ScheduledJob, ...] = (),
        look_seconds: float = TIMEOUT,
    ) -> CronScheduler:
        scheduler = CronScheduler(
            [
                ScheduledJob(name=NAME, cron=cron, work=task, timeout_seconds=timeout_seconds),
                ScheduledJob(name=IDLE, cron="0 0 0 1 1 *", work=lambda check: check()),
                *others,
            ],
            jobs,
            clock,
            enabled=enabled,
            foreground=Foreground(),
            look_seconds=look_seconds,
        )
        created.append(scheduler)
        scheduler.start()
        return scheduler

    yield started
    for scheduler in created:
        scheduler.close()


def status(scheduler: CronScheduler, name: str = NAME) -> JobStatus:
    return next(each for each in scheduler.status() if each.name == name)


def look(scheduler: CronScheduler) -> None:
    scheduler.pause(IDLE)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        threading.Event().wait(0.01)


def wait_idle(scheduler: CronScheduler) -> None:
    wait_until(lambda: not status(scheduler).running)


class TestCron:
    def test_a_new_job_waits_for_its_time(self, start: Start) -> None:
        task = Task()
        found = status(start(task))
        assert found.state == JobState()
        assert not found.running
        assert found.cron == HOURLY
        assert found.next_run_ms > START
        assert 0 <= found.next_run_ms - (START + HOUR // 2) < MAX_JITTER_MS

    @pytest.mark.parametrize(
        ("cron", "moment"),
        [
            (HOURLY, "2026-01-30T15:00:00"),
            ("0 */15 * * * *", "2026-01-30T14:45:00"),
            ("0 * * * * *", "2026-01-30T14:31:00"),
            ("30 5 4 * * 1", "2026-02-02T04:05:30"),
        ],
    )
    def test_the_next_run_is_in_the_future_and_on_the_cron(
        self, start: Start, cron: str, moment: str
    ) -> None:
        found = status(start(Task(), cron=cron))
        on_time = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() * 1000
        assert 0 <= found.next_run_ms - on_time < MAX_JITTER_MS

    def test_it_runs_when_its_time_has_come_and_again_an_hour_later(
        self, start: Start, clock: SetClock
    ) -> None:
        task = Task()
        scheduler = start(task)
        for number in (1, 2, 3):
            due = clock.at_ms = status(scheduler).next_run_ms
            look(scheduler)
            task.wait_begun()
            wait_idle(scheduler)
            found = status(scheduler)
            assert found.state.run_count == number
            assert found.state.last_run_ms == due
            assert found.next_run_ms == due + HOUR

    def test_a_time_that_comes_while_it_runs_is_skipped(
        self, start: Start, clock: SetClock
    ) -> None:
        task = Task(held=True)
        scheduler = start(task)
        scheduler.wake(NAME)
        task.wait_begun()
        clock.at_ms = status(scheduler).next_run_ms
        look(scheduler)
        wait_until(lambda: status(scheduler).state.last_result is JobOutcome.SKIPPED)
        assert status(scheduler).running
        assert status(scheduler).next_run_ms > clock.at_ms
        task.release()
        wait_idle(scheduler)
        assert task.runs == 1
        assert status(scheduler).state.run_count == 1

    def test_a_run_missed_while_down_is_caught_up(
        self, start: Start, jobs: JobStore, clock: SetClock
    ) -> None:
        jobs.save(NAME, JobState(last_run_ms=Millis(START - HOUR), run_count=7))
        task = Task()
        scheduler = start(task)
        task.wait_begun()
        wait_idle(scheduler)
        assert status(scheduler).state.run_count == 8
        assert status(scheduler).next_run_ms > clock.at_ms

    def test_so_is_one_whose_time_came_just_before_the_start(
        self, start: Start, jobs: JobStore, clock: SetClock
    ) -> None:
        """Between the cron's moment and the little by which jobs start apart."""
        clock.at_ms = START + HOUR // 2  # on the hour
        jobs.save(NAME, JobState(last_run_ms=Millis(clock.at_ms - HOUR + 1_999)))
        scheduler = start(Task())
        assert status(scheduler).next_run_ms - clock.at_ms < MAX_JITTER_MS

    def test_what_ran_in_time_is_not_run_at_start(self, start: Start, jobs: JobStore) -> None:
        jobs.save(NAME, JobState(last_run_ms=Millis(START - 1)))
        assert status(start(Task())).next_run_ms >= START + HOUR // 2


class TestWaking:
    def test_a_woken_job_runs_before_its_time(self, start: Start) -> None:
        task = Task()
        scheduler = start(task)
        before = status(scheduler).next_run_ms
        scheduler.wake(NAME)
        task.wait_begun()
        wait_idle(scheduler)
        assert status(scheduler).state.run_count == 1
        assert status(scheduler).state.last_run_ms == START
        assert status(scheduler).next_run_ms == before

    def test_many_wakes_during_a_run_cause_one_more(self, start: Start) -> None:
        task, other = Task(held=True), Task()
        scheduler = start(
            task, others=(ScheduledJob(name="other", cron="0 0 0 1 1 *", work=other),)
        )
        scheduler.wake(NAME)
        task.wait_begun()
        for _ in range(100):
            scheduler.wake(NAME)
        task.release()
        task.wait_begun()
        task.release()
        wait_idle(scheduler)
        # A third would start a second after the second did, so before this one's second.
        for _ in range(2):
            scheduler.wake("other")
            other.wait_begun()
        assert task.runs == 2
        assert status(scheduler).state.run_count == 2

    def test_a_job_is_shown_as_running_while_it_runs(self, start: Start) -> None:
        task = Task(held=True)
        scheduler = start(task)
        scheduler.wake(NAME)
        task.wait_begun()
        assert status(scheduler).running
        task.release()
        wait_idle(scheduler)

    def test_jobs_do_not_wait_for_each_other(self, start: Start) -> None:
        task, other = Task(held=True), Task()
        scheduler = start(task, others=(ScheduledJob(name="other", cron=HOURLY, work=other),))
        scheduler.wake(NAME)
        task.wait_begun()
        scheduler.wake("other")
        other.wait_begun()
        assert status(scheduler).running
        task.release()


class TestPausing:
    def test_a_paused_job_runs_neither_by_cron_nor_when_woken(
        self, start: Start, clock: SetClock
    ) -> None:
        task, other = Task(), Task()
        scheduler = start(task, others=(ScheduledJob(name="other", cron=HOURLY, work=other),))
        scheduler.pause(NAME)
        due = status(scheduler).next_run_ms
        clock.at_ms += HOUR
        scheduler.wake(NAME)
        scheduler.wake("other")
        other.wait_begun()  # and it is considered after the paused one
        assert task.runs == 0
        assert status(scheduler).next_run_ms > due
        assert status(scheduler).state.paused

    def test_what_waited_runs_when_it_is_resumed(self, start: Start) -> None:
        task = Task()
        scheduler = start(task)
        scheduler.pause(NAME)
        scheduler.wake(NAME)
        scheduler.resume(NAME)
        task.wait_begun()
        wait_idle(scheduler)
        assert not status(scheduler).state.paused
        assert status(scheduler).state.run_count == 1

    def test_it_can_be_run_all_the_same(self, start: Start) -> None:
        task = Task()
        scheduler = start(task)
        scheduler.pause(NAME)
        found = scheduler.run(NAME)
        assert found.state.run_count == 1
        assert found.state.paused

    def test_pausing_during_a_run_does_not_end_it(self, start: Start, jobs: JobStore) -> None:
        task = Task(held=True)
        scheduler = start(task)
        scheduler.wake(NAME)
        task.wait_begun()
        scheduler.pause(NAME)
        task.release()
        wait_idle(scheduler)
        assert status(scheduler).state.last_result is JobOutcome.SUCCESS
        assert jobs.load(NAME) == status(scheduler).state
        assert jobs.load(NAME).paused

    @pytest.mark.parametrize("ask", ["pause", "resume", "run"])
    def test_an_unknown_job_is_not_found(self, start: Start, ask: str) -> None:
        scheduler = start(Task())
        with pytest.raises(NotFound, match="nightly"):
            getattr(scheduler, ask)("nightly")


class SlowFirstSave:
    """Lets another save go ahead of the first one, if another comes."""

    def __init__(self, inner: JobStore) -> None:
        self.inner = inner
        self.saving = threading.Event()
        self.overtaken = threading.Event()

    def load(self, name: str, /) -> JobState:
        return self.inner.load(name)

    def save(self, name: str, state: JobState, /) -> None:
        if self.saving.is_set():
            self.inner.save(name, state)
            self.overtaken.set()
        else:
            self.saving.set()
            self.overtaken.wait(0.3)
            self.inner.save(name, state)


class TestKept:
    def test_all_of_it_outlives_the_scheduler(self, start: Start, jobs: JobStore) -> None:
        task = Task()
        first = start(task)
        first.run(NAME)
        task.failure = ValueError("no")
        first.run(NAME)
        first.pause(NAME)
        was = status(first).state
        first.close()
        second = start(Task())
        assert status(second).state == was == jobs.load(NAME)
        assert (was.run_count, was.error_count, was.paused) == (1, 1, True)

    def test_a_pause_at_the_end_of_a_run_is_not_forgotten(
        self, jobs: JobStore, clock: SetClock
    ) -> None:
        slow = SlowFirstSave(jobs)
        job = ScheduledJob(name=NAME, cron=HOURLY, work=Task())
        scheduler = CronScheduler([job], slow, clock, enabled=False, foreground=Foreground())
        running = threading.Thread(target=scheduler.run, args=(NAME,))
        running.start()
        assert slow.saving.wait(TIMEOUT)
        scheduler.pause(NAME)
        running.join(TIMEOUT)
        assert jobs.load(NAME) == status(scheduler).state
        assert jobs.load(NAME).paused


class TestResults:
    def test_successes_and_failures_are_counted_apart(self, start: Start) -> None:
        task = Task()
        scheduler = start(task)
        assert scheduler.run(NAME).state.last_result is JobOutcome.SUCCESS
        task.failure = ValueError("the store is on fire")
        failed = scheduler.run(NAME).state
        assert failed.last_result is JobOutcome.FAILED
        assert failed.last_error is not None
        assert "the store is on fire" in failed.last_error
        assert (failed.run_count, failed.error_count) == (1, 1)
        task.failure = None
        again = scheduler.run(NAME).state
        assert again.last_result is JobOutcome.SUCCESS
        assert again.last_error is None
        assert (again.run_count, again.error_count) == (2, 1)

    def test_a_failure_does_not_end_the_job(self, start: Start) -> None:
        task = Task()
        task.failure = ValueError("no")
        scheduler = start(task)
        scheduler.wake(NAME)
        task.wait_begun()
        scheduler.wake(NAME)
        task.wait_begun()
        wait_idle(scheduler)
        assert status(scheduler).state.error_count == 2

    def test_one_that_takes_too_long_fails_at_its_next_check(self, start: Start) -> None:
        scheduler = start(Task(), timeout_seconds=-1.0)
        found = scheduler.run(NAME).state
        assert found.last_result is JobOutcome.FAILED
        assert found.last_error is not None
        assert found.error_count == 1


class TestRunning:
    def test_run_waits_for_the_end(self, start: Start) -> None:
        task = Task()
        scheduler = start(task)
        found = scheduler.run(NAME)
        assert not found.running
        assert task.runs == found.state.run_count == 1

    def test_it_waits_for_a_run_that_is_under_way_and_then_runs(self, start: Start) -> None:
        task = Task(held=True)
        scheduler = start(task)
        scheduler.wake(NAME)
        task.wait_begun()
        asked = threading.Thread(target=scheduler.run, args=(NAME,))
        asked.start()
        task.release()
        task.wait_begun()
        task.release()
        asked.join(TIMEOUT)
        assert status(scheduler).state.run_count == 2

    def test_a_scheduler_that_is_off_runs_nothing_by_itself(
        self, start: Start, clock: SetClock
    ) -> None:
        task = Task()
        scheduler = start(task, enabled=False)
        assert not scheduler.running
        clock.at_ms += 2 * HOUR
        scheduler.wake(NAME)
        look(scheduler)
        scheduler.resume(NAME)
        assert task.runs == 0
        assert scheduler.run(NAME).state.run_count == 1
        assert task.runs == 1


class TestEnd:
    def test_it_runs_until_it_is_closed(self, start: Start) -> None:
        scheduler = start(Task())
        seen = [scheduler.running]
        for _ in range(2):
            scheduler.close()
            seen.append(scheduler.running)
        assert seen == [True, False, False]

    def test_closing_ends_a_run_at_its_next_check(self, start: Start) -> None:
        begun, ended = threading.Event(), threading.Event()

        def work(check: Check) -> None:
            begun.set()
            tick = threading.Event()
            try:
                while True:
                    tick.wait(0.001)
                    check()
            finally:
                ended.set()

        scheduler = start(Task(), others=(ScheduledJob(name="long", cron=HOURLY, work=work),))
        scheduler.wake("long")
        assert begun.wait(TIMEOUT)
        scheduler.close()
        assert ended.is_set()
        assert not status(scheduler, "long").running
        assert status(scheduler, "long").state.run_count == 0

    def test_nothing_begins_afterwards(self, start: Start, clock: SetClock) -> None:
        task = Task()
        scheduler = start(task)
        scheduler.close()
        clock.at_ms += 2 * HOUR
        scheduler.wake(NAME)
        assert task.runs == 0


class TestClockIsSet:
    YEAR = 365 * 24 * HOUR

    def test_a_year_forward_and_back_the_job_keeps_its_hours(
        self, start: Start, clock: SetClock
    ) -> None:
        task = Task()
        scheduler = start(task)
        clock.at_ms += self.YEAR
        look(scheduler)
        task.wait_begun()
        wait_idle(scheduler)

        clock.at_ms = START
        look(scheduler)
        wait_until(lambda: status(scheduler).next_run_ms < START + HOUR)
        clock.at_ms += HOUR
        look(scheduler)
        task.wait_begun()
        wait_idle(scheduler)

        assert task.runs == 2
        assert status(scheduler).next_run_ms <= clock.at_ms + HOUR

    def test_back_before_the_next_start_the_job_keeps_its_hours(
        self, start: Start, clock: SetClock
    ) -> None:
        task = Task()
        clock.at_ms += self.YEAR
        first = start(task)
        first.run(NAME)
        first.close()

        clock.at_ms = START
        assert status(start(task)).next_run_ms < START + HOUR
        assert task.runs == 1

    def test_back_over_the_time_of_a_job_does_not_run_it_again(
        self, start: Start, clock: SetClock
    ) -> None:
        task = Task()
        seen = threading.Semaphore(0)
        other = ScheduledJob(name="other", cron="0 0 0 1 1 *", work=lambda _check: seen.release())
        scheduler = start(task, others=(other,))
        clock.at_ms += HOUR
        look(scheduler)
        task.wait_begun()
        wait_idle(scheduler)
        due = status(scheduler).next_run_ms

        for _ in range(2):  # back before its time, and on past it
            clock.at_ms -= HOUR // 2 + 60_000
            scheduler.wake("other")
            assert seen.acquire(timeout=TIMEOUT)
            clock.at_ms += HOUR // 2 + 60_000
            scheduler.wake("other")
            assert seen.acquire(timeout=TIMEOUT)

        assert status(scheduler).next_run_ms == due
        assert task.runs == 1

    def test_forward_is_noticed_though_nothing_else_happens(
        self, start: Start, clock: SetClock
    ) -> None:
        task = Task()
        start(task, look_seconds=0.01)
        clock.at_ms += HOUR
        task.wait_begun()
