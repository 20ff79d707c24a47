"""The audit log: a line for each write with its caller, path and status, never its content.

On a team server it is also stored, for `GET /api/v1/audit/`.
"""

import time
from collections.abc import Callable

import structlog

from agent_memory.interfaces.auditing import Auditor
from agent_memory.interfaces.http.asgi import Application, Message, Receive, Scope, Send
from agent_memory.interfaces.permissions import API, WEBSOCKET

# These are answered with what is stored, though they are posted; MCP enters its tools itself.
ASKING = frozenset({"/stream/recall", "/mcp", f"{API}/upstream/search/"})
READING = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_PATH = 512

log = structlog.get_logger()


class AuditMiddleware:
    """Logs the writes to an application. The gate must have set the caller in the scope."""

    def __init__(
        self,
        inner: Application,
        record: Callable[..., object] | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        self._inner = inner
        self._record = record or _record
        self._auditor = auditor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writes = scope["type"] == "http" and scope["method"] not in READING
        if not writes and self._auditor is None:
            await self._inner(scope, receive, send)
            return
        status = 0  # stays 0 if the client leaves before the response

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        began = time.perf_counter()
        try:
            await self._inner(scope, receive, send_noting_status)
        except BaseException:
            status = status or 500
            raise
        finally:
            state = scope["state"]
            if writes:
                self._record(
                    interface="http",
                    listener=state["listener"],
                    key=state["caller"],
                    method=scope["method"],
                    path=scope["path"][:MAX_PATH],
                    status=status,
                    duration_ms=round((time.perf_counter() - began) * 1000, 1),
                )
            if self._auditor is not None and state["caller"]:
                await self._auditor.note(
                    state["caller"],
                    state["principal"],
                    "http",
                    scope.get("method", WEBSOCKET),
                    scope["path"],
                    status,
                    needed=state["permission"],
                    writes=writes and scope["path"] not in ASKING,
                )


def _record(**facts: object) -> None:
    log.info("audit", **facts)
