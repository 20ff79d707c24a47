"""Whatever a client sends, only its own connection ends: the server goes on and keeps nothing."""

import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_memory.interfaces.grpc.calls import CallHead, UnaryMethod
from agent_memory.interfaces.grpc.messages import add_prefix
from tests.grpc_harness import SECONDS, BareClient, RunningServer, serving

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
# `/test.Service/Echo` with POST and a content type, as literals without indexing.
HEADERS = b"".join(
    b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    for name, value in [
        (b":method", b"POST"),
        (b":path", b"/test.Service/Echo"),
        (b"content-type", b"application/grpc"),
    ]
)

frames = st.builds(
    lambda kind, flags, stream, payload: (
        struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload
    ),
    st.integers(0, 12),
    st.sampled_from([0, 1, 4, 5, 8, 0x20, 0x24, 0xFF]),
    st.sampled_from([0, 1, 2, 3, 5, 7, 2**31 - 1]),
    st.one_of(
        st.just(HEADERS),
        st.just(add_prefix(b"hello")),
        st.binary(max_size=64),
        st.just(bytes(8)),
        st.just(b"\0\0\0\0"),
        st.just(b"\0\4\xff\xff\xff\xff"),
    ),
)


async def echo(message: bytes, _head: CallHead) -> bytes:
    return message


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving({"Echo": UnaryMethod(echo)}) as running:
        yield running


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.one_of(frames, st.binary(max_size=200)), max_size=12),
    st.sampled_from([PREFACE + SETTINGS, PREFACE, b""]),
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
