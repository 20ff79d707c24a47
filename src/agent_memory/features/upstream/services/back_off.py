"""Back-off: how long to leave a server alone that does not answer."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_SECONDS = 2.0
MOST_SECONDS = 300.0


@dataclass(slots=True)
class BackOff:
    """Doubles the pause after each failure, up to five minutes, and shortens it at random so that
    many machines do not come back at once."""

    monotonic: Callable[[], float]
    random: Callable[[], float]  # from 0 to 1
    _failures: int = 0
    _until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def seconds_left(self) -> float:
        return max(0.0, self._until - self.monotonic())

    def note_failure(self) -> None:
        with self._lock:
            pause = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures, 16))
            self._failures += 1
            self._until = self.monotonic() + pause * (0.5 + self.random() / 2)

    def reset(self) -> None:
        with self._lock:
            self._failures, self._until = 0, 0.0
