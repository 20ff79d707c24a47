"""How often: token buckets, refilled as time goes by."""

from collections.abc import Callable

SWEEP_AT = 1024


class TokenBuckets:
    """One for each name: `burst` tokens, and `rate` more a second. Without either, no limit."""

    def __init__(self, *, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._held: dict[str, tuple[float, float]] = {}

    @property
    def size(self) -> int:
        """Of how many it knows more than that they are full."""
        return len(self._held)

    def take(self, name: str) -> float:
        """0 if there was a token; else after how many seconds there is one."""
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
        """Forget those that are full again: they are as if never seen."""
        self._held = {
            name: (tokens, since)
            for name, (tokens, since) in self._held.items()
            if tokens + (now - since) * self._rate < self._burst
        }
