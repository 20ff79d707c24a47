"""The priority of background threads."""

import contextlib
import os
import sys
import threading
from enum import Enum

NICENESS = 15
MOST_NICENESS = 19


class ThreadPriority(Enum):
    """How urgent a thread's work is."""

    NORMAL = "normal"  # someone waits for it
    LOW = "low"  # below other programs, but it goes on while they are busy
    LOWEST = "lowest"  # a hundredth of a core while they are; more would be felt, less never ends


_NICENESS = {ThreadPriority.LOW: NICENESS, ThreadPriority.LOWEST: MOST_NICENESS}


def set_priority(priority: ThreadPriority) -> None:
    """Give this thread a priority. None can be raised again without privileges.

    On Linux every thread has its own; elsewhere this does nothing.
    """
    if priority in _NICENESS and sys.platform == "linux":
        lower(threading.get_native_id(), _NICENESS[priority])


def lower(number: int, niceness: int = NICENESS) -> None:
    """Lower the priority of a process, or on Linux of a thread, below other programs."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, number, niceness)
