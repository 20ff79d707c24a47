"""Whatever a client sends, only its own connection ends: the server goes on and keeps nothing."""

import socket
import struct
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_memory.interfaces.grpc.calls import CallHead, Method, StreamMethod
from agent_memory.interfaces.grpc.messages import add_prefix
from tests.command_runner import wait_until
from tests.grpc_floods import OPENING, PREFACE
from tests.grpc_harness import SECONDS, BareClient, RunningServer, serving, unary


def encode_headers(method: bytes) -> bytes:
    """Encode a call of a method, as literals without indexing."""
    headers = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/test.Service/" + method,
        b"content-type": b"application/grpc",
    }
    return b"".join(
        b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
        for name, value in headers.items()
    )


frames = st.builds(
    lambda kind, flags, stream, payload: (
        struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload
    ),
    st.integers(0, 12),
    st.sampled_from([0, 1, 4, 5, 8, 0x20, 0x24, 0xFF]),
    st.sampled_from([0, 1, 2, 3, 5, 7, 2**31 - 1]),
    st.one_of(
        st.just(encode_headers(b"Echo")),
        st.just(encode_headers(b"Each")),
        st.just(add_prefix(b"hello")),
        st.binary(max_size=64),
        st.just(bytes(8)),
        st.just(b"\0\0\0\0"),
        st.just(b"\0\4\xff\xff\xff\xff"),
    ),
)


async def echo(message: bytes, _head: CallHead) -> bytes:
    return message


async def answer_each(messages: AsyncIterator[bytes], _head: CallHead) -> AsyncIterator[bytes]:
    async for message in messages:
        yield message


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    methods: dict[str, Method] = {"Echo": unary(echo), "Each": StreamMethod(answer_each)}
    with serving(methods) as running:
        yield running


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.one_of(frames, st.binary(max_size=200)), max_size=12),
    st.sampled_from([OPENING, PREFACE, b""]),
)
def test_a_connection_with_any_frames(
    server: RunningServer, sent: list[bytes], opening: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.server.port), SECONDS) as client:
        try:
            client.sendall(opening + b"".join(sent))
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass
        except ConnectionError:
            pass
    with BareClient(server.server.port) as other:
        stream_id = other.begin("Echo")
        other.send(stream_id, add_prefix(b"still there"), end=True)
        assert other.read_headers(stream_id)["grpc-status"] == "0"
    assert server.errors == []
    wait_until(lambda: server.calls.running == 0, "every call has ended")
    assert server.calls.held == 0
