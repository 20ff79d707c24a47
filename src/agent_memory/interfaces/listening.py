"""Addresses to listen on: loopback unless told otherwise, and never in the open by accident."""

import errno
import ipaddress
import socket
from collections.abc import Sequence

from agent_memory.domain.errors import ConfigError, ListenFailed

LOOPBACK = ("127.0.0.1", "::1")
BACKLOG = 2048
FREE_PORT_TRIES = 20
NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def hosts(setting: str, host: str) -> tuple[str, ...]:
    """The addresses of a host setting. Anything but loopback is refused: there is no TLS yet."""
    if host in ("localhost", "loopback"):
        return LOOPBACK
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ConfigError(
            f"{setting} is {host!r}: give an IP address, or `localhost` for loopback"
        ) from None
    if not address.is_loopback:
        raise ConfigError(
            f"{setting} is {host}, which other machines can reach: refused without TLS and a key;"
            " use `localhost`"
        )
    return (str(address),)


def bind(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """A listening socket per address, all on one port; 0 takes one that is free on all of them.

    IPv6 is left out on a machine without it.
    """
    for _ in range(FREE_PORT_TRIES if port == 0 else 1):
        bound: list[socket.socket] = []
        try:
            for address in addresses:
                wanted = bound[0].getsockname()[1] if bound else port
                try:
                    bound.append(_listener(address, wanted))
                except OSError as exc:
                    if bound and ":" in address and exc.errno in NO_SUCH_ADDRESS:
                        continue
                    raise ListenFailed(
                        f"cannot listen on {shown(address, wanted)}: {exc.strerror}"
                    ) from exc
            return bound
        except ListenFailed as exc:
            failed = exc
            for listener in bound:
                listener.close()
    raise failed


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM
    )
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        # At once: until one of them listens, two processes may be bound to the same port.
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def shown(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
