"""Background work gives way while someone waits, and goes on all the same."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from agent_memory.platform.foreground import (
    FLOOD,
    FLOOD_SECONDS,
    LEAST_WORK,
    LONGEST_REST,
    MOST_SECONDS,
    QUIET_SECONDS,
    TICK,
    Foreground,
    Pacer,
    charge,
)

REST = 10.0


@dataclass
class Times:
    """A clock, and the CPU time of a thread; sleeping moves only the clock."""

    now: float = 100.0
    cpu: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.cpu += seconds

    @property
    def rested(self) -> float:
        return sum(self.slept)


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def foreground(times: Times) -> Foreground:
    return Foreground(lambda: times.now)


@pytest.fixture
def pacer(times: Times, foreground: Foreground) -> Pacer:
    return Pacer(foreground, REST, worked=lambda: times.cpu, sleep=times.sleep)


class TestForeground:
    def test_no_request_is_quiet(self, foreground: Foreground) -> None:
        assert not foreground.is_busy()

    def test_a_request_is_busy_until_a_moment_after_it(
        self, foreground: Foreground, times: Times
    ) -> None:
        request = foreground.begin()
        assert foreground.is_busy()
        foreground.end(request)
        assert foreground.is_busy()
        times.now += 2 * QUIET_SECONDS
        assert not foreground.is_busy()

    def test_as_long_as_one_of_two_is_in_flight(self, foreground: Foreground, times: Times) -> None:
        first, _ = foreground.begin(), foreground.begin()
        foreground.end(first)
        times.now += 2 * QUIET_SECONDS
        assert foreground.is_busy()

    def test_an_old_one_does_not_make_a_new_one_count_longer(
        self, foreground: Foreground, times: Times
    ) -> None:
        foreground.begin()
        times.now += MOST_SECONDS
        foreground.end(foreground.begin())
        times.now += 2 * QUIET_SECONDS
        assert not foreground.is_busy()

    def test_a_thread_that_steps_back_is_no_foreground_any_more(
        self, foreground: Foreground, times: Times
    ) -> None:
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(foreground.begin).result()
            own = foreground.begin()
            foreground.step_back()
            assert foreground.is_busy()
            foreground.end(other)
            times.now += 2 * QUIET_SECONDS
            assert not foreground.is_busy()
            foreground.end(own)
            assert not foreground.is_busy()

    def test_a_stream_does_not_count_for_ever(self, foreground: Foreground, times: Times) -> None:
        foreground.begin()
        times.now += MOST_SECONDS
        assert not foreground.is_busy()


class TestPacer:
    def test_in_a_flood_work_of_another_process_counts_for_the_thread_that_asked(
        self, times: Times, foreground: Foreground
    ) -> None:
        with ThreadPoolExecutor(1) as pool:
            pacer = Pacer(foreground, REST, sleep=times.sleep)
            other = pool.submit(Pacer, foreground, REST, sleep=times.sleep).result()
            for _ in range(FLOOD):
                foreground.begin()
            charge(0.1)
            assert pool.submit(other.give_way).result() == 0.0
            assert pacer.give_way() == pytest.approx(0.1 * REST, rel=0.1)

    def test_without_one_it_does_not(self, times: Times, foreground: Foreground) -> None:
        pacer = Pacer(foreground, REST, worked=lambda: times.cpu, sleep=times.sleep)
        for _ in range(2 * FLOOD):  # as a program that asks again and again
            times.now += 2 * FLOOD_SECONDS / FLOOD
            foreground.begin()
        charge(0.1)
        times.work(0.01)
        assert pacer.give_way() == pytest.approx(0.01 * REST)

    def test_a_thread_that_delegates_its_work_rests_for_it_and_not_for_waiting(
        self, times: Times, foreground: Foreground
    ) -> None:
        pacer = Pacer(foreground, REST, delegated=True, worked=lambda: times.cpu, sleep=times.sleep)
        times.now += 60.0  # other programs kept the process from its work
        charge(0.1)
        foreground.begin()
        assert pacer.give_way() == pytest.approx(0.1 * REST)

    def test_without_requests_it_never_rests(self, pacer: Pacer, times: Times) -> None:
        times.work(10.0)
        pacer.give_way()
        assert not times.slept

    def test_while_someone_waits_it_rests_in_proportion(
        self, pacer: Pacer, times: Times, foreground: Foreground
    ) -> None:
        foreground.begin()
        times.work(0.005)
        pacer.give_way()
        assert times.rested == pytest.approx(0.005 * REST, abs=0.005)

    def test_it_goes_on_however_busy_the_daemon_is(
        self, times: Times, foreground: Foreground
    ) -> None:
        def sleep(seconds: float) -> None:
            times.sleep(seconds)
            foreground.begin()

        pacer = Pacer(foreground, REST, worked=lambda: times.cpu, sleep=sleep)
        times.work(5.0)
        for _ in range(3):
            foreground.begin()
            assert pacer.give_way() == pytest.approx(times.rested) == pytest.approx(LONGEST_REST)
            times.slept.clear()
            times.work(5.0)

    def test_it_goes_on_as_soon_as_no_one_waits(
        self, pacer: Pacer, times: Times, foreground: Foreground
    ) -> None:
        foreground.end(foreground.begin())
        times.work(0.01)
        pacer.give_way()
        assert times.rested <= TICK

    def test_work_that_slows_down_other_processes_waits_longer_for_the_next_request(
        self, times: Times, foreground: Foreground
    ) -> None:
        pacer = Pacer(foreground, REST, quiet=1.0, worked=lambda: times.now, sleep=times.sleep)
        foreground.end(foreground.begin())
        times.now += 0.05
        pacer.give_way()
        assert times.rested == pytest.approx(0.05 * REST, abs=0.005)
        times.now += 1.0
        times.slept.clear()
        pacer.give_way()
        assert not times.slept

    def test_little_work_is_added_up(
        self, pacer: Pacer, times: Times, foreground: Foreground
    ) -> None:
        foreground.begin()
        for _ in range(4):
            times.work(LEAST_WORK / 3)
            pacer.give_way()
        assert times.rested == pytest.approx(LEAST_WORK * REST, abs=0.005)

    def test_time_that_it_waited_itself_is_no_work(
        self, pacer: Pacer, times: Times, foreground: Foreground
    ) -> None:
        times.now += 3.0
        foreground.begin()
        pacer.give_way()
        assert not times.slept
