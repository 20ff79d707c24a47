"""MCP's stdio transport over a connection: each message is a line of JSON.

The SDK reads from `LineReader` and writes to `LineWriter`. Neither has a task of its own, so a
client that reads slowly delays only the calls of its own connection.
"""

import asyncio
import contextlib
import json
from collections import Counter
from typing import Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

MAX_LINE_BYTES = 16 << 20
MAX_RUNNING = 256
CHUNK = 1 << 16
LEAVING_SECONDS = 1.0  # to answer a client that has closed its side
LISTEN = "subscriptions/listen"  # the only request that is answered when it ends
CANCELLED = "notifications/cancelled"


class PendingRequests:
    """The requests of one connection that have no answer yet."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._lasting: set[str] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    def begin(self, request: types.JSONRPCRequest) -> bool:
        """Add a request. Return False if there are too many already."""
        if self._calls.total() >= MAX_RUNNING:
            return False
        self._calls[str(request.id)] += 1
        if request.method == LISTEN:
            self._lasting.add(str(request.id))
        self._update()
        return True

    def end(self, request_id: object) -> None:
        key = str(request_id)
        if self._calls[key] > 1:
            self._calls[key] -= 1
        else:
            del self._calls[key]
            self._lasting.discard(key)
        self._update()

    def is_quiet(self) -> bool:
        """Return whether all requests are answered, apart from open subscriptions."""
        return self._quiet.is_set()

    async def wait_quiet(self, seconds: float | None) -> None:
        """Wait until all requests are answered, for at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), seconds)

    def _update(self) -> None:
        if self._calls.keys() <= self._lasting:
            self._quiet.set()
        else:
            self._quiet.clear()


class LineWriter:
    """The stream that the SDK writes to."""

    def __init__(self, writer: asyncio.StreamWriter, running: PendingRequests) -> None:
        self._writer = writer
        self._running = running
        self._turn = asyncio.Lock()
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            try:
                await self.write(message)
            finally:
                self._running.end(message.id)
        else:
            await self.write(message)

    async def write(self, message: types.JSONRPCMessage) -> None:
        line = message.model_dump_json(by_alias=True, exclude_unset=True)
        async with self._turn:
            if self._closed or self._writer.is_closing():
                raise anyio.BrokenResourceError
            try:
                self._writer.write(line.encode() + b"\n")
                await self._writer.drain()
            except OSError as exc:
                raise anyio.BrokenResourceError from exc

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class LineReader:
    """The stream that the SDK reads from.

    It ends when the client closes its side or `ending` is set.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        answers: LineWriter,
        running: PendingRequests,
        ending: asyncio.Event,
    ) -> None:
        self._reader = reader
        self._answers = answers
        self._running = running
        self._ending = ending
        self._ended: asyncio.Task[bool] | None = None
        self._buffer = bytearray()
        self._searched = 0
        self._too_long = False
        self._over = False

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while (line := await self._line()) is not None:
            if not line.strip():
                continue
            try:
                message = types.jsonrpc_message_adapter.validate_json(
                    line.decode(errors="replace"), by_name=False
                )
            except ValueError as exc:
                name = _parse_id(line)
                if name is None:
                    return exc  # it is not a request: no client waits for an answer
                await self._refuse(name, "the message is not JSON-RPC 2.0 in valid Unicode")
                continue
            if isinstance(message, types.JSONRPCRequest) and not self._running.begin(message):
                await self._refuse(
                    message.id, f"{MAX_RUNNING} calls are running, the limit: wait for one"
                )
                continue
            if isinstance(message, types.JSONRPCNotification) and message.method == CANCELLED:
                self._running.end((message.params or {}).get("requestId"))
            return SessionMessage(message)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._over = True
        if self._ended is not None:
            self._ended.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _line(self) -> bytes | None:
        """Return the next line. Refuse a line that is too long once, and skip it."""
        while not self._over:
            end = self._buffer.find(b"\n", self._searched)
            size = len(self._buffer) if end < 0 else end
            if size > MAX_LINE_BYTES and not self._too_long:
                self._too_long = True
                await self._refuse(
                    None, f"the message has more than {MAX_LINE_BYTES:,} bytes, the limit"
                )
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                if not self._too_long:
                    return line
                self._too_long = False
                continue
            if self._too_long:
                self._buffer.clear()
            self._searched = len(self._buffer)
            part = await self._read()
            if not part:
                await self._leave()
                return None
            self._buffer += part
        return None

    async def _read(self) -> bytes:
        """Read a chunk. Return nothing at the end of the input."""
        if self._ended is None:
            self._ended = asyncio.create_task(self._ending.wait())
        reading = asyncio.create_task(self._reader.read(CHUNK))
        try:
            await asyncio.wait((reading, self._ended), return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else b""
        except OSError:
            return b""
        finally:
            reading.cancel()

    async def _leave(self) -> None:
        """Wait for calls that are nearly done, because the end of the stream cancels them."""
        self._over = True
        await self._running.wait_quiet(None if self._ending.is_set() else LEAVING_SECONDS)

    async def _refuse(self, request_id: types.RequestId | None, reason: str) -> None:
        error = types.ErrorData(code=types.INVALID_REQUEST, message=reason)
        try:
            await self._answers.write(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
        except anyio.BrokenResourceError:
            self._over = True


def _parse_id(line: bytes) -> types.RequestId | None:
    """Return the id of an invalid request, or None if the line is not a request.

    Half a character is enough to make a request invalid.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = message.get("id") if isinstance(message, dict) and "method" in message else None
    return name if isinstance(name, int | str) and not isinstance(name, bool) else None
