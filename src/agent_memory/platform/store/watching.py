"""Notice what other processes write to a shared database, by looking from time to time."""

import random
import threading
from collections.abc import Callable

import structlog

from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.store import change_marks
from agent_memory.platform.store.change_marks import ChangeMarks
from agent_memory.platform.store.database import TenantReader

log = structlog.get_logger()

LOOK_SECONDS = 0.5
_SPREAD = 0.2  # of the pause, so that many processes do not look at the same moment


class StoreWatch:
    """A thread that reads the head row and the marks of a tenant.

    Nothing depends on when it looks: it wakes up what would happen later anyway.
    """

    def __init__(
        self, database: TenantReader, marks: ChangeMarks, *, seconds: float = LOOK_SECONDS
    ) -> None:
        self._database = database
        self._marks = marks
        self._seconds = seconds
        self._outbox = -1
        self._listeners: list[Callable[[int], None]] = []
        self._regularly: list[Callable[[], None]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-watch", daemon=True)

    def on_outbox(self, listener: Callable[[int], None]) -> None:
        """Call a function with the last number of the outbox whenever that has changed."""
        self._listeners.append(listener)

    def on_look(self, listener: Callable[[], None]) -> None:
        """Call a function after each look."""
        self._regularly.append(listener)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Look once. Raises StorageFailed."""
        marks, head = change_marks.read_marks(self._database)
        self._marks.compare(marks)
        if head.outbox != self._outbox:
            self._outbox = head.outbox
            for listener in self._listeners:
                listener(head.outbox)
        for work in self._regularly:
            work()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds * random.uniform(1 - _SPREAD, 1 + _SPREAD)):  # noqa: S311
            try:
                self.look()
            except StorageFailed as exc:
                log.debug("store.not_watched", error=str(exc))
            except Exception:
                log.exception("store.watch_failed")
