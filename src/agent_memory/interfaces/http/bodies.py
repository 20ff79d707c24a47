"""Limits on request bodies: their size, and the life of their key. The time that they take to
arrive is a matter of the connection."""

from http import HTTPStatus

from agent_memory.interfaces.http.asgi import Application, Message, Receive, Scope, Send
from agent_memory.interfaces.http.refusals import RequestRefused, refuse


def too_large(most: int) -> RequestRefused:
    return RequestRefused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body exceeds {most:,} bytes (http.max_body_bytes): send less at once",
    )


class BodyLimitMiddleware:
    """Limits the bodies that an application reads."""

    def __init__(self, inner: Application, *, most: int) -> None:
        self._inner = inner
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["state"]["unread"] == 0:
            await self._inner(scope, receive, send)
            return
        body = _Body(scope, receive, send, most=self._most)
        await self._inner(scope, body.receive, body.send)


class _Body:
    """The body of one request. Beyond a limit, it answers the client itself, tells the application
    that the client has disconnected, and discards what the application sends."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, most: int) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._most = most
        self._read = 0
        self._more = True
        self._answering = False
        self._over = False

    async def receive(self) -> Message:
        if self._over:
            return {"type": "http.disconnect"}
        message = await self._receive()
        if not self._more:
            return message
        is_valid = self._scope["state"].get("is_valid")
        if is_valid is not None and not is_valid():  # a body may take longer than its key lives
            revoked = "the key was revoked, or the token has ended"
            return await self._end(RequestRefused(HTTPStatus.UNAUTHORIZED, revoked))
        self._more = message.get("more_body", False)
        self._read += len(message.get("body", b""))
        if self._read > self._most:
            return await self._end(too_large(self._most))
        return message

    async def send(self, message: Message) -> None:
        if not self._over:
            self._answering = True
            await self._send(message)

    async def _end(self, refused: RequestRefused) -> Message:
        self._over = True
        if not self._answering:
            await refuse(refused, self._scope, self._receive, self._send, None)
        return {"type": "http.disconnect"}
