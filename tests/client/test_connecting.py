"""Connecting, to a daemon and to nobody, losing it and finding it again."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from urllib.parse import quote

import grpc
import pytest

from agent_memory.client import (
    AsyncMemoryClient,
    ConnectionFailed,
    Event,
    InvalidEndpoint,
    MemoryClient,
    RpcError,
)
from agent_memory.proto import memory_pb2 as pb
from tests.client.client_kinds import ClientKind
from tests.client.conftest import Maker
from tests.client.stand_in import serving
from tests.daemon_process import Daemon

PATIENCE_SECONDS = 30.0
OPENSSL = which("openssl") or ""


@pytest.fixture
def at_home(shared_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """This process has the same folders as the daemon."""
    monkeypatch.setenv("HOME", str(shared_daemon.home))
    monkeypatch.delenv("MEMORY_ENDPOINT", raising=False)
    return shared_daemon


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def short_path() -> Iterator[Path]:
    """The path of a Unix socket may have 107 bytes, and pytest's are long."""
    with TemporaryDirectory(dir="/tmp", prefix="am-") as folder:
        yield Path(folder)


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize(
    "form", ["http://127.0.0.1:{port}", "http://[::1]:{port}", "localhost:{port}", "unix:{socket}"]
)
def test_every_address_of_the_daemon_is_reached(
    client_kind: ClientKind, shared_daemon: Daemon, form: str, hour: int
) -> None:
    endpoint = form.format(port=shared_daemon.port, socket=shared_daemon.socket)

    with client_kind.connect(endpoint) as client:
        assert client.get_events(hour, hour).events == ()


def test_the_default_is_the_daemon_of_the_data_folder(
    client_kind: ClientKind, at_home: Daemon, event: Maker, hour: int
) -> None:
    sent = event()
    with client_kind.connect_default() as client:
        client.ingest(sent)

    with client_kind.connect(f"unix:{at_home.socket}") as client:
        assert client.get_events(hour, hour).events == (sent,)


