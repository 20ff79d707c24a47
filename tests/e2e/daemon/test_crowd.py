"""Hundreds of connections that never say what they want: the owner is served all the same."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.command_runner import SECONDS, Home, wait_until
from tests.memory_client import Client

CROWD = 512
FILES = 1_024  # that a daemon may often open at first


@pytest.fixture
def home() -> Iterator[Home]:
    """Its daemon starts with as few open files as is usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 8 * CROWD:
        pytest.skip("this system allows no crowd")
    with Home() as created:
        answer = created.run_shell(f"ulimit -S -n {FILES}; exec $RUN_daemon start")
        assert answer.code == 0, answer
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            yield created
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


def test_keeps_no_one_out(home: Home, connections: ExitStack) -> None:
    status = home.status()
    http, grpc = status["http_port"], status["grpc_port"]
    request = b"GET /status HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
    hello = b"PRI * HTTP/2.0\r\n"
    for _ in range(CROWD):
        _slow(connections, ("127.0.0.1", http), request)
        _slow(connections, ("127.0.0.1", grpc), hello)
    for _ in range(CROWD):
        _slow(connections, Path(status["socket"]), b"H")
    wait_until(lambda: _open_files(home) > 2 * CROWD, "the daemon has them")

    for _ in range(3):
        assert _asked(http, (home.data / "key").read_text().strip()) == 200
        with Client(f"127.0.0.1:{grpc}") as client:
            assert list(client.all_events()) == []
        assert home.status()["pid"] == home.pid()


def _slow(held: ExitStack, address: "tuple[str, int] | Path", said: bytes) -> None:
    family = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    connection = held.enter_context(socket.socket(family))
    connection.settimeout(SECONDS)
    with suppress(OSError):  # it may be turned away
        connection.connect(str(address) if isinstance(address, Path) else address)
        connection.sendall(said)


def _asked(port: int, key: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", "/api/v1/status/", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status
    finally:
        connection.close()


def _open_files(home: Home) -> int:
    return sum(1 for _ in Path(f"/proc/{home.pid()}/fd").iterdir())
