"""The HTTP application: every router, and what an error becomes."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi_offline import FastAPIOffline

from agent_memory import __version__
from agent_memory.interfaces.http import (
    answers,
    checkpoints,
    knowledge,
    metrics,
    reading,
    status,
    streams,
    websocket,
)
from agent_memory.interfaces.http.answers import PROBLEMS
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.wire.errors import get_codes
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.kernel.status import DaemonStatus

PREFIX = "/api/v1"


def build_app(parts: HttpDependencies, told: Callable[[], DaemonStatus]) -> FastAPI:
    api = FastAPIOffline(
        title="Agent Memory",
        version=__version__,
        description="What agents said, did and learned, for programs.",
        redoc_url=None,
    )
    for routes in (
        *knowledge.build_routers(parts),
        checkpoints.build_router(parts),
        reading.build_router(parts),
        status.build_router(parts.bridge, told),
    ):
        api.include_router(routes, prefix=PREFIX, responses=PROBLEMS)
    api.include_router(
        metrics.build_router(parts.bridge, parts.observer, parts.metrics), responses=PROBLEMS
    )
    api.include_router(streams.build_router(parts), responses=PROBLEMS)
    api.include_router(websocket.build_router(parts, "/ws"))
    api.openapi = lambda: _build_openapi(api)  # type: ignore[method-assign]  # as FastAPI has it
    return _add_error_handlers(api)


def _build_openapi(api: FastAPI) -> dict[str, Any]:
    """What the page shows, and that it takes a key."""
    if api.openapi_schema is None:
        found = get_openapi(
            title=api.title, version=api.version, description=api.description, routes=api.routes
        )
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"key": []}]
        api.openapi_schema = found
    return api.openapi_schema


def build_transport_app(parts: HttpDependencies, transport: str) -> FastAPI:
    """What `memory serve` opens a port of its own for."""
    api = FastAPI(title="Agent Memory", version=__version__, openapi_url=None)
    if transport == "websocket":
        api.include_router(websocket.build_router(parts, "/ws", "/"))
    else:
        api.include_router(streams.build_router(parts))
    return _add_error_handlers(api)


def _add_error_handlers(api: FastAPI) -> FastAPI:
    """With what an error becomes."""
    api.add_exception_handler(AgentMemoryError, _on_error)
    api.add_exception_handler(RequestValidationError, _on_invalid_request)
    return api


async def _on_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AgentMemoryError)  # noqa: S101  # it is what the handler is for
    return answers.render_json({"detail": _plain(str(error))}, get_codes(error).http)


async def _on_invalid_request(_request: Request, error: Exception) -> Response:
    """Where and why, and never what was given: it may be a secret, or no text at all."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = [
        {
            "loc": [_plain(str(part)) for part in each["loc"]],
            "msg": each["msg"],
            "type": each["type"],
        }
        for each in error.errors()
    ]
    return answers.render_json({"detail": found}, 422)


def _plain(text: str) -> str:
    """As it can be encoded."""
    return text.encode(errors="replace").decode()
