"""Following a feed from an event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from agent_memory.interfaces.bridge import Bridge

F = TypeVar("F")


async def follow(bridge: Bridge, begin: Callable[[], F], leave: Callable[[F], None]) -> F:
    """Begin to follow a feed. Raises StorageClosed."""
    begun = asyncio.ensure_future(bridge.run(begin))
    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        # The thread cannot be cancelled: remove its follower once it is there.
        begun.add_done_callback(lambda done: _discard_follower(leave, done))
        raise


def _discard_follower(leave: Callable[[F], None], done: "asyncio.Future[F]") -> None:
    if not done.cancelled() and done.exception() is None:
        leave(done.result())
