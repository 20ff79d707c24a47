"""Clients without a key that flood, hold places, break the rules of HTTP/2, or vanish."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from jh2.errors import ErrorCodes
from jh2.events import ConnectionTerminated, PingReceived
from jh2.settings import SettingCodes

from agent_memory.interfaces.grpc import connection, frames
from agent_memory.interfaces.grpc.calls import CallHead
from agent_memory.interfaces.grpc.connection import Connection
from agent_memory.interfaces.grpc.http2 import MAX_STREAMS
from agent_memory.interfaces.grpc.messages import add_prefix
from agent_memory.interfaces.grpc.statuses import Status
from tests.command_runner import wait_until
from tests.grpc_floods import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOODS,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    RawClient,
    encode_call,
    encode_frame,
    encode_headers,
)
from tests.grpc_harness import SECONDS, BareClient, RunningServer, serving, unary
from tests.unit.interfaces.test_grpc_server import Methods

CALL = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/test.Service/Echo",
    "content-type": "application/grpc",
}
HEALTH = "/grpc.health.v1.Health/"
POST = b"\x83\x86\x84"  # a POST to /, by the numbers that these headers have in the protocol


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
def bare(server: RunningServer) -> Iterator[BareClient]:
    with BareClient(server.server.port) as client:
        yield client


def echo(client: BareClient, path: str = "/test.Service/Echo") -> str:
    """Call a method, and return the status."""
    stream_id = client.begin("", {":path": path})
    client.send(stream_id, add_prefix(b""), end=True)
    return client.read_headers(stream_id)["grpc-status"]


def find_connection(server: RunningServer) -> Connection:
    """Return the newest connection of the server."""
    return next(reversed(server.calls.connections))


class TestFloods:
    @pytest.mark.parametrize("name", FLOODS)
    def test_frames_that_carry_no_call_end_their_connection_alone(
        self, server: RunningServer, bare: BareClient, name: str
    ) -> None:
        assert echo(bare) == "0"
        opening, frame = FLOODS[name]
        with RawClient(server.server.port) as flooding:
            wait_until(lambda: len(server.calls.connections) == 2, "it is connected")
            flooded = find_connection(server)
            with contextlib.suppress(ConnectionError):
                flooding.socket.sendall(opening)
                for _ in range(40):
                    flooding.socket.sendall(frame * 1_000)
            assert flooding.read_farewell() == ErrorCodes.ENHANCE_YOUR_CALM
        # Some more are allowed for each second that passes.
        assert flooded._frames.count < 4 * frames.MAX_CONTROL_FRAMES  # noqa: SLF001
        assert echo(bare) == "0"

    def test_others_have_their_turn_while_a_connection_sends_much(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "TURN_SECONDS", 0)
        seen: list[int] = []
        flooded: list[Connection] = []

        async def look(message: bytes, _head: CallHead) -> bytes:
            seen.append(flooded[0]._frames.count)  # noqa: SLF001
            return message

        is_held, may_go_on = threading.Event(), threading.Event()

        def hold() -> None:
            is_held.set()
            may_go_on.wait(SECONDS)

        with (
            serving({"Look": unary(look)}) as server,
            RawClient(server.server.port) as good,
            RawClient(server.server.port) as flooding,
        ):
            wait_until(lambda: len(server.calls.connections) == 2, "it is connected")
            flooded.append(find_connection(server))
            server.loop.call_soon_threadsafe(hold)
            assert is_held.wait(SECONDS)
            flooding.socket.sendall(
                b"".join(
                    encode_frame(HEADERS, stream, POST, END_STREAM | END_HEADERS)
                    for stream in range(1, 6_000, 2)
                )
            )
            request = encode_frame(DATA, 1, add_prefix(b"look"), END_STREAM)
            good.socket.sendall(encode_call(1, "/test.Service/Look") + request)
            may_go_on.set()
            assert good.read_until(DATA, 1).body == add_prefix(b"look")
            wait_until(
                lambda: flooded[0]._frames.count > 3_000,  # noqa: SLF001
                "it is served to its end",
            )
        assert seen[0] <= 4 * frames.FRAMES_AT_ONCE

    def test_tiny_messages_take_their_place_in_memory(
        self, bare: BareClient, server: RunningServer, methods: Methods
    ) -> None:
        stream_id = bare.begin("Ignore")
        methods.begun.get(timeout=SECONDS)
        bare.send(stream_id, add_prefix(b"") * 3_000)
        bare.read_headers(bare.begin("Nothing"))
        assert server.calls.held > 3_000 * 100


class TestHeaders:
    @pytest.mark.parametrize("parts", [[b"x" * 70_000], [b"x" * 40_000] * 2, [b""] * 17])
    def test_a_block_of_headers_has_a_limit(
        self, server: RunningServer, parts: list[bytes]
    ) -> None:
        block = b"".join(encode_frame(CONTINUATION, 1, part) for part in parts[1:])
        with RawClient(server.server.port) as raw:
            raw.socket.sendall(encode_frame(HEADERS, 1, parts[0]) + block)
            assert raw.read_farewell() == ErrorCodes.ENHANCE_YOUR_CALM

    def test_a_block_of_headers_that_is_never_whole_ends_its_connection(
        self, methods: Methods, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.05)
        monkeypatch.setattr(connection, "CHECK_SECONDS", 0.05)
        monkeypatch.setattr(connection, "SILENT_CHECKS", 10**6)
        monkeypatch.setattr(connection, "IDLE_CHECKS", {False: 10**6})
        monkeypatch.setattr(frames, "BLOCK_SECONDS", 0.05)
        with serving(methods.by_name) as server, RawClient(server.server.port) as raw:
            raw.socket.sendall(encode_call(1, flags=0))
            raw.read_farewell()

    @pytest.mark.parametrize(
        "changes",
        [
            {"x": "a\rb"},
            {"x": "a\nb"},
            {"x": "a\0b"},
            {"x": " a"},
            {"x": "a\t"},
            {"x\ny": "a"},
            {"X": "a"},
            {"": "a"},
            {"x y": "a"},
            {":x": "a"},
            {":status": "200"},
            {":path": ""},
            {":scheme": None},
            {"connection": "close"},
            {"te": "gzip"},
        ],
    )
    def test_malformed_headers_end_their_stream_alone(
        self, server: RunningServer, changes: dict[str, str | None]
    ) -> None:
        fields = {name: value for name, value in (CALL | changes).items() if value is not None}
        block = encode_headers(dict(sorted(fields.items(), key=lambda field: field[0][:1] != ":")))
        expect_reset(server, block)

    @pytest.mark.parametrize(
        "block",
        [
            encode_headers(CALL) + encode_headers({":path": "/"}),
            encode_headers({":path": "/"}) + encode_headers(CALL),
            encode_headers({"x": "a"}) + encode_headers(CALL),
        ],
    )
    def test_pseudo_headers_come_first_and_once(self, server: RunningServer, block: bytes) -> None:
        expect_reset(server, block)

    def test_malformed_trailers_end_their_stream(self, server: RunningServer) -> None:
        with RawClient(server.server.port) as raw:
            raw.socket.sendall(
                encode_call(1, "/test.Service/Wait")
                + encode_frame(HEADERS, 1, encode_headers({":path": "/"}), END_STREAM | END_HEADERS)
            )
            assert raw.read_until(RST_STREAM, 1).body == encode_error(ErrorCodes.PROTOCOL_ERROR)

    def test_the_headers_that_we_send_fill_no_memory(
        self, server: RunningServer, bare: BareClient
    ) -> None:
        bare.http2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 2**32 - 1})
        assert echo(bare) == "0"
        assert find_connection(server)._http2.encoder.header_table_size == 4096  # noqa: SLF001


class TestPlaces:
    def test_one_call_too_many_is_refused_alone(
        self, server: RunningServer, methods: Methods
    ) -> None:
        request = encode_frame(DATA, 1, add_prefix(b"kept"), END_STREAM)
        with RawClient(server.server.port) as raw:
            raw.socket.sendall(encode_call(1, "/test.Service/Wait") + request)
            last = 2 * MAX_STREAMS + 1
            for stream in range(3, last + 1, 2):
                raw.socket.sendall(encode_call(stream, "/test.Service/Echo"))
            refusal = raw.read_until(RST_STREAM, last)
            assert refusal.body == encode_error(ErrorCodes.REFUSED_STREAM)
            methods.may_go_on.set()
            assert raw.read_until(DATA, 1).body == add_prefix(b"kept")

    def test_calls_without_a_right_to_their_place_give_way(
        self, server: RunningServer, bare: BareClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "MAX_STRANGERS", 3)
        with RawClient(server.server.port) as raw:
            for stream in range(1, 12, 2):
                raw.socket.sendall(encode_call(stream))
            raw.read_until(HEADERS, 5)  # three have given way: 1, 3 and 5
            assert len(server.calls.strangers) == 3
            monkeypatch.setattr(connection, "MAX_CALLS", 3)
            assert echo(bare) == "0"
            assert echo(bare, HEALTH + "Check") == "0"

    def test_admitted_calls_keep_their_places(
        self, server: RunningServer, bare: BareClient, methods: Methods,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        monkeypatch.setattr(connection, "MAX_STRANGERS", 1)
        monkeypatch.setattr(connection, "MAX_CALLS", 2)
        stream_id = bare.begin("Wait")
        bare.send(stream_id, add_prefix(b""), end=True)
        methods.begun.get(timeout=SECONDS)
        with RawClient(server.server.port) as raw:
            for stream in range(1, 20, 2):
                raw.socket.sendall(encode_call(stream))
            raw.read_until(HEADERS, 17)
        methods.may_go_on.set()
        assert bare.read_headers(stream_id)["grpc-status"] == "0"

    @pytest.mark.parametrize("method", ["Check", "Watch"])
    def test_open_methods_read_little(self, bare: BareClient, method: str) -> None:
        stream_id = bare.begin("", {":path": HEALTH + method})
        request = add_prefix(bytes(connection.MAX_OPEN_BYTES))
        bare.send(stream_id, request[:100])
        bare.send(stream_id, request[100:])
        status = bare.read_headers(stream_id)["grpc-status"]
        assert status == str(int(Status.RESOURCE_EXHAUSTED))

    def test_the_oldest_connection_without_an_admitted_call_gives_way(
        self, server: RunningServer, bare: BareClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "MAX_CONNECTIONS", 3)
        assert echo(bare) == "0"
        with RawClient(server.server.port) as first, RawClient(server.server.port) as second:
            second.read_until(SETTINGS)
            with BareClient(server.server.port) as third:
                assert first.read_farewell() is None
                assert echo(third) == "0"
            assert echo(bare) == "0"
            assert len(server.calls.connections) <= 3

    def test_beyond_the_limit_there_is_no_place_beside_admitted_callers(
        self, server: RunningServer, bare: BareClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "MAX_CONNECTIONS", 1)
        assert echo(bare) == "0"
        with RawClient(server.server.port) as raw:
            assert raw.read_farewell() is None
        assert echo(bare) == "0"


class TestClientsThatVanish:
    @pytest.fixture(autouse=True)
    def _check_often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.05)
        monkeypatch.setattr(connection, "CHECK_SECONDS", 0.05)

    def test_their_calls_end(self, methods: Methods) -> None:
        with serving(methods.by_name) as server, RawClient(server.server.port) as raw:
            raw.socket.sendall(encode_call(1, "/test.Service/Each"))
            raw.read_until(PING)  # it is asked, and does not answer
            raw.read_farewell()
            assert methods.ended.get(timeout=SECONDS) == "each"

    def test_a_client_that_does_not_read_is_not_kept_for_good(self, methods: Methods) -> None:
        with serving(methods.by_name) as server, RawClient(server.server.port) as raw:
            wide = encode_frame(SETTINGS, body=struct.pack(">HI", 4, 2**31 - 1))
            wide += encode_frame(WINDOW_UPDATE, body=struct.pack(">I", 2**30))
            raw.socket.sendall(wide + encode_call(1, "/test.Service/Pour"))
            raw.socket.sendall(encode_frame(DATA, 1, add_prefix(b"1000")))
            wait_until(lambda: methods.produced > 0, "it is answered")
            wait_until(lambda: not server.calls.connections, "it is closed")

    def test_a_client_that_answers_pings_stays(self, methods: Methods) -> None:
        with serving(methods.by_name) as server, BareClient(server.server.port) as bare:
            stream_id = bare.begin("Wait")
            bare.send(stream_id, add_prefix(b""), end=True)
            for _ in range(4 * connection.SILENT_CHECKS):
                bare.events.clear()
                bare.wait_for(PingReceived)
                bare.flush()
            methods.may_go_on.set()
            assert bare.read_headers(stream_id)["grpc-status"] == "0"

    @pytest.mark.parametrize("is_admitted", [False, True])
    def test_a_connection_without_calls_is_closed(
        self, methods: Methods, monkeypatch: pytest.MonkeyPatch, is_admitted: bool
    ) -> None:
        monkeypatch.setattr(connection, "IDLE_CHECKS", {is_admitted: 2, not is_admitted: 10**6})
        with serving(methods.by_name) as server, BareClient(server.server.port) as bare:
            if is_admitted:
                assert echo(bare) == "0"
            while bare.receive():
                with contextlib.suppress(ConnectionError):
                    bare.flush()  # it answers pings
            assert any(isinstance(each, ConnectionTerminated) for each in bare.events)

    def test_an_answer_to_no_ping_ends_nothing(self, methods: Methods) -> None:
        with serving(methods.by_name) as server, BareClient(server.server.port) as bare:
            bare.socket.sendall(encode_frame(PING, body=b"draining", flags=ACK))
            assert echo(bare) == "0"
            assert echo(bare) == "0"

    def test_the_kernel_looks_after_vanished_clients_too(self, server: RunningServer) -> None:
        with RawClient(server.server.port) as raw:
            raw.read_until(SETTINGS)
            (served,) = server.calls.connections
            ours = served._transport.get_extra_info("socket")  # noqa: SLF001
            assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def encode_error(code: ErrorCodes) -> bytes:
    return struct.pack(">I", code)


def expect_reset(server: RunningServer, block: bytes) -> None:
    """Send headers. Expect that they end their stream, and a call beside it is answered."""
    with RawClient(server.server.port) as raw:
        raw.socket.sendall(
            encode_frame(HEADERS, 1, block, END_HEADERS)
            + encode_call(3, "/test.Service/Echo")
            + encode_frame(DATA, 3, add_prefix(b"beside"), END_STREAM)
        )
        assert raw.read_until(RST_STREAM, 1).body == encode_error(ErrorCodes.PROTOCOL_ERROR)
        assert raw.read_until(DATA, 3).body == add_prefix(b"beside")
