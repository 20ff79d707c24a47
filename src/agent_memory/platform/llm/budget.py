"""Daily token budgets of language models."""

from typing import Protocol


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
