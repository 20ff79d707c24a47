"""Background work gives way to the requests that someone waits for."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

QUIET_SECONDS = 0.005  # after a request: one caller sends its next one within that
HOOK_SECONDS = 0.1  # an agent that calls hook after hook starts a process for each
MOST_SECONDS = 2.0  # a request that takes longer is a stream: no one waits for its end
LEAST_WORK = 0.002  # seconds
JOB_REST = 39.0  # times as long as it worked, a job rests while someone waits
BACKLOG_REST = 19.0  # the embedder with a backlog: it slows down other processes too
IMPORT_REST = 4.0  # an import: its user waits for it, if not for each event
LONGEST_REST = 15.0  # one step of the table of contents may take 0.4 s of CPU
TICK = 0.01  # how soon a resting thread notices that no one waits any more
FLOOD = 64  # requests within FLOOD_SECONDS: more than agents and people send
FLOOD_SECONDS = 0.5

_Seconds = Callable[[], float]

_delegated = threading.local()


def charge(seconds: float) -> None:
    """Count CPU time that another process spent for this thread."""
    _delegated.seconds = get_charged() + seconds


def get_charged() -> float:
    """Return the CPU time that other processes have spent for this thread."""
    seconds: float = getattr(_delegated, "seconds", 0.0)
    return seconds


class _Request(NamedTuple):
    began: float
    thread: int


class Foreground:
    """Knows whether someone waits for an answer."""

    def __init__(self, monotonic: _Seconds = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._in_flight: dict[int, _Request] = {}  # the newest last
        self._number = 0
        self._last_end = -HOOK_SECONDS
        self._begun: deque[float] = deque(maxlen=FLOOD)

    def begin(self) -> int:
        """Count a request from here until `end`, which gets the number that this returns."""
        request = _Request(self._monotonic(), threading.get_ident())
        with self._lock:
            self._number += 1
            self._in_flight[self._number] = request
            self._begun.append(request.began)
            return self._number

    def end(self, number: int) -> None:
        with self._lock:
            request = self._in_flight.pop(number, None)
        if request is not None:
            self._last_end = self._monotonic()

    def is_busy(self, quiet: float = QUIET_SECONDS) -> bool:
        """Return whether a request is in flight, or was in the last `quiet` seconds."""
        now = self._monotonic()
        if now - self._last_end < quiet:
            return True
        with self._lock:
            newest = next(reversed(self._in_flight.values()), None)
        return newest is not None and now - newest.began < MOST_SECONDS

    def is_flooded(self) -> bool:
        """Return whether so many requests come that they need all cores."""
        with self._lock:
            oldest = self._begun[0] if len(self._begun) == FLOOD else None
        return oldest is not None and self._monotonic() - oldest < FLOOD_SECONDS

    def step_back(self) -> None:
        """Make the requests that began on this thread background work from here on. Only a command
        has a thread of its own: never call this on the event loop."""
        own = threading.get_ident()
        with self._lock:
            for number, request in list(self._in_flight.items()):
                if request.thread == own:
                    del self._in_flight[number]


class Pacer:
    """Slows down one background thread while the foreground is busy.

    It then rests `rest` times as long as it has worked, so that the rest of the time is left to the
    requests, but work that waits is done in the end, however busy the daemon is. The CPU time of
    the thread counts as work, not what it waits for another process or the disk. In a flood of
    requests, the CPU time of a worker process counts too: it takes their cores. With `delegated`
    it always counts.
    """

    def __init__(
        self,
        foreground: Foreground,
        rest: float,
        *,
        quiet: float = QUIET_SECONDS,
        delegated: bool = False,
        worked: _Seconds = time.thread_time,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._foreground = foreground
        self._rest = rest
        self._quiet = quiet
        self._delegated = delegated
        self._worked = worked
        self._sleep = sleep
        self._since = worked()
        self._charged = get_charged()

    def give_way(self) -> float:
        """Rest if someone waits, and return the seconds. Call it after every few milliseconds of
        work, or more often."""
        worked = self._worked() - self._since
        if self._delegated or self._foreground.is_flooded():
            worked += get_charged() - self._charged
        if worked < LEAST_WORK:
            return 0.0
        rest = left = min(worked * self._rest, LONGEST_REST)
        while left > 0 and self._foreground.is_busy(self._quiet):
            self._sleep(min(TICK, left))
            left -= TICK
        self._since, self._charged = self._worked(), get_charged()
        return rest - max(left, 0.0)
