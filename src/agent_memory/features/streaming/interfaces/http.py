"""The streams of HTTP: server-sent events and the WebSocket."""

from fastapi import Depends, FastAPI

from agent_memory.features.streaming.interfaces import streams, websocket
from agent_memory.interfaces.http.answers import PROBLEMS
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.parameters import refuse_unknown

WEBSOCKET_PATH = "/ws"


def add_routes(api: FastAPI, dependencies: HttpDependencies) -> None:
    api.include_router(
        streams.build_router(dependencies),
        responses=PROBLEMS,
        dependencies=(Depends(refuse_unknown),),
    )
    api.include_router(websocket.build_router(dependencies, WEBSOCKET_PATH))


def add_transport(api: FastAPI, dependencies: HttpDependencies, transport: str) -> None:
    """Add the routes of a port that `memory serve` opens."""
    if transport == "websocket":
        api.include_router(websocket.build_router(dependencies, WEBSOCKET_PATH, "/"))
    else:
        api.include_router(streams.build_router(dependencies))
