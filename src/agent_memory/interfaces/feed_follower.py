"""Following the change feed from an event loop."""

import asyncio
from collections.abc import Callable

from agent_memory.features.streaming.services.change_feed import ChangeFeed, Follower, RecordFilter
from agent_memory.interfaces.bridge import Bridge


async def follow(
    changes: ChangeFeed, bridge: Bridge, accepts: RecordFilter, wake: Callable[[], None]
) -> Follower:
    """Follow the records that `accepts` selects; `wake` is called in a thread when there are new
    ones. Raises StorageClosed."""
    begun = asyncio.ensure_future(bridge.run(lambda: changes.follow(accepts, wake)))
    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        # The thread cannot be cancelled: remove its follower once it is there.
        begun.add_done_callback(lambda done: _discard_follower(changes, done))
        raise


def _discard_follower(changes: ChangeFeed, done: "asyncio.Future[Follower]") -> None:
    if not done.cancelled() and done.exception() is None:
        changes.leave(done.result())
