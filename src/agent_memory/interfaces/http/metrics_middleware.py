"""Every request is counted, by the route that answered it."""

import time

from agent_memory.interfaces.http.asgi import Application, Message, Receive, Scope, Send
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel import tracing
from agent_memory.kernel.tracing import Interface

STREAMS = ("/stream", "/ws", "/mcp", "/sse", "/messages")


class MetricsMiddleware:
    def __init__(self, application: Application, observer: Observer) -> None:
        self._application = application
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 0

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        began = time.perf_counter()
        try:
            await self._application(scope, receive, send_noting_status)
        finally:
            streams = scope["type"] == "websocket" or scope["path"].startswith(STREAMS)
            self._observer.record(
                Interface.STREAMING if streams else Interface.HTTP,
                _operation(scope),
                str(status) if status else "aborted",
                time.perf_counter() - began,
                tracing.parse_traceparent(_header(scope, b"traceparent")),
            )


def _operation(scope: Scope) -> str:
    """The method and the route, never the path itself, of which there is any number."""
    route: str = scope["path"]
    if "route" not in scope and route != "/health":
        route = "unmatched"
    for name, value in scope.get("path_params", {}).items():
        if value:  # whole parts of the path: an id may stand in another word
            route = f"{route}/".replace(f"/{value}/", f"/{{{name}}}/", 1)[:-1]
    return f"{scope.get('method', 'WS')} {route}"


def _header(scope: Scope, name: bytes) -> str:
    found: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return found.decode("latin-1")
