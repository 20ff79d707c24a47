"""The HTTP application: every router, and what an error becomes."""

from collections.abc import Callable

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi_offline import FastAPIOffline

from agent_memory import __version__
from agent_memory.domain.errors import AgentMemoryError
from agent_memory.domain.status import DaemonStatus
from agent_memory.interfaces import wire
from agent_memory.interfaces.http import status, streams, websocket
from agent_memory.interfaces.http.parts import Parts

PREFIX = "/api/v1"


def application(parts: Parts, told: Callable[[], DaemonStatus]) -> FastAPI:
    api = FastAPIOffline(
        title="Agent Memory",
        version=__version__,
        description="What agents said, did and learned, for programs.",
        redoc_url=None,
    )
    api.include_router(status.router(parts.bridge, told), prefix=PREFIX)
    api.include_router(streams.router(parts))
    api.include_router(websocket.router(parts, "/ws"))
    api.add_exception_handler(AgentMemoryError, _failed)
    return api


def stand(parts: Parts, transport: str) -> FastAPI:
    """What `memory serve` opens a port of its own for."""
    api = FastAPI(title="Agent Memory", version=__version__, openapi_url=None)
    if transport == "websocket":
        api.include_router(websocket.router(parts, "/ws", "/"))
    else:
        api.include_router(streams.router(parts))
    api.add_exception_handler(AgentMemoryError, _failed)
    return api


async def _failed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AgentMemoryError)  # noqa: S101  # it is what the handler is for
    return Response(
        msgspec.json.encode({"detail": str(error)}),
        status_code=wire.codes(error).http,
        media_type="application/json",
    )
