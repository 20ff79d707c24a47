"""The gRPC server, with real gRPC clients and with clients that break the rules."""

import asyncio
import contextlib
import gzip
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from jh2.errors import ErrorCodes
from jh2.events import ConnectionTerminated, StreamReset
from jh2.hyperframe.frame import GoAwayFrame

from agent_memory.interfaces.grpc import connection, frames, messages
from agent_memory.interfaces.grpc.calls import CallHead, Method, StreamMethod
from agent_memory.interfaces.grpc.statuses import Status, StatusError
from tests.command_runner import wait_until
from tests.grpc_harness import SECONDS, SERVICE, BareClient, RunningServer, serving
from tests.grpc_harness import unary as unary_method

ECHO_LIMIT = messages.MAX_MESSAGE_BYTES
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


class Methods:
    """What the server of a test serves, and what has happened there."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[str] = SimpleQueue()
        self.ended: SimpleQueue[str] = SimpleQueue()
        self.steps: SimpleQueue[bytes] = SimpleQueue()
        self.produced = 0
        self.may_go_on = threading.Event()
        self.by_name: dict[str, Method] = {
            "Echo": unary_method(self.echo),
            "Fail": unary_method(self.fail),
            "Crash": unary_method(self.crash),
            "Wait": unary_method(self.wait),
            "Grow": unary_method(self.grow),
            "Each": StreamMethod(self.answer_each),
            "Pour": StreamMethod(self.pour),
            "Ignore": StreamMethod(self.ignore),
            "Step": StreamMethod(self.step),
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

    async def step(self, requests: AsyncIterator[bytes], _head: CallHead) -> AsyncIterator[bytes]:
        async for request in requests:
            self.begun.put("step")
            yield await asyncio.to_thread(self.steps.get, timeout=SECONDS) + request[:1]


@pytest.fixture
def methods() -> Iterator[Methods]:
    created = Methods()
    yield created
    created.may_go_on.set()


@pytest.fixture
def server(methods: Methods) -> Iterator[RunningServer]:
    with serving(methods.by_name) as running:
        yield running
        methods.may_go_on.set()


@pytest.fixture
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.target, options=OPTIONS) as created:
        yield created


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

    def test_a_message_that_unpacks_to_more_than_the_limit_is_refused(
        self, channel: grpc.Channel
    ) -> None:
        error = refused(
            unary(channel, "Echo"), bytes(ECHO_LIMIT + 1), compression=grpc.Compression.Gzip
        )
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    def test_an_answer_over_the_limit_is_refused(self, channel: grpc.Channel) -> None:
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

    def test_a_stream_that_ends_inside_a_message_fails(self, bare: BareClient) -> None:
        stream_id = bare.begin("Each")
        bare.send(stream_id, messages.add_prefix(b"whole") + b"\0\0\0", end=True)
        assert bare.read_headers(stream_id)["grpc-status"] == str(int(Status.INTERNAL))

    def test_compressed_messages_of_a_stream_are_read(self, channel: grpc.Channel) -> None:
        parts = [bytes([number]) * 100_000 for number in range(20)]
        answers = stream(channel, "Each")(
            iter(parts), compression=grpc.Compression.Gzip, timeout=SECONDS
        )
        assert list(answers) == parts

    def test_what_arrives_meanwhile_is_not_counted_as_read(
        self, bare: BareClient, server: RunningServer, methods: Methods
    ) -> None:
        beside = messages.PREFIX_BYTES + connection._MESSAGE_BYTES  # noqa: SLF001
        stream_id = bare.begin("Step")
        bare.send(stream_id, messages.add_prefix(b"a" * 10_000))
        methods.begun.get(timeout=SECONDS)
        bare.send(stream_id, messages.add_prefix(b"b" * 12_000), end=True)
        bare.read_headers(bare.begin("Nothing"))  # the server has both
        assert server.calls.held == 22_000 + 2 * beside
        methods.steps.put(b"1")
        methods.begun.get(timeout=SECONDS)
        assert server.calls.held == 12_000 + beside
        methods.steps.put(b"2")
        assert bare.read_headers(stream_id)["grpc-status"] == "0"

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
            ({"content-type": "application/grpc-web"}, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
            ({"content-type": "application/grpc+json"}, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
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
            (b"\0\0\0\0", Status.INTERNAL),
            (messages.add_prefix(b"a")[:-1], Status.INTERNAL),
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

    @pytest.mark.parametrize("body", [b"not gzip", gzip.compress(b"cut off", mtime=0)[:-6]])
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

    @pytest.mark.parametrize("kind", ["application/grpc+proto", "application/grpc;charset=utf-8"])
    def test_content_types_of_grpc_are_accepted(self, bare: BareClient, kind: str) -> None:
        stream_id = bare.begin("Echo", {"content-type": kind})
        bare.send(stream_id, messages.add_prefix(b"a"), end=True)
        assert bare.read_headers(stream_id)["grpc-status"] == "0"

    @pytest.mark.parametrize("timeout", [None, "0n", "100u"])
    def test_a_call_that_ends_before_it_begins_leaves_nothing(
        self, bare: BareClient, server: RunningServer, timeout: str | None
    ) -> None:
        for method in ("Wait", "Each"):
            headers = {} if timeout is None else {"grpc-timeout": timeout}
            stream_id = bare.add(method, messages.add_prefix(b"a"), headers)
            if timeout is None:
                bare.http2.reset_stream(stream_id, ErrorCodes.CANCEL)
        bare.flush()
        wait_until(lambda: server.calls.running == 0, "all calls have ended")
        assert server.calls.held == 0

    def test_a_refused_call_that_is_reset_at_once_leaves_the_others_alone(
        self, bare: BareClient, methods: Methods
    ) -> None:
        waiting = bare.begin("Wait")
        bare.send(waiting, messages.add_prefix(b"kept"), end=True)
        methods.begun.get(timeout=SECONDS)
        bare.http2.reset_stream(bare.add("Nothing", b""), ErrorCodes.CANCEL)
        bare.flush()
        methods.may_go_on.set()
        assert bare.read_headers(waiting)["grpc-status"] == "0"

    def test_a_ping_for_every_answer_is_no_flood(
        self, bare: BareClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(frames, "MAX_CONTROL_FRAMES", 20)
        monkeypatch.setattr(frames, "CONTROL_FRAMES_PER_SECOND", 0)
        for _ in range(100):
            stream_id = bare.begin("Echo")
            bare.send(stream_id, messages.add_prefix(b"a"), end=True)
            assert bare.read_headers(stream_id)["grpc-status"] == "0"
            bare.http2.ping(b"measure.")
            bare.flush()

    def test_a_client_without_settings_has_the_windows_of_the_protocol(
        self, server: RunningServer
    ) -> None:
        with BareClient(server.server.port, settings=False) as client:
            client.http2.increment_flow_control_window(1 << 30)
            stream_id = client.begin("Grow")
            client.send(stream_id, messages.add_prefix(b"1000000"), end=True)
            received = 0
            while received < 65_535:
                assert client.receive()
                received = client.count_data(stream_id)
            other = client.begin("Nothing")
            client.read_headers(other)  # whatever was to come before has come
            assert client.count_data(stream_id) == 65_535

    def test_a_goodbye_of_the_client_leaves_its_calls_their_answers(
        self, bare: BareClient, methods: Methods
    ) -> None:
        stream_id = bare.begin("Wait")
        bare.send(stream_id, messages.add_prefix(b"kept"), end=True)
        methods.begun.get(timeout=SECONDS)
        bare.socket.sendall(GoAwayFrame(0).serialize())
        methods.may_go_on.set()
        assert bare.read_headers(stream_id)["grpc-status"] == "0"
        bare.wait_for_end()

    def test_compressed_messages_wait_compressed(
        self, bare: BareClient, server: RunningServer, methods: Methods
    ) -> None:
        bomb = b"\1" + messages.add_prefix(gzip.compress(bytes(8 << 20)))[1:]
        stream_id = bare.begin("Ignore", {"grpc-encoding": "gzip"})
        methods.begun.get(timeout=SECONDS)
        bare.send(stream_id, bomb[:10_000])
        bare.send(stream_id, bomb[10_000:] + bomb)
        bare.read_headers(bare.begin("Nothing"))
        assert server.calls.held == 2 * (len(bomb) + connection._MESSAGE_BYTES)  # noqa: SLF001

    def test_unpacked_messages_count(
        self, bare: BareClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "MAX_HELD_BYTES", 1 << 20)
        bomb = b"\1" + messages.add_prefix(gzip.compress(bytes(2 << 20)))[1:]
        stream_id = bare.begin("Echo", {"grpc-encoding": "gzip"})
        bare.send(stream_id, bomb, end=True)
        assert bare.read_headers(stream_id)["grpc-status"] == str(int(Status.RESOURCE_EXHAUSTED))

    def test_requests_that_are_never_whole_give_way(
        self, bare: BareClient, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "MAX_CALLS", 3)
        for _ in range(3):
            bare.begin("Echo")
        bare.read_headers(bare.begin("Nothing"))
        error = refused(unary(channel, "Echo"), b"")
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        monkeypatch.setattr(connection, "REQUEST_SECONDS", 0)
        refused(unary(channel, "Echo"), b"")
        assert unary(channel, "Echo")(b"served", timeout=SECONDS) == b"served"

    def test_the_owners_socket_is_served_beyond_the_limits(
        self, methods: Methods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "MAX_CALLS", 0)
        with (
            serving(methods.by_name, path=tmp_path / "grpc.sock"),
            grpc.insecure_channel(f"unix:{tmp_path}/grpc.sock", options=OPTIONS) as channel,
        ):
            assert unary(channel, "Echo")(b"mine", timeout=SECONDS) == b"mine"

    def test_a_frame_over_the_limit_is_refused_before_it_is_whole(self, bare: BareClient) -> None:
        bare.socket.sendall(b"\xff\xff\xff\0\0\0\0\0\1")
        with contextlib.suppress(ConnectionError):
            for _ in range(8):
                bare.socket.sendall(bytes(64 << 10))
        assert bare.wait_for_end() is not None

    def test_unknown_settings_are_not_kept(self, bare: BareClient, server: RunningServer) -> None:
        for start in range(100, 60_000, 2_000):
            body = b"".join(struct.pack(">HI", code, 1) for code in range(start, start + 2_000))
            bare.socket.sendall(struct.pack(">I", len(body))[1:] + b"\4\0\0\0\0\0" + body)
        bare.read_headers(bare.begin("Nothing"))
        (served,) = server.calls.connections
        assert len(served._http2.remote_settings) < 20  # noqa: SLF001

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

    def test_a_flood_of_cancelled_calls_ends_the_connection(
        self, bare: BareClient, server: RunningServer
    ) -> None:
        try:
            for _ in range(10 * frames.MAX_CONTROL_FRAMES):
                bare.http2.reset_stream(bare.begin("Wait"), ErrorCodes.CANCEL)
                bare.flush()
        except ConnectionError:
            pass
        farewell = bare.wait_for_end()
        assert farewell is not None
        assert farewell.error_code == ErrorCodes.ENHANCE_YOUR_CALM
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

    def test_a_slow_reader_gets_the_rest_of_its_answer(
        self, server: RunningServer, bare: BareClient
    ) -> None:
        bare.http2.increment_flow_control_window(4 << 20)
        stream_id = bare.begin("Grow")
        bare.http2.increment_flow_control_window(4 << 20, stream_id)
        bare.send(stream_id, messages.add_prefix(b"3000000"), end=True)
        bare.receive()
        stopping = asyncio.run_coroutine_threadsafe(server.server.stop(SECONDS), server.loop)
        wait_until(lambda: not _accepts(server.server.port), "it accepts no more")
        while bare.receive():
            bare.http2.ping(b"12345678")  # it sends, too, to the end
            with contextlib.suppress(ConnectionError):
                bare.flush()
        assert bare.count_data(stream_id) == 3_000_000 + messages.PREFIX_BYTES
        bare.socket.close()
        stopping.result(SECONDS)

    def test_a_connection_that_is_closing_does_not_hold_it_up(
        self, server: RunningServer, bare: BareClient, channel: grpc.Channel
    ) -> None:
        assert unary(channel, "Echo")(b"", timeout=SECONDS) == b""
        bare.socket.sendall(b"\0\0\0\0\0\0\0\0\0")  # DATA on no stream
        bare.wait_for(ConnectionTerminated)
        server.run(server.server.stop(SECONDS))

    def test_an_idle_client_does_not_hold_it_up(
        self, server: RunningServer, channel: grpc.Channel
    ) -> None:
        assert unary(channel, "Echo")(b"", timeout=SECONDS) == b""
        server.run(server.server.stop(1e6))

    def test_a_client_that_does_not_answer_does_not_hold_it_up(
        self, server: RunningServer, bare: BareClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "DRAIN_SECONDS", 0.05)
        monkeypatch.setattr(connection, "CLOSE_SECONDS", 0.05)
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
