"""Background work gives way to the requests that someone waits for."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_SECONDS = 0.02  # after a request; an agent's next one often follows at once
MOST_SECONDS = 2.0  # a request that takes longer is an import or a stream: no one waits for it
REST = 39.0  # times as long as it worked, a background thread rests while someone waits
LONGEST_REST = 2.0
TICK = 0.004

_Monotonic = Callable[[], float]


class Foreground:
    """Knows whether someone waits for an answer."""

    def __init__(self, monotonic: _Monotonic = time.monotonic) -> None:
        self._monotonic = monotonic
        self._counting = threading.Lock()
        self._in_flight = 0
        self._last_begin = self._last_end = -MOST_SECONDS

    def begin(self) -> None:
        """Count a request. Each needs its `end`."""
        with self._counting:
            self._in_flight += 1
        self._last_begin = self._monotonic()

    def end(self) -> None:
        with self._counting:
            self._in_flight -= 1
        self._last_end = self._monotonic()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Count the block as a request."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def is_busy(self) -> bool:
        """Return whether a request is in flight, or was a moment ago."""
        now = self._monotonic()
        return now - self._last_end < QUIET_SECONDS or (
            self._in_flight > 0 and now - self._last_begin < MOST_SECONDS
        )


class Pacer:
    """Slows down one background thread while the foreground is busy.

    It then rests 39 times as long as it has worked, so that a fortieth of the time is left to it:
    work that waits is done in the end, however busy the daemon is. Only the CPU time of the thread
    counts as work, not what it waits for another process or the disk.
    """

    def __init__(
        self,
        foreground: Foreground,
        *,
        worked: _Monotonic = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._foreground = foreground
        self._worked = worked
        self._sleep = sleep
        self._since = worked()

    def give_way(self) -> None:
        """Rest if someone waits. Call it after every few milliseconds of work."""
        rest = min((self._worked() - self._since) * REST, LONGEST_REST)
        while rest > 0 and self._foreground.is_busy():
            self._sleep(min(TICK, rest))
            rest -= TICK
        self._since = self._worked()
