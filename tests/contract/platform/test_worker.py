"""The Worker port over a real process: answers, failures of every kind, and its own end.

What it runs must be importable in the child, so it is all from the standard library.
"""

import functools
import math
import operator
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_memory.kernel.errors import WorkerFailed
from agent_memory.platform import foreground
from agent_memory.platform.ports import Worker
from agent_memory.platform.priority import ThreadPriority
from agent_memory.platform.worker.process import ProcessWorker
from tests.inline_worker import InlineWorker
from tests.processes import LONG, is_running, wait_for_end, wait_until

SHORT = 0.5
FOREVER = "while True: pass"
LARGE = 5 << 20

PARENT = f"""
import sys
from agent_memory.platform.worker.process import ProcessWorker
worker = ProcessWorker()
worker.call(len, "", timeout_seconds={LONG})
print(worker.pid, flush=True)
if sys.argv[1] == "busy":
    worker.call(exec, {FOREVER!r}, timeout_seconds={LONG})
sys.stdin.read()
"""


@pytest.fixture
def worker() -> Iterator[ProcessWorker]:
    created = ProcessWorker()
    yield created
    created.close()


BURN = "import time\nwhile time.thread_time() < 0.1: pass"
THREADED_BURN = f"""
import threading
thread = threading.Thread(target=exec, args=({BURN!r},))
thread.start()
thread.join()
"""


@pytest.mark.parametrize("burn", [BURN, THREADED_BURN], ids=["itself", "its thread"])
def test_the_cpu_time_of_a_call_is_charged_to_its_caller(worker: ProcessWorker, burn: str) -> None:
    worker.call(len, "", timeout_seconds=LONG)  # it has started
    before = foreground.get_charged()
    worker.call(exec, burn, timeout_seconds=LONG)
    assert 0.05 < foreground.get_charged() - before < LONG


@pytest.fixture(params=["process", "inline"])
def any_worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """For what holds wherever the function runs: its results, and what it raises."""
    if request.param == "inline":
        yield InlineWorker()
        return
    created = ProcessWorker()
    yield created
    created.close()


def pid_of(worker: ProcessWorker) -> int:
    return worker.call(os.getpid, timeout_seconds=LONG)


def assert_usable(worker: Worker) -> None:
    assert worker.call(operator.add, 2, 3, timeout_seconds=LONG) == 5


class TestAnswers:
    def test_the_result_comes_back(self, any_worker: Worker) -> None:
        assert any_worker.call(operator.add, 2, 3, timeout_seconds=LONG) == 5
        assert any_worker.call(sorted, [3, 1, 2], timeout_seconds=LONG) == [1, 2, 3]
        assert any_worker.call(dict, {"é": None}, timeout_seconds=LONG) == {"é": None}

    def test_it_runs_in_one_other_process_call_after_call(self, worker: ProcessWorker) -> None:
        pid = pid_of(worker)
        assert pid != os.getpid()
        assert pid == worker.pid == pid_of(worker)

    def test_nothing_is_started_before_the_first_call(self, worker: ProcessWorker) -> None:
        assert worker.pid is None

    def test_what_the_function_raises_comes_out_as_it_is(self, any_worker: Worker) -> None:
        with pytest.raises(ZeroDivisionError, match="by zero"):
            any_worker.call(operator.floordiv, 1, 0, timeout_seconds=LONG)
        with pytest.raises(FileNotFoundError) as missing:
            any_worker.call(os.stat, "/no/such/file", timeout_seconds=LONG)
        assert missing.value.filename == "/no/such/file"
        assert_usable(any_worker)

    def test_an_error_of_the_function_costs_no_new_process(self, worker: ProcessWorker) -> None:
        pid = pid_of(worker)
        with pytest.raises(ValueError, match="math domain error"):
            worker.call(math.sqrt, -1, timeout_seconds=LONG)
        assert pid_of(worker) == pid

    def test_arguments_and_results_may_be_large(self, any_worker: Worker) -> None:
        data = os.urandom(LARGE)
        assert any_worker.call(bytes, data, timeout_seconds=LONG) == data

    def test_it_works_at_low_priority(self, worker: ProcessWorker) -> None:
        ours = os.nice(0)
        assert worker.call(os.nice, 0, timeout_seconds=LONG) >= min(ours + 10, 19)

    def test_calls_from_many_threads_are_all_answered_with_their_own(
        self, any_worker: Worker
    ) -> None:
        def ask(number: int) -> int:
            return any_worker.call(int.__mul__, number, number, timeout_seconds=LONG)

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(ask, range(100))) == [n * n for n in range(100)]

    def test_it_outlives_the_thread_that_called_it_first(self, worker: ProcessWorker) -> None:
        """Commands come in threads of their own, which end with them."""
        first = threading.Thread(target=pid_of, args=(worker,))
        first.start()
        first.join(LONG)
        pid = worker.pid
        # `join` is quicker than the system: it still has the thread for a moment.
        wait_until(lambda: not Path(f"/proc/self/task/{first.native_id}").exists())
        assert pid_of(worker) == pid


