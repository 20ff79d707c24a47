"""Addresses to listen on: loopback unless told otherwise, and never in the open by accident."""

import errno
import ipaddress
import socket

from agent_memory.domain.errors import ConfigError, ListenFailed

LOOPBACK = ("127.0.0.1", "::1")


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


def bind(addresses: tuple[str, ...], port: int) -> list[socket.socket]:
    """A listening socket per address, all on one port; 0 takes a free one."""
    bound: list[socket.socket] = []
    try:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            listener = socket.socket(family, socket.SOCK_STREAM)
            bound.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address, port))
            port = listener.getsockname()[1]
    except OSError as exc:
        failed = bound.pop()
        failed.close()
        # A machine without IPv6 still has IPv4.
        if bound and failed.family == socket.AF_INET6 and exc.errno != errno.EADDRINUSE:
            return bound
        for listener in bound:
            listener.close()
        raise ListenFailed(f"cannot listen on port {port}: {exc.strerror}") from exc
    return bound


def shown(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
