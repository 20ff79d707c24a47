"""Processes as the system has them: whether they run, and waiting until they do not."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

LONG = 30.0  # for what must happen: it is only ever waited out by a failing test
TICK = 0.01


def is_running(pid: int) -> bool:
    """Whether there is such a process, and not only what is left of one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_for_end(pid: int) -> None:
    wait_until(lambda: not is_running(pid))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        threading.Event().wait(TICK)
