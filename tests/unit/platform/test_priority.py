"""The priority of a thread: it is its own on Linux, and none elsewhere."""

import os
import sys
import threading

import pytest

from agent_memory.platform.priority import NICENESS, ThreadPriority, set_priority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority here")


def read_priority(level: ThreadPriority) -> tuple[int, int]:
    """Return the niceness and the policy of a thread that was given a priority."""
    found: list[tuple[int, int]] = []

    def run() -> None:
        set_priority(level)
        number = threading.get_native_id()
        found.append((os.getpriority(os.PRIO_PROCESS, number), os.sched_getscheduler(number)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_only_the_thread_that_asks_is_lowered() -> None:
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert read_priority(ThreadPriority.NORMAL) == (before, os.SCHED_OTHER)
    assert read_priority(ThreadPriority.LOW) == (max(before, NICENESS), os.SCHED_OTHER)
    assert read_priority(ThreadPriority.IDLE) == (max(before, NICENESS), os.SCHED_IDLE)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
