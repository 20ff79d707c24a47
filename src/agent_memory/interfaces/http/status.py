"""`/api/v1/status/`: the same as `memory-daemon status --format json`."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from agent_memory.interfaces.bridge import Bridge
from agent_memory.kernel.status import DaemonStatus


def build_router(bridge: Bridge, read_status: Callable[[], DaemonStatus]) -> APIRouter:
    routes = APIRouter(tags=["status"])

    @routes.get("/status/", summary="Read the status of the daemon and its store")
    async def status() -> dict[str, Any]:
        return {"running": True, **asdict(await bridge.run(read_status))}

    return routes