class TestCannotBeSent:
    @pytest.mark.parametrize(
        "call",
        [(threading.Lock,), (eval, "lambda: 0"), (open, os.devnull)],
        ids=["lock", "lambda", "file"],
    )
    def test_a_result_that_cannot_be_sent_is_a_type_error(
        self, worker: ProcessWorker, call: tuple[object, ...]
    ) -> None:
        pid = pid_of(worker)
        with pytest.raises(TypeError):
            worker.call(*call, timeout_seconds=LONG)  # type: ignore[arg-type]
        assert pid_of(worker) == pid

    def test_neither_is_an_argument_that_cannot(self, worker: ProcessWorker) -> None:
        pid = pid_of(worker)
        with pytest.raises(TypeError, match="pickle"):
            worker.call(str, threading.Lock(), timeout_seconds=LONG)
        assert pid_of(worker) == pid


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority there")
class TestLanes:
    LANES = (ThreadPriority.NORMAL, ThreadPriority.LOW, ThreadPriority.LOWEST)

    @pytest.fixture
    def lanes(self) -> Iterator[ProcessWorker]:
        created = ProcessWorker(self.LANES)
        yield created
        created.close()

    def test_each_lane_has_its_priority_in_one_process(self, lanes: ProcessWorker) -> None:
        ours = os.nice(0)
        found = {
            lane: lanes.call(os.nice, 0, timeout_seconds=LONG, lane=lane) for lane in self.LANES
        }
        assert found[ThreadPriority.NORMAL] == ours
        assert ours < found[ThreadPriority.LOW] < found[ThreadPriority.LOWEST]
        pids = {lanes.call(os.getpid, timeout_seconds=LONG, lane=lane) for lane in self.LANES}
        assert pids == {lanes.pid}

    def test_a_long_call_of_one_lane_holds_up_no_other(self, lanes: ProcessWorker) -> None:
        with ThreadPoolExecutor(1) as threads:
            long = threads.submit(
                lanes.call, time.sleep, LONG, timeout_seconds=LONG, lane=ThreadPriority.LOWEST
            )
            for _ in range(3):
                assert lanes.call(abs, -1, timeout_seconds=LONG) == 1
            assert not long.done()
            lanes.close()
            with pytest.raises(WorkerFailed):
                long.result(LONG)

    def test_a_crash_fails_the_calls_of_all_lanes_and_the_next_ones_work(
        self, lanes: ProcessWorker
    ) -> None:
        with ThreadPoolExecutor(1) as threads:
            long = threads.submit(
                lanes.call, time.sleep, LONG, timeout_seconds=LONG, lane=ThreadPriority.LOW
            )
            before = pid_of(lanes)
            with pytest.raises(WorkerFailed):
                lanes.call(os._exit, 3, timeout_seconds=LONG, lane=ThreadPriority.LOWEST)
            with pytest.raises(WorkerFailed):
                long.result(LONG)
        for lane in self.LANES:
            assert lanes.call(os.getpid, timeout_seconds=LONG, lane=lane) != before


