"""Leadership: which of the daemons on one memory does the work that only one may do."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agent_memory.kernel.errors import Overloaded, StorageFailed
from agent_memory.platform.store import fences
from agent_memory.platform.store.database import LeaseLost
from agent_memory.platform.store.leases import RENEW_MS, HeldLease, StoreLease

TAKE_OVER_SECONDS = 60.0
ASK_SECONDS = 0.2


class SoleLeadership:
    """The leadership of a daemon that shares its memory with no other."""

    @contextmanager
    def lead(self) -> Iterator[bool]:
        yield True

    @contextmanager
    def take_over(self) -> Iterator[None]:
        yield


class LeasedLeadership:
    """Leadership by a lease, which the leader keeps until another daemon asks for it or it ends.

    What the leader writes inside a block expects the lease, so a daemon that was paused until
    another one took over changes nothing.
    """

    def __init__(
        self,
        lease: StoreLease,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._lease = lease
        self._monotonic, self._sleep = monotonic, sleep
        self._turn = threading.Lock()
        self._held: HeldLease | None = None
        self._renewed = float("-inf")
        self._inside = 0

    @contextmanager
    def lead(self) -> Iterator[bool]:
        """Lead inside the block if the value is true. It ends quietly if the lease is lost."""
        held = self._enter()
        if held is None:
            yield False
            return
        try:
            with fences.fence_thread(held):
                yield True
        except LeaseLost:
            with self._turn:
                if self._held == held:
                    self._held = None
        finally:
            self._leave()

    @contextmanager
    def take_over(self) -> Iterator[None]:
        """Lead inside the block, once the present leader is done.

        Raises Overloaded if that takes too long, and LeaseLost if the lease is lost meanwhile.
        """
        held = self._wait_for_turn()
        try:
            with fences.fence_thread(held):
                yield
        finally:
            self._leave()

    def keep_up(self) -> None:
        """Renew the lease in time, or release it if another daemon asks for it. Call it about
        every second."""
        with self._turn:
            held = self._held
            if held is None:
                return
            now = self._monotonic()
            if now - self._renewed >= RENEW_MS / 1000:
                self._renewed = now
                if not self._lease.renew(held):
                    self._held = None
                    return
            if not self._inside and self._lease.is_wanted():
                self._held = None
                self._lease.release(held)

    def close(self) -> None:
        """Let another daemon lead at once."""
        with self._turn, suppress(StorageFailed):  # it ends by itself
            held, self._held = self._held, None
            if held is not None:
                self._lease.release(held)

    def _enter(self, *, asking: bool = False) -> HeldLease | None:
        with self._turn:
            if self._held is None:
                self._held = self._lease.take(asking=asking)
                self._renewed = self._monotonic()
            if self._held is not None:
                self._inside += 1
            return self._held

    def _leave(self) -> None:
        with self._turn:
            self._inside -= 1

    def _wait_for_turn(self) -> HeldLease:
        until = self._monotonic() + TAKE_OVER_SECONDS
        while (held := self._enter(asking=True)) is None:
            if self._monotonic() > until:
                raise Overloaded(
                    "another daemon works on this memory's table of contents: try again in a minute"
                )
            self._lease.ask_for()
            self._sleep(ASK_SECONDS)
        return held
