"""Addresses: one port for all of them, taken at once, and named where it cannot be had."""

import contextlib
import os
import socket
import ssl
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from agent_memory.interfaces import listening
from agent_memory.kernel.errors import ConfigError, ListenFailed

IPV4 = ("127.0.0.1",)


@contextlib.contextmanager
def bound(addresses: Sequence[str], port: int = 0) -> Iterator[int]:
    """Listeners for a while: their port."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in listening.bind(addresses, port)]
        (found,) = {each.getsockname()[1] for each in sockets}
        yield found


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6_loopback(), reason="no IPv6 here")


def test_a_port_is_taken_as_soon_as_it_is_bound() -> None:
    with bound(IPV4) as port, pytest.raises(ListenFailed, match=rf"127\.0\.0\.1:{port}: "):
        listening.bind(IPV4, port)


def test_it_is_free_again_when_closed() -> None:
    with bound(IPV4) as port:
        pass
    with bound(IPV4, port) as again:
        assert again == port


@needs_ipv6
def test_a_free_port_is_free_on_all_addresses() -> None:
    with bound(listening.LOOPBACK) as port:
        for host in listening.LOOPBACK:
            with socket.create_connection((host, port), 10):
                pass


@needs_ipv6
def test_one_that_is_taken_on_ipv6_only_is_refused_and_let_go_of() -> None:
    with bound(("::1",)) as port:
        with pytest.raises(ListenFailed, match=rf"\[::1\]:{port}: "):
            listening.bind(listening.LOOPBACK, port)
        with bound(IPV4, port) as again:
            assert again == port


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ListenFailed, match=r"192\.0\.2\.1"):
        listening.bind(("192.0.2.1",), 0)


def test_on_a_machine_without_an_ipv6_address_it_is_left_out() -> None:
    with bound(("127.0.0.1", "2001:db8::1")) as port, bound(("127.0.0.2",), port):
        pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1"])  # noqa: S104
def test_where_there_is_a_refusal_only_loopback_is_served(host: str) -> None:
    with pytest.raises(ConfigError, match=rf"http\.host is {host}, .* reach: not without TLS"):
        listening.resolve_hosts("http.host", host, refusal="not without TLS")
    assert listening.resolve_hosts("http.host", host, refusal=None) == (host,)


@pytest.mark.parametrize("refusal", [None, "no"])
def test_loopback_may_always_be_served(refusal: str | None) -> None:
    assert listening.resolve_hosts("http.host", "localhost", refusal=refusal) == listening.LOOPBACK
    assert listening.resolve_hosts("http.host", "127.0.0.2", refusal=refusal) == ("127.0.0.2",)
    with pytest.raises(ConfigError, match="give an IP address"):
        listening.resolve_hosts("http.host", "example.org", refusal=refusal)


def test_a_unix_socket_is_its_owners_alone() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="am-") as folder:
        path = Path(folder) / "http.sock"
        with listening.bind_path(path), socket.socket(socket.AF_UNIX) as client:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            client.connect(os.fspath(path))
            with pytest.raises(ListenFailed, match=r"http\.sock"):
                listening.bind_path(path)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    issued = trustme.CA().issue_cert("localhost")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "chain.pem", folder / "key.pem"
    certificate.write_bytes(issued.cert_chain_pems[0].bytes())
    key.write_bytes(issued.private_key_pem.bytes())
    return certificate, key


def test_tls_is_of_a_certificate_and_its_key(certified: tuple[Path, Path]) -> None:
    created = listening.load_tls(*map(str, certified))
    assert created is not None
    assert created.minimum_version == ssl.TLSVersion.TLSv1_2


def test_without_either_there_is_none() -> None:
    assert listening.load_tls("", "") is None


def test_what_is_wrong_with_them_is_said(certified: tuple[Path, Path], tmp_path: Path) -> None:
    certificate, key = certified
    empty, locked = tmp_path / "empty.pem", tmp_path / "locked.pem"
    empty.touch()
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    locked.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    tried: list[tuple[object, object, str]] = [
        (certificate, "", r"http\.tls_key is missing: TLS needs both"),
        ("", key, r"http\.tls_cert is missing: TLS needs both"),
        (tmp_path / "none.pem", key, r"http\.tls_cert: cannot read .*none\.pem: No such file"),
        (certificate, tmp_path, r"http\.tls_key: cannot read .*directory"),
        (empty, key, "cannot be used"),
        (certificate, empty, "cannot be used"),
        (certificate, locked, "no password"),
        (key, certificate, "belong together"),
        ("chain.pem", key, "use an absolute one"),
    ]
    for one, other, words in tried:
        with pytest.raises(ConfigError, match=words):
            listening.load_tls(str(one), str(other))
