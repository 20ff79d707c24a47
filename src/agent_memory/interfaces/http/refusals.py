"""Refused requests: each is answered with a status and a reason, and holds no resources."""

import asyncio
import json
from http import HTTPStatus

from agent_memory.interfaces.http.asgi import Receive, Scope, Send, send_json

SMALL_BYTES = 64 << 10
LINGER_BYTES = 64 << 20
LINGER_SECONDS = 1.0
POLICY_VIOLATION = 1008


class RequestRefused(Exception):
    """The request is refused, with this status and reason."""

    def __init__(self, status: HTTPStatus, detail: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers

    @property
    def body(self) -> bytes:
        return json.dumps({"detail": self.detail}).encode()


async def refuse(
    refused: RequestRefused, scope: Scope, receive: Receive, send: Send, unread: int | None
) -> None:
    """Answer a refused request. `unread` is the length of the body to come, or None if unknown."""
    if scope["type"] == "websocket":
        await _refuse_websocket(refused, scope, receive, send)
    elif unread is not None and unread <= SMALL_BYTES:
        await send_json(send, refused.status, refused.body, *refused.headers)
    else:
        await _hang_up(refused, receive, send)


async def _refuse_websocket(
    refused: RequestRefused, scope: Scope, receive: Receive, send: Send
) -> None:
    await receive()  # the request to connect
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        return
    headers = [(b"content-type", b"application/json"), *refused.headers]
    start = "websocket.http.response.start"
    await send({"type": start, "status": int(refused.status), "headers": headers})
    await send({"type": "websocket.http.response.body", "body": refused.body})


async def _hang_up(refused: RequestRefused, receive: Receive, send: Send) -> None:
    """Send the answer and close the connection.

    Closing while the client still writes would discard the answer, so read and drop its data for a
    moment.
    """
    body = refused.body
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        *refused.headers,
    ]
    status = int(refused.status)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            left = LINGER_BYTES
            while left > 0:
                message = await receive()
                if not message.get("more_body", False):  # the end of the body, or a disconnect
                    break
                left -= len(message.get("body", b""))
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b""})