class TestCrashes:
    @pytest.mark.parametrize("code", [0, 1, 77])
    def test_a_process_that_ends_fails_the_call_and_the_next_one_works(
        self, worker: ProcessWorker, code: int
    ) -> None:
        before = pid_of(worker)
        with pytest.raises(WorkerFailed, match="the worker ended in _exit"):
            worker.call(os._exit, code, timeout_seconds=LONG)
        assert pid_of(worker) != before

    def test_so_does_one_that_is_killed(self, worker: ProcessWorker) -> None:
        before = pid_of(worker)
        with pytest.raises(WorkerFailed, match="the worker ended in kill"):
            worker.call(os.kill, before, signal.SIGKILL, timeout_seconds=LONG)
        assert pid_of(worker) != before

    def test_one_that_was_killed_between_calls_is_replaced(self, worker: ProcessWorker) -> None:
        before = pid_of(worker)
        os.kill(before, signal.SIGKILL)
        os.waitid(os.P_PID, before, os.WEXITED | os.WNOWAIT)  # all its threads are gone
        assert pid_of(worker) != before

    def test_exit_of_the_function_is_a_crash(self, worker: ProcessWorker) -> None:
        with pytest.raises(WorkerFailed):
            worker.call(sys.exit, 3, timeout_seconds=LONG)
        assert_usable(worker)

    def test_a_crash_under_many_callers_fails_one_call_only(self, worker: ProcessWorker) -> None:
        def ask(number: int) -> bool:
            try:
                if number == 10:
                    worker.call(os._exit, 1, timeout_seconds=LONG)
                worker.call(abs, number, timeout_seconds=LONG)
            except WorkerFailed:
                return False
            return True

        with ThreadPoolExecutor(4) as threads:
            answered = list(threads.map(ask, range(30)))
        assert [n for n, fine in enumerate(answered) if not fine] == [10]


class TestHangs:
    def test_a_call_that_takes_too_long_fails_and_the_next_one_works(
        self, worker: ProcessWorker
    ) -> None:
        before = pid_of(worker)
        with pytest.raises(WorkerFailed, match=r"exec took longer than 0\.5 s"):
            worker.call(exec, FOREVER, timeout_seconds=SHORT)
        wait_for_end(before)
        assert pid_of(worker) != before

    def test_so_does_one_without_a_name(self, worker: ProcessWorker) -> None:
        with pytest.raises(WorkerFailed, match="took longer"):
            worker.call(functools.partial(exec, FOREVER), timeout_seconds=SHORT)
        assert_usable(worker)


class TestEnd:
    def test_closing_ends_the_process_and_later_calls_are_refused(self) -> None:
        worker = ProcessWorker()
        pid = pid_of(worker)
        worker.close()
        wait_for_end(pid)
        with pytest.raises(WorkerFailed, match="closed"):
            worker.call(abs, 1, timeout_seconds=LONG)

    def test_closing_twice_or_without_any_call_is_fine(self) -> None:
        worker = ProcessWorker()
        worker.close()
        worker.close()
        with pytest.raises(WorkerFailed, match="closed"):
            worker.call(abs, 1, timeout_seconds=LONG)

    def test_closing_fails_the_call_that_runs(self, tmp_path: Path) -> None:
        worker = ProcessWorker()
        told = tmp_path / "told"
        os.mkfifo(told)
        reader = os.open(told, os.O_RDONLY | os.O_NONBLOCK)
        job = f"open({str(told)!r}, 'wb', buffering=0).write(b'!')\n{FOREVER}"
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(worker.call, exec, job, timeout_seconds=LONG)
            assert select.select([reader], [], [], LONG)[0]
            worker.close()
            with pytest.raises(WorkerFailed):
                running.result(LONG)
        os.close(reader)

    @pytest.mark.parametrize("state", ["idle", "busy"])
    def test_it_does_not_outlive_a_parent_that_is_killed(self, state: str) -> None:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with parent:
            try:
                assert parent.stdout is not None
                child = int(parent.stdout.readline())
                assert is_running(child)
            finally:
                parent.kill()
        wait_for_end(child)
