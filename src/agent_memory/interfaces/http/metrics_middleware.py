"""Counts and times every request by its route."""

from agent_memory.interfaces.http.asgi import Application, Message, Receive, Scope, Send
from agent_memory.interfaces.http.gate import LONG_LIVED_PATHS
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel import tracing
from agent_memory.kernel.tracing import Interface


class MetricsMiddleware:
    """Records the requests of an application."""

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

        started = self._observer.begin()
        try:
            await self._application(scope, receive, send_noting_status)
        finally:
            streams = scope["type"] == "websocket" or scope["path"].startswith(LONG_LIVED_PATHS)
            self._observer.end(
                started,
                Interface.STREAMING if streams else Interface.HTTP,
                _operation(scope),
                str(status) if status else "aborted",
                tracing.parse_traceparent(_header(scope, b"traceparent")),
            )


def _operation(scope: Scope) -> str:
    """Return the method and the route. The path itself has too many values for a label."""
    route: str = scope["path"]
    if "route" not in scope and route != "/health":
        route = "unmatched"
    for name, value in scope.get("path_params", {}).items():
        if value:  # replace whole segments: an id may also be part of another word
            route = f"{route}/".replace(f"/{value}/", f"/{{{name}}}/", 1)[:-1]
    return f"{scope.get('method', 'WS')} {route}"


def _header(scope: Scope, name: bytes) -> str:
    value: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return value.decode("latin-1")
