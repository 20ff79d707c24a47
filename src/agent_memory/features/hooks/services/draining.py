"""Draining: record in the background what hooks left in the spool while no daemon answered."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from agent_memory.features.hooks.model.hooks import HookCall
from agent_memory.features.hooks.ports import HookLog
from agent_memory.features.hooks.services.spooling import Spooling
from agent_memory.kernel.errors import AgentMemoryError


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolDrainer:
    """Drains the spool in a thread of its own, which ends with `close`."""

    spooling: Spooling
    log: HookLog
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "drain"))
    requested: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)

    def request(self, drain: Callable[[], object]) -> None:
        """Run `drain` in the background, once for any number of requests."""
        if not self.requested.is_set():
            self.requested.set()
            with suppress(RuntimeError):  # the daemon is stopping: the next one drains the spool
                self.pool.submit(drain)

    def drain(self, record: Callable[[HookCall], bool]) -> None:
        """Record the pending calls now. `record` returns whether a call is done with."""
        self.requested.clear()
        count = self.spooling.drain(record, self._log_failure, self.closing.is_set)
        if count:
            self.log.info("spool.drained", count=count)

    def close(self) -> None:
        """Finish the call that is being recorded and leave the rest to the next daemon."""
        self.closing.set()
        self.pool.shutdown(cancel_futures=True)

    def _log_failure(self, exc: Exception) -> None:
        if isinstance(exc, AgentMemoryError | ValueError | OSError):
            self.log.warning("spool.refused", error=str(exc))
        else:
            self.log.error("spool.set_aside", exc_info=exc)
