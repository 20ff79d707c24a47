"""The daily budget of tokens for a model."""

import threading
from collections import Counter
from typing import Protocol


class TokenBudget(Protocol):
    """Tokens spent, by UTC day (YYYY-MM-DD)."""

    def get_spent(self, day: str, /) -> int: ...

    def add(self, day: str, tokens: int, /) -> None: ...


class InMemoryTokenBudget:
    """A budget that is lost when the process ends."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()
        self._lock = threading.Lock()

    def get_spent(self, day: str, /) -> int:
        return self._spent[day]

    def add(self, day: str, tokens: int, /) -> None:
        with self._lock:
            self._spent[day] += tokens
