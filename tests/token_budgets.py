"""A token budget for tests."""

import threading
from collections import Counter


class InMemoryTokenBudget:
    """A token budget that is forgotten when the process ends."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()
        self._lock = threading.Lock()

    def get_spent(self, day: str, /) -> int:
        return self._spent[day]

    def add(self, day: str, tokens: int, /) -> None:
        with self._lock:
            self._spent[day] += tokens
