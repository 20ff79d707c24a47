"""Threads with lowered priority."""

import os
import sys
import threading

import pytest

from agent_memory.platform import priority


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own there")
def test_one_thread_gives_way_and_the_others_do_not() -> None:
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    seen: list[int] = []

    def work() -> None:
        priority.lower()
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [max(before, priority.NICENESS)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
