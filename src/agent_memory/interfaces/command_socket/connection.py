"""The connection of one caller of the command socket: its unsent output and its answers.

A command waits while its caller has not taken the last UNSENT_BYTES, so a stalled caller blocks
only the thread of its own command.
"""

import asyncio
import contextlib
import queue
import threading

from agent_memory.interfaces.command_socket import frames
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled
from agent_memory.launcher import command_client as launcher

UNSENT_BYTES = 8 << 20
REFUSED = 1


class CallerConnection:
    """The connection of one caller, with its unsent output and its answers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, writer: asyncio.StreamWriter) -> None:
        self.cancelled = CancelToken()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._asked = False
        self._loop = loop
        self._writer = writer
        self._unsent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Condition()
        self._waiting_bytes = 0
        self._gone = False
        self._next_beat: asyncio.TimerHandle | None = None

    # Called from the command's thread.

    def out(self, data: bytes, /) -> None:
        self._send(launcher.OUT, data)

    def err(self, data: bytes, /) -> None:
        self._send(launcher.ERR, data)

    def page(self, data: bytes, /) -> None:
        self._send_whole(launcher.PAGE, data)  # each frame opens a pager

    def edit(self, data: bytes, /) -> bytes:
        return self._ask(launcher.EDIT, data)

    def ask(self, prompt: bytes, /, *, hidden: bool) -> bytes:
        return self._ask(launcher.ASK_HIDDEN if hidden else launcher.ASK, prompt)

    def ask_key(self, prompt: bytes, /) -> bytes:
        return self._ask(launcher.ASK_KEY, prompt)

    def read(self) -> bytes:
        return self._ask(launcher.READ, b"")

    def finish(self, code: int) -> None:
        self._queue(launcher.frame(launcher.EXIT, bytes([code & 0xFF])))
        self._queue(None)

    def _ask(self, kind: bytes, question: bytes) -> bytes:
        self._asked = True
        self._send(kind, question)
        answer = None if self.cancelled.is_set() else self._answers.get()
        if answer is None:
            raise Cancelled
        return answer

    def _send(self, kind: bytes, data: bytes) -> None:
        for start in range(0, len(data), frames.MAX_PAYLOAD) or (0,):
            self._send_whole(kind, data[start : start + frames.MAX_PAYLOAD])

    def _send_whole(self, kind: bytes, data: bytes) -> None:
        with self._room:
            self._room.wait_for(lambda: self._waiting_bytes < UNSENT_BYTES or self._gone)
            if self._gone:
                raise Cancelled
        self._queue(launcher.frame(kind, data))

    def _queue(self, part: bytes | None) -> None:
        with self._room:
            self._waiting_bytes += len(part or b"")
        with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon has stopped
            self._loop.call_soon_threadsafe(self._unsent.put_nowait, part)

    # Called on the loop.

    def answer(self, payload: bytes) -> None:
        """Pass an answer to the command. Drop unasked ones, which would pile up."""
        if self._asked:
            self._asked = False
            self._answers.put(payload)

    def cancel(self) -> None:
        if not self.cancelled.is_set():
            self.cancelled.set()
            self._answers.put(None)

    def leave(self) -> None:
        """Cancel the command and drop its further output: the caller has disconnected."""
        self.cancel()
        with self._room:
            self._gone = True
            self._room.notify_all()

    def abandon(self) -> None:
        """Disconnect, and drop unsent output."""
        self.leave()
        self._writer.transport.abort()

    def beat(self, seconds: float) -> None:
        """Tell the launcher every few seconds that its command is still running."""

        def tell() -> None:
            # Beats must not pile up while the launcher reads nothing because a pager is open.
            if not self._writer.is_closing() and not self._writer.transport.get_write_buffer_size():
                self._writer.write(launcher.frame(launcher.BEAT, b""))
            self.beat(seconds)

        self._next_beat = self._loop.call_later(seconds, tell)

    def stop_beating(self) -> None:
        if self._next_beat is not None:
            self._next_beat.cancel()

    async def warn(self, text: str) -> None:
        await self.send(launcher.frame(launcher.ERR, f"{text}\n".encode()))

    async def refuse(self, reason: str) -> None:
        await self.warn(f"error: {reason}")
        await self.send(launcher.frame(launcher.EXIT, bytes([REFUSED])))

    async def send(self, part: bytes) -> None:
        if self._writer.is_closing():  # uvloop raises no OSError
            raise ConnectionResetError("the caller has disconnected")
        self._writer.write(part)
        await self._writer.drain()

    async def send_all(self) -> None:
        while (part := await self._unsent.get()) is not None:
            await self.send(part)
            with self._room:
                self._waiting_bytes -= len(part)
                self._room.notify_all()
