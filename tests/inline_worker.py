"""A Worker that calls functions in this process, for tests."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InlineWorker:
    def call(self, function: Callable[..., T], /, *arguments: object, timeout_seconds: float) -> T:
        assert timeout_seconds > 0
        return function(*arguments)
