"""The audit log: a line for each write with its caller, path and status, never its content."""

import time
from collections.abc import Callable

import structlog

from agent_memory.interfaces.http.asgi import Application, Message, Receive, Scope, Send

READING = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_PATH = 512

log = structlog.get_logger()


class AuditMiddleware:
    """Logs the writes to an application. The gate must have set the caller in the scope."""

    def __init__(self, inner: Application, record: Callable[..., object] | None = None) -> None:
        self._inner = inner
        self._record = record or _record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in READING:
            await self._inner(scope, receive, send)
            return
        status = 0  # stays 0 if the client leaves before the response

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.perf_counter()
        try:
            await self._inner(scope, receive, send_noting_status)
        except BaseException:
            status = status or 500
            raise
        finally:
            self._record(
                interface="http",
                listener=scope["state"]["listener"],
                key=scope["state"]["caller"],
                method=scope["method"],
                path=scope["path"][:MAX_PATH],
                status=status,
                duration_ms=round((time.perf_counter() - began) * 1000, 1),
            )


def _record(**facts: object) -> None:
    log.info("audit", **facts)
