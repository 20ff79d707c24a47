"""Daily token budgets of language models."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from agent_memory.platform.ports import Clock


class TokenBudget(Protocol):
    """The number of tokens spent on each UTC day (YYYY-MM-DD).

    Both methods raise StorageFailed if the number cannot be read or stored.
    """

    def get_spent(self, day: str, /) -> int:
        """Return the number of tokens spent on a day."""
        ...

    def add(self, day: str, tokens: int, /) -> None:
        """Add tokens to those spent on a day. Safe to call from several threads."""
        ...


@dataclass(frozen=True, slots=True)
class DailyLimit:
    """The most tokens to spend on one day. 0 is no limit."""

    tokens: int
    budget: TokenBudget
    clock: Clock

    def get_day(self) -> str:
        """Return the present day in UTC."""
        return datetime.fromtimestamp(self.clock.now() / 1000, UTC).date().isoformat()

    def allows(self, tokens: int) -> bool:
        """Return whether so many more tokens may be spent today."""
        return not self.tokens or self.budget.get_spent(self.get_day()) + tokens <= self.tokens

    def spend(self, tokens: int) -> None:
        self.budget.add(self.get_day(), tokens)
