"""Addresses to listen on: loopback unless told otherwise, and never in the open by accident."""

import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from agent_memory.kernel.errors import ConfigError, ListenFailed

LOOPBACK = ("127.0.0.1", "::1")
BACKLOG = 2048
FREE_PORT_TRIES = 20
NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def resolve_hosts(setting: str, host: str, *, refusal: str | None) -> tuple[str, ...]:
    """The addresses of a host setting. Where there is a `refusal`, loopback only."""
    if host in ("localhost", "loopback"):
        return LOOPBACK
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ConfigError(
            f"{setting} is {host!r}: give an IP address, or `localhost` for loopback"
        ) from None
    if refusal is not None and not address.is_loopback:
        raise ConfigError(f"{setting} is {host}, which other machines can reach: {refusal}")
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
                        f"cannot listen on {format_address(address, wanted)}: {exc.strerror}"
                    ) from exc
            return bound
        except ListenFailed as exc:
            failed = exc
            for listener in bound:
                listener.close()
    raise failed


def bind_path(path: Path) -> socket.socket:
    """A listening Unix socket for its owner alone. Its folder must be its owner's too."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        raise ListenFailed(f"cannot listen on {path}: {exc.strerror}") from exc
    return listener


def load_tls(certificate: str, key: str) -> ssl.SSLContext | None:
    """From the files that the settings name; None where they name none."""
    if not certificate and not key:
        return None
    files = {"http.tls_cert": certificate, "http.tls_key": key}
    for name, path in files.items():
        if not path:
            raise ConfigError(f"{name} is missing: TLS needs both http.tls_cert and http.tls_key")
        try:
            with key_file(path).open("rb"):
                pass
        except OSError as exc:
            raise ConfigError(f"{name}: cannot read {path}: {exc.strerror}") from exc
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # An empty password: otherwise a key that is locked would have it asked for at a terminal.
        context.load_cert_chain(key_file(certificate), key_file(key), password="")
    except ssl.SSLError as exc:
        raise ConfigError(
            f"http.tls_cert {certificate} and http.tls_key {key} cannot be used:"
            f" {exc.reason or exc}; they must be PEM, belong together, and have no password"
        ) from exc
    return context


def key_file(path: str) -> Path:
    """Relative to nothing: the daemon has no folder that anyone would expect."""
    found = Path(path).expanduser()
    if not found.is_absolute():
        raise ConfigError(f"{path!r} is no file for TLS: give an absolute path")
    return found


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


def format_address(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
