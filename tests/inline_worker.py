"""A Worker that calls in this process: for tests of what the functions give, not of where."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InlineWorker:
    def call(
        self,
        function: Callable[..., T],
        /,
        *arguments: object,
        timeout_seconds: float,  # noqa: ARG002
    ) -> T:
        return function(*arguments)
