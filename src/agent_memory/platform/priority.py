"""The priority of background threads."""

import contextlib
import os
import sys
import threading
from enum import Enum

NICENESS = 15


class ThreadPriority(Enum):
    """How urgent a thread's work is."""

    NORMAL = "normal"  # someone waits for it
    LOW = "low"  # below other programs, but it goes on while they are busy
    IDLE = "idle"  # only what nothing else uses


def set_priority(priority: ThreadPriority) -> None:
    """Give this thread a priority. None can be raised again without privileges.

    On Linux every thread has its own; elsewhere this does nothing.
    """
    if priority is ThreadPriority.NORMAL or sys.platform != "linux":
        return
    lower(threading.get_native_id())
    if priority is ThreadPriority.IDLE and hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def lower(number: int) -> None:
    """Lower the priority of a process, or on Linux of a thread, below other programs."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, number, NICENESS)
