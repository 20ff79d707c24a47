"""Connections that were upgraded to WebSocket."""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from agent_memory.interfaces.http.connections import Bounds, Stall, build_response
from agent_memory.interfaces.http.headers import HEADERS


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket of uvicorn with bounds."""

    def __init__(self, bounds: Bounds, **options: Any) -> None:
        super().__init__(**options)
        self._bounds = bounds
        self._stall: Stall | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and not self.transport.is_closing():
            # The data had the whole request. uvicorn would wait for more of an invalid one.
            detail = b"not a valid WebSocket request: it has a body, or a header of 8 KiB"
            self.transport.write(build_response(b"400 Bad Request", detail))
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self._stall or Stall(self.transport, self._bounds.stalled_seconds)
        self._stall.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.end()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stall is not None:
            self._stall.end()
        super().connection_lost(exc)

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.http.response.start":
            message = {**message, "headers": [*HEADERS, *message.get("headers", ())]}
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # uvicorn takes a refusal for an unfinished handshake, and would log an error.
            self.handshake_complete = True
