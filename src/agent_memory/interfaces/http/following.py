"""To follow what changes, from the event loop."""

import asyncio
from collections.abc import Callable

from agent_memory.features.streaming.services.change_feed import Follower, RecordFilter
from agent_memory.interfaces.http.dependencies import HttpDependencies


async def follow(
    parts: HttpDependencies, wanted: RecordFilter, wake: Callable[[], None]
) -> Follower:
    """Whoever leaves meanwhile follows nothing, though a thread cannot be cancelled. Raises
    StorageClosed."""
    begun = asyncio.ensure_future(parts.bridge.run(lambda: parts.changes.follow(wanted, wake)))
    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        begun.add_done_callback(lambda done: _discard_follower(parts, done))
        raise


def _discard_follower(parts: HttpDependencies, done: "asyncio.Future[Follower]") -> None:
    if not done.cancelled() and done.exception() is None:
        parts.changes.leave(done.result())
