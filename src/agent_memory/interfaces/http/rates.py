"""Rate limits, as token buckets."""

from collections.abc import Callable

SWEEP_AT = 1024


class TokenBuckets:
    """A bucket per name with `burst` tokens and `rate` more each second. If either is 0, there is
    no limit."""

    def __init__(self, *, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._held: dict[str, tuple[float, float]] = {}

    @property
    def size(self) -> int:
        """Return the number of buckets that are not full."""
        return len(self._held)

    def take(self, name: str) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        if not self._rate or not self._burst:
            return 0.0
        now = self._clock()
        tokens, since = self._held.get(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        if tokens < 1:
            return (1 - tokens) / self._rate
        if name not in self._held and len(self._held) >= SWEEP_AT:
            self._sweep(now)
        self._held[name] = (tokens - 1, now)
        return 0.0

    def _sweep(self, now: float) -> None:
        """Remove the buckets that are full again: a new one is the same."""
        self._held = {
            name: (tokens, since)
            for name, (tokens, since) in self._held.items()
            if tokens + (now - since) * self._rate < self._burst
        }
