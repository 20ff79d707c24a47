"""Record events from the event loop: those that arrive at the same time are cleaned together."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from agent_memory.features.log.model.events import Event
from agent_memory.features.log.services.ingest import Clean, Ingest, Recording, count_scanned
from agent_memory.interfaces.bridge import MAX_INLINE_SCAN_CHARS, Bridge
from agent_memory.kernel.ids import EventId


class EventRecording:
    """Records events on the loop, and long ones in a thread.

    The events of one turn of the loop are cleaned with one quick check. A check gives up the GIL
    several times, which costs more than the check itself while other threads want it. The first
    event of a turn is checked at once: it may be the only one.
    """

    def __init__(self, ingest: Ingest, bridge: Bridge) -> None:
        self._ingest = ingest
        self._bridge = bridge
        self._waiting: list[tuple[Event, asyncio.Future[Clean]]] = []
        self._turn = 0.0

    async def record(self, event: Event) -> tuple[EventId, bool]:
        """Record an event durably. Return its id, and whether it is new. Raises ContentBlocked."""
        clean = await self._clean(event)
        (created,) = await self._bridge.wait(self._ingest.submit([clean]))
        return clean.event_id, created

    async def record_each(
        self, messages: Sequence[Any], build: Callable[[Any], Event]
    ) -> Recording:
        """Record an event of each message, which has its text and metadata, without waiting until
        they are durable. Each is refused by itself."""
        return await self._bridge.run_if_long(
            lambda: self._ingest.record_each(messages, build),
            sum(count_scanned(each.text, each.metadata) for each in messages),
        )

    async def _clean(self, event: Event) -> Clean:
        """Return the event without its secrets. Raises ContentBlocked."""
        if count_scanned(event.text, event.metadata) > MAX_INLINE_SCAN_CHARS:
            return await self._bridge.run(lambda: self._ingest.clean(event))
        loop = asyncio.get_running_loop()
        if loop.time() != self._turn:  # the loop's clock stands still while events arrive together
            self._turn = loop.time()
            return self._ingest.clean(event)
        waiter: asyncio.Future[Clean] = loop.create_future()
        self._waiting.append((event, waiter))
        if len(self._waiting) == 1:
            loop.call_soon(self._clean_waiting)
        return await waiter

    def _clean_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        outcomes: Sequence[Clean | Exception]
        try:
            outcomes = self._ingest.clean_all([event for event, _ in waiting])
        except Exception:  # of one of them
            outcomes = [self._try_clean(event) for event, _ in waiting]
        for (_, waiter), outcome in zip(waiting, outcomes, strict=True):
            if waiter.done():
                continue  # its caller was cancelled
            if isinstance(outcome, Exception):
                waiter.set_exception(outcome)
            else:
                waiter.set_result(outcome)

    def _try_clean(self, event: Event) -> Clean | Exception:
        try:
            return self._ingest.clean(event)
        except Exception as exc:
            return exc
