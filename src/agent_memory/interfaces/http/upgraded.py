"""Connections that have become WebSockets."""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from agent_memory.interfaces.http.connections import Bounds, Stall, build_response


class WebSocketConnection(WebSocketsSansIOProtocol):
    def __init__(self, bounds: Bounds, **given: Any) -> None:
        super().__init__(**given)
        self._bounds = bounds
        self._stall: Stall | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and not self.transport.is_closing():
            # The whole request was in there. What uvicorn cannot make out it would wait for.
            detail = b"this is no request for a WebSocket: it has a body, or a header of 8 KiB"
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
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # uvicorn takes it for unfinished, and would log an error for each refusal.
            self.handshake_complete = True
