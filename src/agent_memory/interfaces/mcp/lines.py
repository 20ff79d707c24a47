"""Messages as lines of JSON over a connection, as MCP's stdio transport has them.

Both sides are what the SDK reads from and writes to, without tasks of their own: whoever reads
slowly makes the calls of its own connection wait, and nobody else's.
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
LEAVING_SECONDS = 1.0  # for answers to a client that has said all it wanted to say
LISTEN = "subscriptions/listen"  # the one request that is not answered until it ends
CANCELLED = "notifications/cancelled"


class PendingRequests:
    """The requests of one connection that have no answer yet."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._lasting: set[str] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    def begin(self, request: types.JSONRPCRequest) -> bool:
        """False where there are too many already."""
        if self._calls.total() >= MAX_RUNNING:
            return False
        self._calls[str(request.id)] += 1
        if request.method == LISTEN:
            self._lasting.add(str(request.id))
        self._look()
        return True

    def end(self, request_id: object) -> None:
        key = str(request_id)
        if self._calls[key] > 1:
            self._calls[key] -= 1
        else:
            del self._calls[key]
            self._lasting.discard(key)
        self._look()

    def is_quiet(self) -> bool:
        """Whether all is answered."""
        return self._quiet.is_set()

    async def wait_quiet(self, seconds: float | None) -> None:
        """Wait until all is answered, but no longer than that."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), seconds)

    def _look(self) -> None:
        if self._calls.keys() <= self._lasting:
            self._quiet.set()
        else:
            self._quiet.clear()


class LineWriter:
    """What the SDK writes to."""

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
    """What the SDK reads from. It ends where the client has ended its side, or `ending` is set."""

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
        self._given = bytearray()
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
                    return exc  # nobody waits for an answer to it
                await self._refuse(name, "this is no message of JSON-RPC 2.0 in valid Unicode")
                continue
            if isinstance(message, types.JSONRPCRequest) and not self._running.begin(message):
                await self._refuse(message.id, f"{MAX_RUNNING} calls are running; wait for one")
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
        """The next one; what is too long is refused once, and passed over to its end."""
        while not self._over:
            end = self._given.find(b"\n", self._searched)
            size = len(self._given) if end < 0 else end
            if size > MAX_LINE_BYTES and not self._too_long:
                self._too_long = True
                await self._refuse(None, f"a message has more than {MAX_LINE_BYTES:,} bytes")
            if end >= 0:
                line = bytes(self._given[:end])
                del self._given[: end + 1]
                self._searched = 0
                if not self._too_long:
                    return line
                self._too_long = False
                continue
            if self._too_long:
                self._given.clear()
            self._searched = len(self._given)
            part = await self._read()
            if not part:
                await self._leave()
                return None
            self._given += part
        return None

    async def _read(self) -> bytes:
        """Empty where nothing more will come."""
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
        """What ends here cancels all calls: those that are nearly done are waited for."""
        self._over = True
        await self._running.wait_quiet(None if self._ending.is_set() else LEAVING_SECONDS)

    async def _refuse(self, request_id: types.RequestId | None, reason: str) -> None:
        error = types.ErrorData(code=types.INVALID_REQUEST, message=reason)
        try:
            await self._answers.write(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
        except anyio.BrokenResourceError:
            self._over = True


def _parse_id(line: bytes) -> types.RequestId | None:
    """The request that cannot be read, if it is one: half a character in it is enough."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = found.get("id") if isinstance(found, dict) and "method" in found else None
    return name if isinstance(name, int | str) and not isinstance(name, bool) else None
