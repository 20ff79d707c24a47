"""A team server that other machines reach: TLS for HTTP and gRPC, with real clients."""

import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grpc
import httpx
import pytest
import trustme

from agent_memory.features.upstream.adapters.http_server import HttpTeamServer
from agent_memory.kernel.errors import RemoteUnavailable
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import SECONDS, Home
from tests.team_server import CONFIG, TeamServer

EVERYWHERE = "0.0.0.0"  # noqa: S104  # with TLS
METHOD = "/memory.MemoryService/Search"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    issued = authority.issue_cert("localhost", "127.0.0.1")
    folder = tmp_path_factory.mktemp("tls")
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    key.chmod(0o600)
    return f'tls_cert = "{chain}"\ntls_key = "{key}"\n'


@pytest.fixture(scope="module")
def server(files: str) -> Iterator[TeamServer]:
    with Home() as home:
        home.configure(
            f'{CONFIG}[http]\nhost = "{EVERYWHERE}"\n{files}[grpc]\nhost = "{EVERYWHERE}"\n{files}'
        )
        yield TeamServer(home)


def search(channel: grpc.Channel, secret: str) -> pb.SearchResponse:
    call = channel.unary_unary(
        METHOD,
        request_serializer=pb.SearchRequest.SerializeToString,
        response_deserializer=pb.SearchResponse.FromString,
    )
    metadata = (("authorization", f"Bearer {secret}"),)
    answer: pb.SearchResponse = call(pb.SearchRequest(), metadata=metadata, timeout=SECONDS)
    return answer


def test_both_are_served_over_tls_alone(server: TeamServer, authority: trustme.CA) -> None:
    secret = server.create("ada").secret
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    url = f"https://localhost:{server.http_port}/api/v1/search/"
    with httpx.Client(verify=trust, trust_env=False) as client:
        answer = client.get(url, headers={"authorization": f"Bearer {secret}"})
        assert answer.status_code == 200
        assert client.get(url).status_code == 401
    credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    target = f"localhost:{server.grpc_port}"
    with grpc.secure_channel(target, credentials) as channel:
        assert search(channel, secret).total == 0
        with pytest.raises(grpc.RpcError) as refused:
            search(channel, "am_wrong")
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    with grpc.insecure_channel(target) as plain, pytest.raises(grpc.RpcError) as failed:
        search(plain, secret)
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert server.home.status()["grpc_addresses"] == [f"{EVERYWHERE}:{server.grpc_port}"]
    assert server.home.status()["warnings"] == []


def test_a_laptop_says_that_it_does_not_trust_the_certificate(server: TeamServer) -> None:
    url = f"https://localhost:{server.http_port}"
    with closing(HttpTeamServer(url, "am_x", "")) as remote:
        with pytest.raises(RemoteUnavailable, match="does not trust the certificate") as failure:
            remote.identify("laptop")
        assert "upstream.certificates" in str(failure.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "grpc.tls_cert and grpc.tls_key"),
        ("require_key = false\n{files}", "grpc.require_key"),
        ('tls_key = "/nowhere/key.pem"\n', "grpc.tls_cert is missing"),
        ('tls_cert = "/nowhere/a"\ntls_key = "/nowhere/b"\n', "cannot read /nowhere/a"),
    ],
)
def test_in_the_open_grpc_does_not_start_otherwise(files: str, lines: str, message: str) -> None:
    with Home() as home:
        home.configure(f'[grpc]\nhost = "{EVERYWHERE}"\n{lines.format(files=files)}')
        answer = home.run("memory-daemon", "start")
        assert answer.code == 3
        assert message in answer.errors
        assert not Path(home.data / "daemon.json").exists()
