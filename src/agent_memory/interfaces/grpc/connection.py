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
from functools import partial
from typing import Any, cast

import structlog
from jh2.errors import ErrorCodes
from jh2.events import (
    ConnectionTerminated,
    DataReceived,
    PingAckReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from jh2.exceptions import ProtocolError
from jh2.hyperframe.frame import GoAwayFrame

from agent_memory.interfaces.grpc.admission import CallOrigin
from agent_memory.interfaces.grpc.calls import (
    CONTENT_TYPE,
    CallHead,
    Headers,
    Malformed,
    Method,
    Methods,
    NotGrpc,
    StreamMethod,
    UnaryMethod,
    read_headers,
)
from agent_memory.interfaces.grpc.frames import (
    CONTROL_FRAMES_PER_ANSWER,
    CONTROL_FRAMES_PER_MESSAGE,
    FrameReader,
)
from agent_memory.interfaces.grpc.http2 import CONNECTION_WINDOW, MAX_STREAMS, STREAM_WINDOW, Http2
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

MAX_CONNECTIONS = 1024
MAX_CALLS = 4096  # at once, on all connections
MAX_STRANGERS = 1024  # of these calls: whose callers have shown no right to a place
MAX_HELD_BYTES = 256 << 20  # of requests that are not answered yet, on all connections
MAX_OPEN_BYTES = 16 << 10  # of the requests of a call of an open method
TURN_SECONDS = 0.002  # for the connections that have sent much, before others have their turn

HANDSHAKE_SECONDS = 20.0
REQUEST_SECONDS = 30.0  # for a request to be whole, if others are refused meanwhile
CHECK_SECONDS = 60.0  # between two looks at whether the client is there
SILENT_CHECKS = 2  # without a frame, not even the answer to a ping: then it is closed
STALLED_CHECKS = 5  # the same, of a client that reads nothing: it does not see the ping
IDLE_CHECKS = {False: 2, True: 30}  # without a call, by whether one has been admitted
DRAIN_SECONDS = 1.0  # for a client to confirm that it opens no more streams
CLOSE_SECONDS = 2.0  # for a client to read what was sent last, and to close

_LAST_STREAM = 2**31 - 1
_DRAINING, _ALIVE = b"draining", b"are you?"
_MESSAGE_BYTES = 128  # that a message takes in memory beside its content

_HEAD: Headers = [
    (b":status", b"200"),
    (b"content-type", CONTENT_TYPE),
    (b"grpc-accept-encoding", b",".join((IDENTITY, *ENCODINGS))),
]
_OK: Headers = [(b"grpc-status", b"0")]
_ONE_MESSAGE = StatusError(Status.UNIMPLEMENTED, "send exactly one message")
_GIVE_WAY = StatusError(
    Status.RESOURCE_EXHAUSTED, "another call needs the place: send a key, or try later"
)


@dataclass(slots=True)
class ServedCalls:
    """The methods of a server, and what all its connections share."""

    methods: Methods
    running: int = 0
    held: int = 0  # bytes of requests
    connections: "dict[Connection, None]" = field(default_factory=dict)  # the oldest first
    # Calls whose callers have shown no right to a place, the oldest first.
    strangers: "dict[_Call, Connection]" = field(default_factory=dict)
    _waiting: "deque[Connection]" = field(default_factory=deque)  # for their turn
    _takes_turns: bool = False

    def make_room(self) -> bool:
        """Close the oldest connection without an admitted call if there are too many. Return
        whether there is a place."""
        if len(self.connections) < MAX_CONNECTIONS:
            return True
        stranger = next((each for each in self.connections if not each.is_admitted), None)
        if stranger is not None:
            stranger.abort()
        return stranger is not None

    def end_stranger(self) -> bool:
        """End the oldest call without a right to its place. Return whether there was one."""
        call, connection = next(iter(self.strangers.items()), (None, None))
        if call is None or connection is None:
            return False
        del self.strangers[call]
        connection.fail(call, _GIVE_WAY)
        return True

    def expire_requests(self) -> None:
        """End the calls whose requests are not whole after a while: others need their places."""
        for connection in self.connections:
            connection.expire_requests()

    def wait_for_turn(self, connection: "Connection") -> None:
        """Let the connection go on after others: it has sent more than is read at once."""
        self._waiting.append(connection)
        if not self._takes_turns:
            self._takes_turns = True
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _take_turns(self) -> None:
        until = time.monotonic() + TURN_SECONDS
        while self._waiting:
            self._waiting.popleft().go_on()
            if time.monotonic() > until:
                break
        self._takes_turns = bool(self._waiting)
        if self._takes_turns:
            asyncio.get_running_loop().call_soon(self._take_turns)


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
        self.task: asyncio.Task[None] | None = None  # from the first moment on
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
        self._check: asyncio.TimerHandle | None = None
        self._uncredited = 0  # bytes received on all streams
        self._writers: set[asyncio.Future[None]] = set()  # that wait for room
        self._is_paused = False  # while the client does not read
        self._is_waiting = False  # for its turn
        self._is_reading = True
        self._will_flush = False
        self._has_settings = False
        self._asks_to_drain = False
        self._is_draining = False
        self._is_closing = False
        self._frames = FrameReader()
        # As they were at the last check, and how many checks ago they changed.
        self._frame_count = self._silent_checks = 0
        self._last_stream = self._idle_checks = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            RequestReceived: self._begin_call,
            TrailersReceived: self._check_trailers,
            DataReceived: self._receive_body,
            StreamEnded: self._end_input,
            StreamReset: self._abandon_call,
            WindowUpdated: self._resume_writers,
            RemoteSettingsChanged: self._accept_settings,
            PingAckReceived: self._confirm_drain,
            ConnectionTerminated: self._end_streams,
        }

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._origin = CallOrigin.of_transport(transport)
        if not self._origin.uses_socket and not self._shared.make_room():
            self._transport.abort()
            return
        self._shared.connections[self] = None
        self._check = self._loop.call_later(HANDSHAKE_SECONDS, self._check_client)
        self._http2.initiate_connection()
        self._http2.increment_flow_control_window(CONNECTION_WINDOW)
        self._flush()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._shared.connections.pop(self, None)
        self.closed.set_result(None)
        if self._check is not None:
            self._check.cancel()
        for call in list(self._calls.values()):
            self._drop(call)
        self._resume_writers()

    def data_received(self, data: bytes) -> None:
        if not self._is_closing:  # then, reading on lets the client have what was sent last
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        try:
            frames, has_more = self._frames.read(data)
            for event in self._http2.receive_data(frames):
                if (handle := self._handlers.get(type(event))) is not None:
                    handle(event)
                if self._is_closing:
                    return
        except ProtocolError as exc:
            log.debug("grpc.protocol_error", error=str(exc))
            self._close(exc.error_code)
        except Exception:
            # Whatever a client sends, only its own connection may end.
            log.warning("grpc.connection_failed", exc_info=True)
            self._transport.abort()
        else:
            self._flush()
            if has_more and not self._is_waiting:
                self._is_waiting = True
                self._shared.wait_for_turn(self)
            self._control_reading()

    def pause_writing(self) -> None:
        self._is_paused = True
        # Every ping asks for an answer: do not read what a client sends that reads none.
        self._control_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._control_reading()
        self._resume_writers()

    # What the server calls.

    @property
    def is_admitted(self) -> bool:
        return self._origin.is_admitted

    def go_on(self) -> None:
        """Read what is left of what the client has sent: it is this connection's turn."""
        self._is_waiting = False
        if not self._is_closing and not self._transport.is_closing():
            self._receive(b"")

    def abort(self) -> None:
        self._transport.abort()

    def drain(self) -> None:
        """Finish the calls that the client has begun, and then close.

        Its answer to the ping comes after all streams that it opened before it learned of this.
        """
        if self._is_closing or self._transport.is_closing():
            return
        if not self._has_settings:
            self._close()
            return
        self._asks_to_drain = True
        self._flush()
        goaway = GoAwayFrame(0, last_stream_id=_LAST_STREAM)
        self._transport.write(goaway.serialize())
        self._http2.ping(_DRAINING)
        self._flush()
        self._loop.call_later(DRAIN_SECONDS, self._end_streams)

    async def cut(self) -> None:
        """End the calls that are left, and close."""
        for call in list(self._calls.values()):
            self.fail(call, StatusError(Status.UNAVAILABLE, "the daemon is stopping"))
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
        self._close()
        await asyncio.wait([self.closed], timeout=DRAIN_SECONDS)
        self._transport.abort()

    def expire_requests(self) -> None:
        oldest = time.monotonic() - REQUEST_SECONDS
        for call in list(self._calls.values()):
            is_whole = call.input_ended or isinstance(call.method, StreamMethod)
            if not is_whole and call.began < oldest:
                self.fail(call, StatusError(Status.DEADLINE_EXCEEDED, "the request is not whole"))

    def fail(self, call: _Call, failure: StatusError) -> None:
        """End a call with a status, also if its method is at work."""
        call.failure = failure
        if call.task is not None:
            call.task.cancel()

    # What the client sends.

    def _begin_call(self, event: Any) -> None:
        stream_id: int = event.stream_id
        if len(self._calls) >= MAX_STREAMS:
            self._reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        try:
            head = CallHead.parse(event.headers, self._origin)
            method = self._shared.methods.get(head.path)
            if method is None:
                raise StatusError(
                    Status.UNIMPLEMENTED, f"there is no method {head.path.decode('latin-1')}"
                )
            timeout = head.read_timeout()
            call = _Call(stream_id, head, method)
            self._take_place(call)
        except Malformed:
            self._reset(stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        except NotGrpc as exc:
            self._send_end(stream_id, [(b":status", b"%d" % exc.status)])
            return
        except StatusError as exc:
            self._send_end(stream_id, [*_HEAD, *exc.to_headers()])
            return
        self._calls[stream_id] = call
        if timeout is not None:
            call.deadline = self._loop.call_later(timeout, self._expire, call)
        call.task = self._loop.create_task(self._run(call))
        # A task that is cancelled before its first step does not run at all.
        call.task.add_done_callback(lambda _: self._end(call, call.failure))

    def _take_place(self, call: _Call) -> None:
        """Raise StatusError if all places are in use and nobody gives way."""
        shared, origin = self._shared, self._origin
        if shared.running >= MAX_CALLS and not origin.uses_socket:
            shared.expire_requests()
            if not shared.end_stranger():
                raise StatusError(
                    Status.RESOURCE_EXHAUSTED, f"more than {MAX_CALLS:,} calls at once: try later"
                )
        if call.method.is_open or not origin.is_admitted:
            if len(shared.strangers) >= MAX_STRANGERS:
                shared.end_stranger()
            shared.strangers[call] = self
        shared.running += 1

    def _check_trailers(self, event: Any) -> None:
        try:
            read_headers(event.headers, required=frozenset())
        except Malformed:
            self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR)

    def _reset(self, stream_id: int, error: ErrorCodes) -> None:
        """Reset a stream that breaks the rules. Raises ProtocolError if there are too many."""
        self._frames.charge()
        if (call := self._calls.get(stream_id)) is not None:
            self._drop(call)
        with contextlib.suppress(ProtocolError):  # the client has reset it
            self._http2.reset_stream(stream_id, error)

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
        try:
            self._hold(call, length)
            arrived = call.reader.feed(event.data)
            if arrived:
                call.messages += arrived
                self._hold(call, _MESSAGE_BYTES * len(arrived))
                self._frames.allow(CONTROL_FRAMES_PER_MESSAGE * len(arrived))
            if len(call.messages) > 1 and isinstance(call.method, UnaryMethod):
                raise _ONE_MESSAGE
        except StatusError as exc:
            self.fail(call, exc)
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
            self.fail(call, StatusError(Status.INTERNAL, "the last message is not whole"))

    def _abandon_call(self, event: Any) -> None:
        if (call := self._calls.get(event.stream_id)) is not None:
            self._drop(call)

    def _accept_settings(self, _event: Any) -> None:
        self._has_settings = True
        self._resume_writers()  # they may have larger windows

    def _confirm_drain(self, event: Any) -> None:
        if self._asks_to_drain and event.ping_data == _DRAINING:
            self._end_streams()

    def _end_streams(self, _event: Any = None) -> None:
        """Close once the calls are answered: the client opens no more."""
        self._is_draining = True
        self._close_if_drained()

    # Answering.

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
        answer = await method.answer(partial(self._read_request, call), call.head)
        await self._send_message(call, answer)

    async def _answer_stream(self, call: _Call, method: StreamMethod) -> None:
        answers = method.answer(self._iterate_messages(call), call.head)
        async with contextlib.aclosing(cast("Any", answers)):
            async for answer in answers:
                await self._send_message(call, answer)

    async def _read_request(self, call: _Call) -> bytes:
        """Return the request of a unary call. Raises StatusError."""
        self._admit(call)
        while not call.input_ended:
            await self._wait_for_input(call)
        if not call.messages:
            raise _ONE_MESSAGE
        return self._decode(call, call.messages[0])

    def _admit(self, call: _Call) -> None:
        """Let a call have its place: its method wants the request."""
        if not call.method.is_open:
            self._origin.is_admitted = True
            self._shared.strangers.pop(call, None)

    async def _wait_for_input(self, call: _Call) -> None:
        call.arrived = self._loop.create_future()
        await call.arrived

    async def _iterate_messages(self, call: _Call) -> AsyncIterator[bytes]:
        self._admit(call)
        while True:
            while call.messages:
                message = call.messages.popleft()
                before = call.held
                content = self._decode(call, message)
                size = PREFIX_BYTES + len(message.content) + _MESSAGE_BYTES + call.held - before
                self._extend_window(call)
                yield content
                self._release(call, size)
            if call.input_ended:
                return
            await self._wait_for_input(call)

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
            self._frames.allow(CONTROL_FRAMES_PER_ANSWER)
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
        self._shared.strangers.pop(call, None)
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

    def _drop(self, call: _Call) -> None:
        """End a call whose client has left."""
        call.is_gone = True
        if call.task is not None:
            call.task.cancel()

    def _expire(self, call: _Call) -> None:
        self.fail(call, StatusError(Status.DEADLINE_EXCEEDED, "the deadline has passed"))

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
        if call.method.is_open and call.held > MAX_OPEN_BYTES:
            raise StatusError(
                Status.RESOURCE_EXHAUSTED, f"this method reads at most {MAX_OPEN_BYTES:,} bytes"
            )
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

    def _check_client(self) -> None:
        """Close if the client has vanished, or has no use for the connection."""
        if not self._has_settings or self._frames.has_late_block():
            self._transport.abort()
            return
        if self._origin.uses_socket:
            return  # a program that ends closes it, and its owner may stop one for a while
        self._check = self._loop.call_later(CHECK_SECONDS, self._check_client)
        count, last = self._frames.count, self._http2.highest_inbound_stream_id
        self._silent_checks = self._silent_checks + 1 if count == self._frame_count else 0
        is_idle = not self._calls and last == self._last_stream
        self._idle_checks = self._idle_checks + 1 if is_idle else 0
        self._frame_count, self._last_stream = count, last
        if self._silent_checks >= (STALLED_CHECKS if self._is_paused else SILENT_CHECKS):
            self._transport.abort()
        elif self._idle_checks >= IDLE_CHECKS[self._origin.is_admitted]:
            self.drain()
        elif self._silent_checks and not self._is_closing:
            self._http2.ping(_ALIVE)
            self._flush()

    def _control_reading(self) -> None:
        reads = not self._is_paused and not self._is_waiting
        if reads is not self._is_reading and not self._transport.is_closing():
            self._is_reading = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

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
        self._is_waiting = False
        self._control_reading()
        for call in list(self._calls.values()):
            self._drop(call)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        self._loop.call_later(CLOSE_SECONDS, self._transport.abort)