@pytest.mark.usefixtures("at_home")
def test_the_default_is_what_the_environment_names(
    client_kind: ClientKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving({"GetTocRoot": b""}) as other:
        monkeypatch.setenv("MEMORY_ENDPOINT", other.endpoint)
        with client_kind.connect_default() as client:
            client.get_toc_root()

        assert "GetTocRoot" in other.asked


def test_the_port_is_taken_where_the_socket_is_out_of_reach(
    client_kind: ClientKind,
    shared_daemon: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hour: int,
) -> None:
    record = tmp_path / ".local/share/agent-memory/daemon.json"
    record.parent.mkdir(parents=True)
    record.write_text(
        json.dumps({"pid": 1, "grpc_port": shared_daemon.port, "grpc_socket": "/nowhere/g.sock"})
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MEMORY_ENDPOINT", raising=False)

    with client_kind.connect_default() as client:
        assert client.get_events(hour, hour).events == ()


def test_a_daemon_that_was_killed_is_not_found_by_its_record(
    client_kind: ClientKind, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.kill()
    monkeypatch.setenv("HOME", str(daemon.home))
    monkeypatch.delenv("MEMORY_ENDPOINT", raising=False)

    with pytest.raises(ConnectionFailed) as caught, client_kind.connect_default():
        pass

    assert f"unix:{daemon.socket}: " in str(caught.value)
    assert f"http://127.0.0.1:{daemon.port}: " in str(caught.value)


def test_nobody_at_a_port_is_reported_with_the_reason(
    client_kind: ClientKind, free_port: int
) -> None:
    with (
        pytest.raises(ConnectionFailed, match=f"127.0.0.1:{free_port}: .*refused"),
        client_kind.connect(f"http://127.0.0.1:{free_port}"),
    ):
        pass


def test_nobody_at_a_socket_is_reported_with_the_reason(client_kind: ClientKind) -> None:
    with (
        pytest.raises(ConnectionFailed, match="No such file"),
        client_kind.connect("unix:/nowhere/grpc.sock"),
    ):
        pass


def test_a_port_that_says_nothing_is_given_up(client_kind: ClientKind, silent_port: int) -> None:
    with (
        pytest.raises(ConnectionFailed, match=f"127.0.0.1:{silent_port}"),
        client_kind.connect(f"http://127.0.0.1:{silent_port}", connect_seconds=0.2),
    ):
        pass


def test_an_endpoint_that_is_none_is_not_tried(client_kind: ClientKind) -> None:
    with pytest.raises(InvalidEndpoint), client_kind.connect("http://localhost"):
        pass


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.NOT_FOUND])
def test_whoever_answers_the_probe_is_there(
    client_kind: ClientKind, status: grpc.StatusCode
) -> None:
    with (
        serving({"Check": status, "GetTocRoot": b""}) as server,
        client_kind.connect(server.endpoint) as client,
    ):
        assert client.get_toc_root() == []


def test_a_web_proxy_is_not_asked_for_a_daemon_on_this_machine(
    client_kind: ClientKind,
    shared_daemon: Daemon,
    free_port: int,
    monkeypatch: pytest.MonkeyPatch,
    hour: int,
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port}")
    for name in ("no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)

    with client_kind.connect(f"http://127.0.0.1:{shared_daemon.port}") as client:
        assert client.get_events(hour, hour).events == ()


def test_a_socket_in_a_folder_with_any_name_is_reached(
    client_kind: ClientKind, short_path: Path
) -> None:
    listening = short_path / "100% (über).sock"
    with (
        serving({"GetTocRoot": b""}, address=f"unix:{quote(str(listening))}"),
        client_kind.connect(f"unix:{listening}") as client,
    ):
        assert listening.is_socket()
        assert client.get_toc_root() == []


def test_the_key_goes_with_every_call(client_kind: ClientKind, event: Maker, name: str) -> None:
    stored = pb.IngestEventsResponse(outcomes=[pb.IngestOutcome(event_id=name, created=True)])
    with (
        serving(
            {"GetTocRoot": b""}, {"IngestEvents": lambda _: stored.SerializeToString()}
        ) as server,
        client_kind.connect(server.endpoint, key="s3cret") as client,
    ):
        client.get_toc_root()
        client.ingest_batch([event(name)])

        assert len(server.keys) == 3  # the probe's is one
        assert set(server.keys) == {"Bearer s3cret"}


def test_the_key_of_the_environment_goes_where_none_is_given(
    client_kind: ClientKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_KEY", "am_environment")
    with serving({"GetTocRoot": b""}) as server, client_kind.connect(server.endpoint) as client:
        client.get_toc_root()

        assert set(server.keys) == {"Bearer am_environment"}


def test_no_key_is_sent_unless_given(client_kind: ClientKind) -> None:
    with serving({"GetTocRoot": b""}) as server, client_kind.connect(server.endpoint) as client:
        client.get_toc_root()

        assert set(server.keys) == {None}


@pytest.mark.parametrize("key", ["", "two words", "line\n", "ключ"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(
    client_kind: ClientKind, key: str
) -> None:
    with (
        pytest.raises(ValueError, match=r"^a key must be printable ASCII without blanks$"),
        client_kind.connect("http://127.0.0.1:1", key=key),
    ):
        pass


def test_a_call_that_takes_too_long_ends(client_kind: ClientKind, event: Maker) -> None:
    over = threading.Event()

    def keep_silent(_: bytes) -> bytes:
        assert over.wait(PATIENCE_SECONDS)
        return b""

    with (
        serving({}, {"IngestEvents": keep_silent}) as server,
        ExitStack() as stack,
        client_kind.connect(server.endpoint, timeout_seconds=0.2) as client,
    ):
        stack.callback(over.set)
        with pytest.raises(RpcError) as caught:
            client.ingest_batch([event()])

    assert caught.value.code == "DEADLINE_EXCEEDED"


def test_every_call_has_its_time_limit(client_kind: ClientKind) -> None:
    with (
        serving({"Check": b"", "GetTocRoot": b""}) as server,
        client_kind.connect(
            server.endpoint, timeout_seconds=2_000, connect_seconds=1_000
        ) as client,
    ):
        client.get_toc_root()

    # Bounds are wide: gRPC rounds what it sends.
    assert 0 < server.seconds["Check"] < 1_500 < server.seconds["GetTocRoot"] < 3_000


def test_no_call_waits_forever_by_default(client_kind: ClientKind) -> None:
    with (
        serving({"Check": b"", "GetTocRoot": b""}) as server,
        client_kind.connect(server.endpoint) as client,
    ):
        client.get_toc_root()

    assert 0 < server.seconds["Check"] < 10 < server.seconds["GetTocRoot"] < 60


def test_the_failures_of_one_client_do_not_delay_another(
    client_kind: ClientKind, short_path: Path
) -> None:
    address = f"unix:{short_path / 'grpc.sock'}"
    with ExitStack() as stack:
        with serving({"GetTocRoot": b""}, address=address):
            first = stack.enter_context(client_kind.connect(address))
        with pytest.raises(RpcError, match="UNAVAILABLE"):
            first.get_toc_root()

        with (
            serving({"GetTocRoot": b""}, address=address),
            client_kind.connect(address) as second,
        ):
            assert second.get_toc_root() == []


def test_a_closed_client_says_so(
    client_kind: ClientKind, shared_daemon: Daemon, event: Maker
) -> None:
    with client_kind.connect(f"unix:{shared_daemon.socket}") as client:
        client.close()
        client.close()

        with pytest.raises(ConnectionFailed, match="closed"):
            client.get_toc_root()
        with pytest.raises(ConnectionFailed, match="closed"):
            client.ingest_batch([event()])
        with pytest.raises(ConnectionFailed, match="closed"):
            list(client.iter_events(0, 1))


def test_a_client_outlives_the_daemon(
    client_kind: ClientKind, daemon: Daemon, event: Maker, hour: int
) -> None:
    before, after = event(after_ms=0), event(after_ms=1)
    with client_kind.connect(f"unix:{daemon.socket}") as client:
        client.ingest(before)
        daemon.kill()
        with pytest.raises(RpcError) as caught:
            client.ingest(after)
        assert caught.value.code == "UNAVAILABLE"
        daemon.start()

        _ingest_when_back(client, after)

        assert client.get_events(hour, hour + 1).events == (before, after)


def test_a_restart_that_no_call_noticed_costs_nothing(
    client_kind: ClientKind, daemon: Daemon, event: Maker, hour: int
) -> None:
    with client_kind.connect(f"unix:{daemon.socket}") as client:
        client.ingest(event())
        daemon.restart()

        assert len(client.get_events(hour, hour).events) == 1


def test_https_does_not_talk_in_the_clear(client_kind: ClientKind, shared_daemon: Daemon) -> None:
    with (
        pytest.raises(ConnectionFailed),
        client_kind.connect(f"https://localhost:{shared_daemon.port}", connect_seconds=2),
    ):
        pass


@pytest.mark.skipif(not OPENSSL, reason="openssl makes the certificate")
@pytest.mark.parametrize("client", [MemoryClient, AsyncMemoryClient])
def test_https_trusts_the_certificates_of_the_environment(client: type, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    # gRPC reads the variable once, so a process of its own is needed.
    program = f"""
import asyncio, sys
from agent_memory.client import {client.__name__} as Client
answer = Client.connect("https://localhost:" + sys.argv[1])
if asyncio.iscoroutine(answer):
    asyncio.run(answer)
"""
    with serving({}, address="localhost:0", credentials=credentials) as server:
        run = [sys.executable, "-c", program, str(server.port)]
        trusting = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate)}
        subprocess.run(run, check=True, env=trusting)
        stranger = subprocess.run(run, check=False, capture_output=True, text=True)

    assert "ConnectionFailed" in stranger.stderr
    assert "certificate" in stranger.stderr.lower()


def _ingest_when_back(client: MemoryClient, event: Event) -> None:
    """As a program would: again until it works. How soon it does is the channel's affair."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            client.ingest(event)
        except RpcError as exc:
            if exc.code != "UNAVAILABLE" or time.monotonic() > deadline:
                raise
        else:
            return
