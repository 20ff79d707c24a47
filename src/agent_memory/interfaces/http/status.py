"""`/api/v1/status/`: the daemon, as `memory-daemon status --format json` tells of it."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from agent_memory.interfaces import wire
from agent_memory.interfaces.bridge import Bridge
from agent_memory.kernel.status import DaemonStatus


def build_router(bridge: Bridge, told: Callable[[], DaemonStatus]) -> APIRouter:
    routes = APIRouter(tags=["status"])

    @routes.get("/status/", summary="The daemon and its store")
    async def status() -> dict[str, Any]:
        return wire.status_json(await bridge.run(told))

    return routes
