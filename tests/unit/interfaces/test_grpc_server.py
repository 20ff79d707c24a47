"""The gRPC server, with real gRPC clients and with clients that break the rules."""

import asyncio
import gzip
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from jh2.errors import ErrorCodes
from jh2.events import StreamReset

from agent_memory.interfaces.grpc import connection, messages
from agent_memory.interfaces.grpc.calls import CallHead, Method, StreamMethod, UnaryMethod
from agent_memory.interfaces.grpc.statuses import Status, StatusError
from tests.command_runner import wait_until
from tests.grpc_harness import SECONDS, SERVICE, BareClient, RunningServer, serving

ECHO_LIMIT = messages.MAX_MESSAGE_BYTES
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


class Methods:
    """What the server of a test serves, and what has happened there."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[str] = SimpleQueue()
        self.ended: SimpleQueue[str] = SimpleQueue()
        self.produced = 0
        self.may_go_on = threading.Event()
        self.by_name: dict[str, Method] = {
            "Echo": UnaryMethod(self.echo),
            "Fail": UnaryMethod(self.fail),
            "Crash": UnaryMethod(self.crash),
            "Wait": UnaryMethod(self.wait),
            "Grow": UnaryMethod(self.grow),
            "Each": StreamMethod(self.answer_each),
            "Pour": StreamMethod(self.pour),
            "Ignore": StreamMethod(self.ignore),
        }

    async def echo(self, message: bytes, _head: CallHead) -> bytes:
        return message

    async def grow(self, message: bytes, _head: CallHead) -> bytes:
        return bytes(int(message))

    async def fail(self, message: bytes, _head: CallHead) -> bytes:
        raise StatusError(Status.FAILED_PRECONDITION, message.decode())

    async def crash(self, _message: bytes, _head: CallHead) -> bytes:
        raise ValueError("private words")

    async def wait(self, message: bytes, _head: CallHead) -> bytes:
        self.begun.put("wait")
        try:
            await asyncio.to_thread(self.may_go_on.wait, SECONDS)
        except asyncio.CancelledError:
            self.ended.put("cancelled")
            raise
        return message

    async def answer_each(
        self, requests: AsyncIterator[bytes], _head: CallHead
    ) -> AsyncIterator[bytes]:
        try:
            async for request in requests:
                yield request
        finally:
            self.ended.put("each")

    async def pour(self, requests: AsyncIterator[bytes], _head: CallHead) -> AsyncIterator[bytes]:
        async for request in requests:
            for _ in range(int(request)):
                self.produced += 1
                yield bytes(1 << 20)

    async def ignore(
        self, _requests: AsyncIterator[bytes], _head: CallHead
    ) -> AsyncIterator[bytes]:
        self.begun.put("ignore")
        await asyncio.to_thread(self.may_go_on.wait, SECONDS)
        yield b"done"


@pytest.fixture
def methods() -> Iterator[Methods]:
    made = Methods()
    yield made
    made.may_go_on.set()


@pytest.fixture
def server(methods: Methods) -> Iterator[RunningServer]:
    with serving(methods.by_name) as running:
        yield running
        methods.may_go_on.set()


@pytest.fixture
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.target, options=OPTIONS) as made:
        yield made


@pytest.fixture
def bare(server: RunningServer) -> Iterator[BareClient]:
    with BareClient(server.server.port) as client:
        yield client


def unary(channel: grpc.Channel, method: str) -> Any:
    return channel.unary_unary(f"/{SERVICE}/{method}", None, None)


def stream(channel: grpc.Channel, method: str) -> Any:
    return channel.stream_stream(f"/{SERVICE}/{method}", None, None)


def refused(call: Any, *arguments: Any, **options: Any) -> Any:
    with pytest.raises(grpc.RpcError) as failure:
        call(*arguments, timeout=options.pop("timeout", SECONDS), **options)
    return failure.value


class TestUnaryCalls:
    @pytest.mark.parametrize("size", [0, 1, 4, 16_384, 70_000, 1 << 20, ECHO_LIMIT])
    def test_messages_of_any_size_come_back(self, channel: grpc.Channel, size: int) -> None:
        message = bytes(range(256)) * (size // 256 + 1)
        assert unary(channel, "Echo")(message[:size], timeout=SECONDS) == message[:size]

    def test_hundreds_at_once_on_one_connection(self, channel: grpc.Channel) -> None:
        call = unary(channel, "Echo")
        pending = [call.future(b"%d" % n, timeout=SECONDS) for n in range(600)]
        assert [each.result() for each in pending] == [b"%d" % n for n in range(600)]

    @pytest.mark.parametrize("kind", [grpc.Compression.Gzip, grpc.Compression.Deflate])
    def test_compressed_messages_are_read(
        self, channel: grpc.Channel, kind: grpc.Compression
    ) -> None:
        message = b"compress me " * 10_000
        assert unary(channel, "Echo")(message, compression=kind, timeout=SECONDS) == message

    @pytest.mark.parametrize("details", ["plain", "100% naïve\nwords: 記憶", "%41", ""])
    def test_a_status_arrives_with_its_details(self, channel: grpc.Channel, details: str) -> None:
        error = refused(unary(channel, "Fail"), details.encode())
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert error.details() == details

    def test_long_details_are_cut_and_arrive(self, channel: grpc.Channel) -> None:
        error = refused(unary(channel, "Fail"), ("é" * 9_000).encode())
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert error.details() == "é" * 1300

    def test_an_unexpected_error_does_not_show_its_words(self, channel: grpc.Channel) -> None:
        error = refused(unary(channel, "Crash"), b"")
        assert error.code() is grpc.StatusCode.UNKNOWN
        assert "private" not in (error.details() or "")

    def test_an_unknown_method_is_named(self, channel: grpc.Channel) -> None:
        error = refused(unary(channel, "Nothing"), b"")
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        assert f"/{SERVICE}/Nothing" in (error.details() or "")

    def test_a_deadline_ends_the_call_and_its_work(
        self, channel: grpc.Channel, methods: Methods
    ) -> None:
        error = refused(unary(channel, "Wait"), b"", timeout=0.2)
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert methods.ended.get(timeout=SECONDS) == "cancelled"

    def test_a_cancelled_call_ends_its_work(self, channel: grpc.Channel, methods: Methods) -> None:
        call = unary(channel, "Wait").future(b"", timeout=SECONDS)
        methods.begun.get(timeout=SECONDS)
        call.cancel()
        assert methods.ended.get(timeout=SECONDS) == "cancelled"

    def test_a_lost_connection_ends_the_work_of_its_calls(
        self, bare: BareClient, methods: Methods
    ) -> None:
        bare.send(bare.begin("Wait"), messages.add_prefix(b""), end=True)
        methods.begun.get(timeout=SECONDS)
        bare.socket.close()
        assert methods.ended.get(timeout=SECONDS) == "cancelled"

    def test_a_message_over_the_limit_is_refused(self, channel: grpc.Channel) -> None:
        error = refused(unary(channel, "Echo"), bytes(ECHO_LIMIT + 1))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"{ECHO_LIMIT:,}" in (error.details() or "")

    def test_so_is_one_that_unpacks_to_more(self, channel: grpc.Channel) -> None:
        error = refused(
            unary(channel, "Echo"), bytes(ECHO_LIMIT + 1), compression=grpc.Compression.Gzip
        )
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    def test_and_an_answer(self, channel: grpc.Channel) -> None:
        error = refused(unary(channel, "Grow"), b"%d" % (ECHO_LIMIT + 1))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    def test_calls_over_the_limit_are_refused(
        self, channel: grpc.Channel, methods: Methods, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "MAX_CALLS", 1)
        first = unary(channel, "Wait").future(b"first", timeout=SECONDS)
        methods.begun.get(timeout=SECONDS)
        error = refused(unary(channel, "Echo"), b"")
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        methods.may_go_on.set()
        assert first.result() == b"first"
        assert unary(channel, "Echo")(b"again", timeout=SECONDS) == b"again"

    def test_requests_over_the_memory_limit_are_refused(
        self, channel: grpc.Channel, methods: Methods, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "MAX_HELD_BYTES", 1 << 20)
        first = unary(channel, "Wait").future(bytes(1 << 19), timeout=SECONDS)
        methods.begun.get(timeout=SECONDS)
        error = refused(unary(channel, "Echo"), bytes(1 << 20))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        methods.may_go_on.set()
        assert first.result() == bytes(1 << 19)
        assert unary(channel, "Echo")(bytes(1 << 19), timeout=SECONDS) == bytes(1 << 19)


class TestStreams:
    def test_requests_and_answers_alternate(self, channel: grpc.Channel) -> None:
        requests: SimpleQueue[bytes | None] = SimpleQueue()
        answers = stream(channel, "Each")(iter(requests.get, None), timeout=SECONDS)
        for number in range(50):
            requests.put(b"%d" % number)
            assert next(answers) == b"%d" % number
        requests.put(None)
        assert list(answers) == []

    def test_large_streams_arrive_whole(self, channel: grpc.Channel) -> None:
        parts = [bytes([number]) * 3_000_000 for number in range(12)]
        assert list(stream(channel, "Each")(iter(parts), timeout=SECONDS)) == parts

    def test_a_slow_reader_slows_the_method_down(
        self, channel: grpc.Channel, methods: Methods
    ) -> None:
        answers = stream(channel, "Pour")(iter([b"200"]), timeout=SECONDS)
        next(answers)
        assert unary(channel, "Echo")(b"meanwhile", timeout=SECONDS) == b"meanwhile"
        assert methods.produced < 100
        assert sum(1 for _ in answers) == 199

    def test_a_method_that_reads_nothing_slows_the_sender_down(
        self, channel: grpc.Channel, server: RunningServer, methods: Methods
    ) -> None:
        sent = 0

        def requests() -> Iterator[bytes]:
            nonlocal sent
            for _ in range(100):
                sent += 1
                yield bytes(1 << 20)

        answers = stream(channel, "Ignore")(requests(), timeout=SECONDS)
        methods.begun.get(timeout=SECONDS)
        assert unary(channel, "Echo")(b"meanwhile", timeout=SECONDS) == b"meanwhile"
        assert server.calls.held <= 4 << 20
        methods.may_go_on.set()
        assert list(answers) == [b"done"]
        assert sent < 100

    def test_a_cancelled_stream_closes_its_method(
        self, channel: grpc.Channel, methods: Methods
    ) -> None:
        requests: SimpleQueue[bytes | None] = SimpleQueue()
        answers = stream(channel, "Each")(iter(requests.get, None), timeout=SECONDS)
        requests.put(b"one")
        assert next(answers) == b"one"
        answers.cancel()
        assert methods.ended.get(timeout=SECONDS) == "each"
        requests.put(None)


class TestOtherClients:
    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({":method": "GET"}, HTTPStatus.METHOD_NOT_ALLOWED),
            ({"content-type": "application/json"}, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
        ],
    )
    def test_what_is_not_grpc_gets_a_status_of_http(
        self, bare: BareClient, headers: dict[str, str], status: HTTPStatus
    ) -> None:
        assert bare.read_headers(bare.begin("Echo", headers, end=True)) == {
            ":status": str(int(status))
        }

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"grpc-timeout": "soon"}, Status.INTERNAL),
            ({"grpc-timeout": "123456789S"}, Status.INTERNAL),
            ({"grpc-timeout": "0n"}, Status.DEADLINE_EXCEEDED),
            ({"grpc-encoding": "snappy"}, Status.UNIMPLEMENTED),
            ({":path": ""}, Status.UNIMPLEMENTED),
        ],
    )
    def test_bad_headers_are_refused(
        self, bare: BareClient, headers: dict[str, str], status: Status
    ) -> None:
        found = bare.read_headers(bare.begin("Echo", headers))
        assert found["grpc-status"] == str(int(status))

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            (b"", Status.UNIMPLEMENTED),
            (b"\0\0\0\0", Status.UNIMPLEMENTED),
            (messages.add_prefix(b"a")[:-1], Status.UNIMPLEMENTED),
            (messages.add_prefix(b"a") * 2, Status.UNIMPLEMENTED),
            (b"\1\0\0\0\3abc", Status.INTERNAL),  # compressed, it does not say how
        ],
    )
    def test_bodies_that_are_not_one_message_are_refused(
        self, bare: BareClient, body: bytes, status: Status
    ) -> None:
        stream_id = bare.begin("Echo")
        bare.send(stream_id, body, end=True)
        assert bare.read_headers(stream_id)["grpc-status"] == str(int(status))

    @pytest.mark.parametrize("body", [b"not gzip", gzip.compress(b"cut off")[:-6]])
    def test_a_damaged_compressed_message_is_refused(self, bare: BareClient, body: bytes) -> None:
        stream_id = bare.begin("Echo", {"grpc-encoding": "gzip"})
        bare.send(stream_id, b"\1" + messages.add_prefix(body)[1:], end=True)
        assert bare.read_headers(stream_id)["grpc-status"] == str(int(Status.INTERNAL))

    def test_a_message_may_come_byte_by_byte(self, bare: BareClient) -> None:
        stream_id = bare.begin("Echo")
        for byte in messages.add_prefix(b"slowly"):
            bare.send(stream_id, bytes([byte]))
        bare.http2.end_stream(stream_id)
        bare.flush()
        assert bare.read_headers(stream_id)["grpc-status"] == "0"

    def test_http_1_is_turned_away(self, server: RunningServer) -> None:
        with socket.create_connection(("127.0.0.1", server.server.port), SECONDS) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while client.recv(4096):
                pass

    def test_a_client_that_says_nothing_is_closed(
        self, methods: Methods, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.1)
        with (
            serving(methods.by_name) as server,
            socket.create_connection(("127.0.0.1", server.server.port), SECONDS) as client,
        ):
            while client.recv(4096):
                pass
            with BareClient(server.server.port) as later:  # who has, stays
                assert later.read_headers(later.begin("Nothing"))["grpc-status"] == "12"

    @pytest.mark.parametrize("kind", ["resets", "pings", "settings"])
    def test_floods_of_frames_without_calls_end_the_connection(
        self, bare: BareClient, server: RunningServer, kind: str
    ) -> None:
        try:
            for _ in range(10 * connection.MAX_CONTROL_FRAMES):
                if kind == "resets":
                    bare.http2.reset_stream(bare.begin("Wait"), ErrorCodes.CANCEL)
                elif kind == "pings":
                    bare.http2.ping(b"12345678")
                else:
                    bare.http2.update_settings({4: 70_000})
                bare.flush()
        except ConnectionError:
            pass
        farewell = bare.wait_for_end()
        assert farewell is None or farewell.error_code == ErrorCodes.ENHANCE_YOUR_CALM
        with BareClient(server.server.port) as other:
            assert other.read_headers(other.begin("Nothing"))["grpc-status"] == "12"

    def test_an_answered_client_that_goes_on_sending_is_stopped(self, bare: BareClient) -> None:
        stream_id = bare.begin("Nothing")
        assert bare.wait_for(StreamReset, stream_id).error_code == ErrorCodes.NO_ERROR


class TestStopping:
    def test_calls_under_way_are_answered(
        self, server: RunningServer, channel: grpc.Channel, methods: Methods
    ) -> None:
        call = unary(channel, "Wait").future(b"kept", timeout=SECONDS)
        methods.begun.get(timeout=SECONDS)
        stopping = asyncio.run_coroutine_threadsafe(server.server.stop(SECONDS), server.loop)
        wait_until(lambda: not _accepts(server.server.port), "it accepts no more")
        methods.may_go_on.set()
        assert call.result() == b"kept"
        stopping.result(SECONDS)

    def test_an_idle_client_does_not_hold_it_up(
        self, server: RunningServer, channel: grpc.Channel
    ) -> None:
        assert unary(channel, "Echo")(b"", timeout=SECONDS) == b""
        server.run(server.server.stop(1e6))

    def test_nor_one_that_does_not_answer(
        self, server: RunningServer, bare: BareClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "DRAIN_SECONDS", 0.05)
        bare.read_headers(bare.begin("Nothing"))
        server.run(server.server.stop(1e6))

    def test_after_the_grace_calls_are_unavailable(
        self, server: RunningServer, channel: grpc.Channel, methods: Methods
    ) -> None:
        call = unary(channel, "Wait").future(b"", timeout=SECONDS)
        methods.begun.get(timeout=SECONDS)
        server.run(server.server.stop(0.05))
        with pytest.raises(grpc.RpcError) as failure:
            call.result()
        error: Any = failure.value
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert methods.ended.get(timeout=SECONDS) == "cancelled"


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), SECONDS).close()
    except ConnectionError:
        return False
    return True
