"""Cancellation of work that runs or waits in another thread."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_memory.kernel.errors import Cancelled


class CancelToken:
    """A flag that any thread may set once.

    Work checks it, waits for it, or registers a callback that ends a blocking wait, such as
    shutting a socket or killing a process.
    """

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock = threading.RLock()
        self._calls: list[Callable[[], None]] = []

    def set(self) -> None:
        # `on_cancel` exits only after the callbacks: the caller may then close what they use.
        with self._lock:
            self._set.set()
            calls, self._calls = self._calls, []
            for call in calls:
                call()

    def is_set(self) -> bool:
        return self._set.is_set()

    def check(self) -> None:
        """Raise Cancelled if the token is set."""
        if self._set.is_set():
            raise Cancelled

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the token, at most `seconds`, and return whether it is set."""
        return self._set.wait(seconds)

    @contextmanager
    def on_cancel(self, call: Callable[[], None]) -> Iterator[None]:
        """Call `call` if the token is set inside the block, or at once if it is set already.

        `call` must not raise or block. It is never called after the block.
        """
        with self._lock:
            at_once = self._set.is_set()
            if not at_once:
                self._calls.append(call)
        if at_once:
            call()
        try:
            yield
        finally:
            with self._lock:
                if call in self._calls:
                    self._calls.remove(call)
