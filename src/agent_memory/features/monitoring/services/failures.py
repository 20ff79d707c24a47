"""Recent failures: what the daemon logged as a warning or an error, by name.

Only names and counts are kept. The log has the rest, which may quote its input.
"""

import threading
from dataclasses import dataclass, field, replace

from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import Clock

MAX_NAMES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFailure:
    """Failures of one name since the daemon started."""

    name: str
    level: str  # warning or error
    count: int
    first_ms: Millis
    last_ms: Millis


@dataclass(frozen=True, slots=True)
class RecentFailures:
    clock: Clock
    by_name: dict[str, LoggedFailure] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, level: str) -> None:
        """Count a failure. Beyond a number of names, the one that was seen longest ago goes."""
        now = self.clock.now()
        with self.lock:
            known = self.by_name.pop(name, None)
            if known is None:
                known = LoggedFailure(name=name, level=level, count=0, first_ms=now, last_ms=now)
            self.by_name[name] = replace(known, level=level, count=known.count + 1, last_ms=now)
            if len(self.by_name) > MAX_NAMES:
                del self.by_name[next(iter(self.by_name))]

    def list_newest(self) -> list[LoggedFailure]:
        """Return the failures, the newest first."""
        with self.lock:
            return list(reversed(self.by_name.values()))
