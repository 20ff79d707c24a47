"""The hook calls of each agent since the daemon started, and how long the last of them took."""

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

RECENT = 1_000  # durations of an agent's calls that are kept


@dataclass(slots=True)
class _CallTally:
    calls: int = 0
    failed: int = 0
    last_ms: int = 0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCallStats:
    """The durations are those of the last calls, in the daemon: the start of the hook's own process
    is not in them."""

    agent: str
    calls: int
    failed: int
    last_ms: int
    p50_ms: float
    p99_ms: float


class AgentCalls:
    def __init__(self) -> None:
        self._counting = threading.Lock()
        self._tallies: dict[str, _CallTally] = {}

    def count(self, agent: str, seconds: float, *, failed: bool) -> None:
        """Count a call. Callers pass known names only."""
        with self._counting:
            tally = self._tallies.setdefault(agent, _CallTally())
            tally.calls += 1
            tally.failed += failed
            tally.last_ms = time.time_ns() // 1_000_000
            tally.recent.append(seconds)

    def list_agents(self) -> list[AgentCallStats]:
        """Return the calls by agent, the busiest first."""
        with self._counting:
            tallies = [
                (agent, tally.calls, tally.failed, tally.last_ms, sorted(tally.recent))
                for agent, tally in self._tallies.items()
            ]
        return [
            AgentCallStats(
                agent=agent,
                calls=calls,
                failed=failed,
                last_ms=last_ms,
                p50_ms=_find_percentile(recent, 0.5),
                p99_ms=_find_percentile(recent, 0.99),
            )
            for agent, calls, failed, last_ms, recent in sorted(tallies, key=lambda row: -row[1])
        ]


def _find_percentile(ordered: Sequence[float], share: float) -> float:
    """Return the duration, in milliseconds, that this share of calls did not exceed."""
    return round(ordered[math.ceil(share * len(ordered)) - 1] * 1000, 2)
