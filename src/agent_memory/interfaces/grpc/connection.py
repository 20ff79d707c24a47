"""One HTTP/2 connection and the gRPC calls on it.

The library `jh2` knows HTTP/2: frames, header compression, windows. This module knows gRPC: a call
is a stream, its messages are the body, and trailers carry its status.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import structlog
from jh2.errors import ErrorCodes
from jh2.events import (
    ConnectionTerminated,
    DataReceived,
    PingAckReceived,
    PingReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from jh2.exceptions import ProtocolError
from jh2.hyperframe.frame import GoAwayFrame

from agent_memory.interfaces.grpc.admission import CallOrigin
from agent_memory.interfaces.grpc.calls import (
    CONTENT_TYPE,
    CallHead,
    Headers,
    Method,
    Methods,
    NotGrpc,
    StreamMethod,
    UnaryMethod,
)
from agent_memory.interfaces.grpc.http2 import CONNECTION_WINDOW, STREAM_WINDOW, Http2
from agent_memory.interfaces.grpc.messages import (
    ENCODINGS,
    IDENTITY,
    MAX_MESSAGE_BYTES,
    PREFIX_BYTES,
    MessageReader,
    RawMessage,
    add_prefix,
)
from agent_memory.interfaces.grpc.statuses import Status, StatusError
from agent_memory.kernel.errors import InvalidInput

log = structlog.get_logger()

MAX_CALLS = 4096  # at once, on all connections
MAX_HELD_BYTES = 256 << 20  # of requests that are not answered yet, on all connections
HANDSHAKE_SECONDS = 20.0
REQUEST_SECONDS = 30.0  # for a request to be whole, if others are refused meanwhile
DRAIN_SECONDS = 1.0  # for a client to confirm that it opens no more streams
CLOSE_SECONDS = 2.0  # for a client to read what was sent last, and to close

# Frames that cost us work and carry no call (cancelled calls, pings, settings): so many at once,
# and so many a second. A client that sends more is disconnected. Each frame of an answer allows one
# more: clients measure the connection with a ping for each.
MAX_CONTROL_FRAMES = 2_000
CONTROL_FRAMES_PER_SECOND = 500

_LAST_STREAM = 2**31 - 1
_DRAINING = b"draining"

_HEAD: Headers = [
    (b":status", b"200"),
    (b"content-type", CONTENT_TYPE),
    (b"grpc-accept-encoding", b",".join((IDENTITY, *ENCODINGS))),
]
_OK: Headers = [(b"grpc-status", b"0")]
_ONE_MESSAGE = StatusError(Status.UNIMPLEMENTED, "send exactly one message")


@dataclass(slots=True)
class ServedCalls:
    """The methods of a server, and what all its connections share."""

    methods: Methods
    running: int = 0
    held: int = 0  # bytes of requests
    connections: "set[Connection]" = field(default_factory=set)

    def expire_requests(self) -> None:
        """End the calls whose requests are not whole after a while: others need their places."""
        for connection in self.connections:
            connection.expire_requests()


class _Call:
    """A call from its headers to its status."""

    __slots__ = (
        "arrived", "began", "credit", "deadline", "failure", "has_begun", "head", "held",
        "input_ended", "is_gone", "messages", "method", "reader", "stream_id", "task",
    )  # fmt: skip

    def __init__(self, stream_id: int, head: CallHead, method: Method) -> None:
        self.stream_id = stream_id
        self.head = head
        self.method = method
        self.reader = MessageReader(head.read_encoding())
        self.began = time.monotonic()
        self.messages: deque[RawMessage] = deque()
        self.arrived: asyncio.Future[None] | None = None  # while the method waits for a message
        self.held = 0
        self.credit = 0  # bytes that the client may send again
        self.input_ended = False
        self.has_begun = False  # to answer
        self.is_gone = False  # the client has left
        self.failure: StatusError | None = None  # ends the call, whatever the method does
        self.task: asyncio.Task[None] | None = None
        self.deadline: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        if self.arrived is not None and not self.arrived.done():
            self.arrived.set_result(None)


class Connection(asyncio.Protocol):
    """Serves the calls of one client, until it is `closed`."""

    def __init__(self, shared: ServedCalls) -> None:
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._http2 = Http2()
        self._calls: dict[int, _Call] = {}
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until it is made
        self._origin = CallOrigin()
        self._handshake: asyncio.TimerHandle | None = None
        self._uncredited = 0  # bytes received on all streams
        self._writers: set[asyncio.Future[None]] = set()  # that wait for room
        self._is_paused = False
        self._will_flush = False
        self._is_draining = False
        self._is_closing = False
        self._control_room = float(MAX_CONTROL_FRAMES)
        self._control_at = time.monotonic()
        self._handlers: dict[type, Callable[[Any], None]] = {
            RequestReceived: self._begin_call,
            DataReceived: self._receive_body,
            StreamEnded: self._end_input,
            StreamReset: self._abandon_call,
            WindowUpdated: self._resume_writers,
            RemoteSettingsChanged: self._accept_settings,
            PingReceived: self._count_control_frame,
            PingAckReceived: self._end_streams,
            ConnectionTerminated: self._end_streams,
        }

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._origin = CallOrigin.of_transport(transport)
        self._shared.connections.add(self)
        self._handshake = self._loop.call_later(HANDSHAKE_SECONDS, self._transport.abort)
        self._http2.initiate_connection()
        self._http2.increment_flow_control_window(CONNECTION_WINDOW)
        self._flush()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._shared.connections.discard(self)
        self.closed.set_result(None)
        self._cancel_handshake()
        for call in list(self._calls.values()):
            self._drop(call)
        self._resume_writers()

    def data_received(self, data: bytes) -> None:
        if not self._is_closing:  # then, reading on lets the client have what was sent last
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        try:
            for event in self._http2.receive_data(data):
                if (handle := self._handlers.get(type(event))) is not None:
                    handle(event)
                if self._is_closing:
                    return
        except ProtocolError as exc:
            log.debug("grpc.protocol_error", error=str(exc))
            self._close()
        except Exception:
            # Whatever a client sends, only its own connection may end.
            log.warning("grpc.connection_failed", exc_info=True)
            self._transport.abort()
        else:
            self._flush()

    def pause_writing(self) -> None:
        self._is_paused = True
        # Every ping asks for an answer: do not read what a client sends that reads none.
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()
        self._resume_writers()

    # What the server calls.

    def drain(self) -> None:
        """Finish the calls that the client has begun, and then close.

        Its answer to the ping comes after all streams that it opened before it learned of this.
        """
        if self._is_closing or self._transport.is_closing():
            return
        if self._handshake is not None:
            self._close()
            return
        self._flush()
        goaway = GoAwayFrame(0, last_stream_id=_LAST_STREAM)
        self._transport.write(goaway.serialize())
        self._http2.ping(_DRAINING)
        self._flush()
        self._loop.call_later(DRAIN_SECONDS, self._end_streams)

    async def cut(self) -> None:
        """End the calls that are left, and close."""
        for call in list(self._calls.values()):
            self._fail(call, StatusError(Status.UNAVAILABLE, "the daemon is stopping"))
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
        self._close()
        await asyncio.wait([self.closed], timeout=DRAIN_SECONDS)
        self._transport.abort()

    def expire_requests(self) -> None:
        oldest = time.monotonic() - REQUEST_SECONDS
        for call in list(self._calls.values()):
            if call.task is None and call.began < oldest:
                self._fail(call, StatusError(Status.DEADLINE_EXCEEDED, "the request is not whole"))

    # What the client sends.

    def _begin_call(self, event: Any) -> None:
        stream_id: int = event.stream_id
        try:
            head = CallHead.parse(event.headers, self._origin)
            method = self._shared.methods.get(head.path)
            if method is None:
                raise StatusError(
                    Status.UNIMPLEMENTED, f"there is no method {head.path.decode('latin-1')}"
                )
            if self._shared.running >= MAX_CALLS and not self._origin.uses_socket:
                self._shared.expire_requests()
                raise StatusError(
                    Status.RESOURCE_EXHAUSTED, f"more than {MAX_CALLS:,} calls at once: try later"
                )
            timeout = head.read_timeout()
            call = _Call(stream_id, head, method)
        except NotGrpc as exc:
            self._send_end(stream_id, [(b":status", b"%d" % exc.status)])
            return
        except StatusError as exc:
            self._send_end(stream_id, [*_HEAD, *exc.to_headers()])
            return
        self._shared.running += 1
        self._calls[stream_id] = call
        if timeout is not None:
            call.deadline = self._loop.call_later(timeout, self._expire, call)
        if isinstance(method, StreamMethod):
            self._start(call)

    def _receive_body(self, event: Any) -> None:
        length: int = event.flow_controlled_length
        self._uncredited += length
        if self._uncredited > CONNECTION_WINDOW // 2:
            self._http2.increment_flow_control_window(self._uncredited)
            self._uncredited = 0
        call = self._calls.get(event.stream_id)
        if call is None or call.failure is not None:
            return
        call.credit += length
        if not length:
            self._count_control_frame()
        try:
            self._hold(call, length)
            call.messages.extend(call.reader.feed(event.data))
            if len(call.messages) > 1 and isinstance(call.method, UnaryMethod):
                raise _ONE_MESSAGE
        except StatusError as exc:
            self._fail(call, exc)
            return
        if call.messages:
            call.wake()
        self._extend_window(call)

    def _end_input(self, event: Any) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:
            return
        call.input_ended = True
        call.wake()
        if call.failure is not None:
            return
        if call.reader.is_inside_message:
            self._fail(call, StatusError(Status.INTERNAL, "the last message is not whole"))
        elif isinstance(call.method, UnaryMethod):
            if call.messages:
                self._start(call)
            else:
                self._fail(call, _ONE_MESSAGE)

    def _abandon_call(self, event: Any) -> None:
        self._count_control_frame()
        if (call := self._calls.get(event.stream_id)) is not None:
            self._drop(call)

    def _accept_settings(self, _event: Any) -> None:
        self._cancel_handshake()
        self._count_control_frame()
        self._resume_writers()  # they may have larger windows

    def _count_control_frame(self, _event: Any = None) -> None:
        now = time.monotonic()
        room = self._control_room + (now - self._control_at) * CONTROL_FRAMES_PER_SECOND
        self._control_room, self._control_at = min(room, MAX_CONTROL_FRAMES) - 1, now
        if self._control_room < 0:
            self._close(ErrorCodes.ENHANCE_YOUR_CALM)

    def _end_streams(self, _event: Any = None) -> None:
        """Close once the calls are answered: the client opens no more."""
        self._is_draining = True
        self._close_if_drained()

    # Answering.

    def _start(self, call: _Call) -> None:
        call.task = self._loop.create_task(self._run(call))
        # A task that is cancelled before its first step does not run at all.
        call.task.add_done_callback(lambda _: self._end(call, call.failure))

    async def _run(self, call: _Call) -> None:
        """Answer a call, and end it with its status."""
        failure: StatusError | None = None
        try:
            if isinstance(call.method, UnaryMethod):
                await self._answer_unary(call, call.method)
            else:
                await self._answer_stream(call, call.method)
        except StatusError as exc:
            failure = exc
        except InvalidInput as exc:
            failure = StatusError(Status.INVALID_ARGUMENT, str(exc))
        except asyncio.CancelledError:
            failure = StatusError(Status.CANCELLED, "the call was cancelled")
        except ProtocolError:
            call.is_gone = True  # the stream or the connection has ended meanwhile
        except Exception:
            log.error("grpc.call_failed", method=call.head.path.decode("latin-1"), exc_info=True)
            failure = StatusError(Status.UNKNOWN, "unexpected error: the daemon's log has it")
        self._end(call, call.failure or failure)

    async def _answer_unary(self, call: _Call, method: UnaryMethod) -> None:
        message = self._decode(call, call.messages[0])
        await self._send_message(call, await method.answer(message, call.head))

    async def _answer_stream(self, call: _Call, method: StreamMethod) -> None:
        answers = method.answer(self._iterate_messages(call), call.head)
        async with contextlib.aclosing(cast("Any", answers)):
            async for answer in answers:
                await self._send_message(call, answer)

    async def _iterate_messages(self, call: _Call) -> AsyncIterator[bytes]:
        while True:
            while call.messages:
                message = call.messages.popleft()
                before = call.held
                content = self._decode(call, message)
                size = PREFIX_BYTES + len(message.content) + call.held - before
                self._extend_window(call)
                yield content
                self._release(call, size)
            if call.input_ended:
                return
            call.arrived = self._loop.create_future()
            await call.arrived

    async def _send_message(self, call: _Call, message: bytes) -> None:
        if len(message) > MAX_MESSAGE_BYTES:
            raise StatusError(
                Status.RESOURCE_EXHAUSTED,
                f"the answer has {len(message):,} bytes; the limit is {MAX_MESSAGE_BYTES:,}",
            )
        http2, stream_id, body = self._http2, call.stream_id, add_prefix(message)
        if not call.has_begun:
            call.has_begun = True
            http2.send_headers(stream_id, _HEAD)
        start = 0
        while start < len(body):
            room = min(http2.local_flow_control_window(stream_id), http2.max_outbound_frame_size)
            if room <= 0 or self._is_paused:
                self._flush()
                await self._wait_for_room()
                continue
            http2.send_data(stream_id, body[start : start + room])
            self._control_room += 1
            start += room
            if start < len(body):
                self._flush()  # which may pause writing
        self._flush_soon()

    async def _wait_for_room(self) -> None:
        waiter = self._loop.create_future()
        self._writers.add(waiter)
        try:
            await waiter
        finally:
            self._writers.discard(waiter)

    def _end(self, call: _Call, failure: StatusError | None) -> None:
        """Send the status, and forget the call."""
        if self._calls.pop(call.stream_id, None) is None:
            return
        self._shared.running -= 1
        self._release(call, call.held)
        if call.deadline is not None:
            call.deadline.cancel()
        if not call.is_gone and not self._is_closing:
            trailers = _OK if failure is None else failure.to_headers()
            self._send_end(
                call.stream_id,
                trailers if call.has_begun else [*_HEAD, *trailers],
                input_ended=call.input_ended,
            )
            # A single caller waits for this alone. Those of a crowd share one system call.
            if self._calls:
                self._flush_soon()
            else:
                self._flush()
        if self._is_draining:
            self._close_if_drained()

    def _send_end(self, stream_id: int, headers: Headers, *, input_ended: bool = False) -> None:
        """Send the last headers of a stream, and reset it if the client is still sending."""
        with contextlib.suppress(ProtocolError):  # the client has left, or has ended the stream
            self._http2.send_headers(stream_id, headers, end_stream=True)
            if not input_ended:
                self._http2.reset_stream(stream_id, ErrorCodes.NO_ERROR)

    def _fail(self, call: _Call, failure: StatusError) -> None:
        """End a call with a status, also if its method is at work."""
        call.failure = failure
        if call.task is None:
            self._end(call, failure)
        else:
            call.task.cancel()

    def _drop(self, call: _Call) -> None:
        """End a call whose client has left."""
        call.is_gone = True
        if call.task is None:
            self._end(call, None)
        else:
            call.task.cancel()

    def _expire(self, call: _Call) -> None:
        self._fail(call, StatusError(Status.DEADLINE_EXCEEDED, "the deadline has passed"))

    # Flow.

    def _extend_window(self, call: _Call) -> None:
        """Let the client send more, unless the method has yet to read what is there."""
        waiting = call.held if call.messages else 0
        if not call.input_ended and waiting < STREAM_WINDOW <= 2 * call.credit:
            with contextlib.suppress(ProtocolError, KeyError):  # the stream has ended
                self._http2.increment_flow_control_window(call.credit, call.stream_id)
            call.credit = 0
            self._flush_soon()

    def _hold(self, call: _Call, size: int) -> None:
        """Count bytes of a request. Raises StatusError if there are too many of all callers."""
        call.held += size
        self._shared.held += size
        if self._shared.held > MAX_HELD_BYTES and not self._origin.uses_socket:
            self._shared.expire_requests()
            raise StatusError(
                Status.RESOURCE_EXHAUSTED,
                f"the daemon holds {MAX_HELD_BYTES:,} bytes of requests: try later",
            )

    def _decode(self, call: _Call, message: RawMessage) -> bytes:
        """Return the content of a message. Raises StatusError."""
        content = call.reader.decode(message)
        if message.is_compressed:
            self._hold(call, len(content))
        return content

    def _release(self, call: _Call, size: int) -> None:
        released = min(call.held, size)
        call.held -= released
        self._shared.held -= released

    def _resume_writers(self, _event: Any = None) -> None:
        for waiter in self._writers:
            if not waiter.done():
                waiter.set_result(None)

    def _flush_soon(self) -> None:
        """Write what is to be sent after the events that are due: one system call for all."""
        if not self._will_flush:
            self._will_flush = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._will_flush = False
        data = self._http2.data_to_send()
        if data and not self._is_closing and not self._transport.is_closing():
            self._transport.write(data)

    # Ending.

    def _cancel_handshake(self) -> None:
        if self._handshake is not None:
            self._handshake.cancel()
            self._handshake = None

    def _close_if_drained(self) -> None:
        if not self._calls:
            self._close()

    def _close(self, error: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Say goodbye, and let the client close: it may still read what was sent last."""
        if self._is_closing or self._transport.is_closing():
            return
        with contextlib.suppress(ProtocolError):  # the library has said it, after an error
            self._http2.close_connection(error)
        self._flush()
        self._is_closing = True
        for call in list(self._calls.values()):
            self._drop(call)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        self._loop.call_later(CLOSE_SECONDS, self._transport.abort)
