"""Halting: telling work that runs in another thread to end, also where it waits."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_memory.kernel.errors import Cancelled


class CancelToken:
    """Set once, from any thread. Whoever works looks at it, waits for it, or has it call what cuts
    a wait short: a socket that is shut, a process that is killed."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock = threading.RLock()
        self._calls: list[Callable[[], None]] = []

    def set(self) -> None:
        with self._lock:  # whoever leaves `calling` waits: what a call uses may be closed after it
            self._set.set()
            calls, self._calls = self._calls, []
            for call in calls:
                call()

    def is_set(self) -> bool:
        return self._set.is_set()

    def check(self) -> None:
        """Raises Cancelled once it is set."""
        if self._set.is_set():
            raise Cancelled

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it is set, after that long at most."""
        return self._set.wait(seconds)

    @contextmanager
    def on_cancel(self, call: Callable[[], None]) -> Iterator[None]:
        """Meanwhile it is called when this is set; at once where it is already, and never after. It
        must not raise or wait."""
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
