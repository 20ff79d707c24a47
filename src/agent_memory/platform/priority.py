"""Work that nobody waits for, behind the work that somebody does."""

import contextlib
import os
import threading

NICENESS = 10


def lower() -> None:
    """This thread gives way from now on to the daemon's others, and to other programs.

    On Linux a thread has a priority of its own, elsewhere this does nothing. With it a hook takes a
    quarter to a half less while past conversations are imported, indexed and embedded.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
