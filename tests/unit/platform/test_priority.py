"""The priority of a thread: it is its own on Linux, and none elsewhere."""

import os
import sys
import threading

import pytest

from agent_memory.platform.priority import MOST_NICENESS, NICENESS, ThreadPriority, set_priority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority here")


def read_niceness(level: ThreadPriority) -> int:
    """Return the niceness of a thread that was given a priority."""
    found: list[int] = []

    def run() -> None:
        set_priority(level)
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_only_the_thread_that_asks_is_lowered() -> None:
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert read_niceness(ThreadPriority.NORMAL) == before
    assert read_niceness(ThreadPriority.LOW) == max(before, NICENESS)
    assert read_niceness(ThreadPriority.LOWEST) == MOST_NICENESS
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
