"""Addresses: one port for all of them, taken at once, and named where it cannot be had."""

import contextlib
import socket
from collections.abc import Iterator, Sequence

import pytest

from agent_memory.domain.errors import ListenFailed
from agent_memory.interfaces import listening

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
